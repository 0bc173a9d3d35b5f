"""`kgqa ls` names every run with its state, `kgqa clean` deletes only what no result needs."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.status import snapshot
from kgqa_hpc.status.render import render_runs
from kgqa_hpc.status.snapshot import clean, leftovers, runs_below
from kgqa_hpc.store.run_folder import RunFolder
from tests.command import kgqa
from tests.runs import make_run


def test_runs_are_listed_with_their_state_and_a_damaged_one_with_its_problem(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "first", 20)
    damaged = make_run(tmp_path / "second", 20)
    damaged.manifest_file.write_text("{")
    rows = json.loads(kgqa("ls", tmp_path, "--json").stdout)
    assert [Path(row["path"]).name for row in rows] == ["first", "second"]
    assert [row["state"] for row in rows] == ["sampled", "damaged"]
    assert str(damaged.manifest_file) in render_runs(rows, tmp_path)


@pytest.mark.parametrize("text", ["", "passes: [", "passes: [1]"])
def test_a_configuration_that_somebody_edits_hides_no_status_and_a_broken_one_can_be_made_again(
    text: str, run: RunFolder
) -> None:
    run.config_file.write_text(text)
    assert len(runs_below(run.path)) == 1
    assert "20" in kgqa("status", run.path).stdout
    assert text.endswith("]") or "remove it, and run kgqa init" in kgqa("run", run.path, code=2).stderr


def test_folders_of_other_users_do_not_hide_the_runs_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "run", 20)
    listing = os.scandir
    for name in ("before", "private", "zero"):
        (tmp_path / name).mkdir()

    def scandir(path: str) -> Any:
        if Path(path).name in ("before", "private", "zero"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert [Path(row["path"]).name for row in runs_below(tmp_path)] == ["run"]


def test_a_merged_run_is_listed_with_the_accepted_records_of_its_dataset(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 20)
    run.dataset.mkdir()
    (run.dataset / "accounting.json").write_text('{"accepted": 1234}')
    (row,) = runs_below(tmp_path)
    assert row["merged"] == 1234
    rows = [row | {"items": {"total": 2000, "ended": 2000}, "accepted": 1500}]
    assert render_runs(rows, tmp_path).endswith("1,500 accepted · 1,234 in the dataset")


def test_a_folder_without_runs_says_so_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    assert "no run below" in kgqa("ls", tmp_path).stdout
    with pytest.raises(InputError, match="no such folder"):
        runs_below(tmp_path / "none")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "run", 20)
    (made.path / "leases" / "main").mkdir(parents=True)
    (made.logs / "job").mkdir(parents=True)
    (made.logs / "job" / "w0.jsonl").write_text("{}\n")
    (made.results("main")).mkdir(parents=True)
    (made.results("main") / "shard-000000.w0.journal").write_text("answers")
    return made


def test_cleaning_lists_first_and_deletes_only_with_yes(run: RunFolder) -> None:
    kept = {path for path in run.path.rglob("*") if not path.is_relative_to(run.logs)}
    kept -= {run.path / "leases", run.path / "leases" / "main"}
    assert f"kgqa clean {run.path} --yes" in kgqa("clean", run.path).stdout
    assert run.logs.exists()
    kgqa("clean", run.path, "--yes")
    assert set(run.path.rglob("*")) == kept
    assert "nothing to delete" in kgqa("clean", run.path).stdout
    clean(leftovers(run.path))


def test_a_run_at_work_is_not_cleaned(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "survey", lambda folder: {"workers": {"alive": 2}})
    with pytest.raises(InputError, match="2 workers are at work"):
        leftovers(run.path)
