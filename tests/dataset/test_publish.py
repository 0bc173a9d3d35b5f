"""A dataset as others get it: published whole, with a list of what is missing, and read alike by every library."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.dataset.combine import combine
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.publish import publish
from kgqa_hpc.errors import CorruptFile, InputError
from kgqa_hpc.store.canonical import sha256_of
from tests.dataset.conftest import records_of
from tests.work.rig import reconfigure


@pytest.fixture
def run(make_merged: Any) -> Any:
    return make_merged()[0]


def test_the_folder_checks_itself_and_holds_dataset_and_exports(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = publish(run.folder, out, ["messages", "lm-eval"])
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    files = {"README.md", "croissant.json", "accepted.jsonl", "exports/messages/train.jsonl"}
    assert files <= set(done.files)
    assert (out / "accepted.jsonl").read_bytes() == (run.folder.dataset / "accepted.jsonl").read_bytes()
    assert "upload --repo-type dataset" in str(done)


def test_what_is_missing_is_said_with_its_key(make_run: Any, make_merged: Any, tmp_path: Path) -> None:
    told = {"licence": "CC0-1.0", "citation": "Doe", "contact": "doe@x.org", "split": {"by": "id"}}
    run, _ = make_merged(dataset=told)
    assert publish(run.folder, tmp_path / "out").missing == [f"the report: kgqa report {run.folder.path}"]
    plain = make_run(name="plain")
    plain.merge("shard-000000", partial=True)
    missing = " ".join(publish(plain.folder, tmp_path / "half").missing)
    for key in ("dataset.licence", "dataset.citation", "dataset.contact", "dataset.split", "7 of 8 shards"):
        assert key in missing


def test_nothing_that_was_put_beside_the_dataset_is_published(run: Any, tmp_path: Path) -> None:
    """Whoever may write into the run could else publish any file of the one who publishes."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (run.folder.dataset / "notes.txt").symlink_to(secret)
    out = tmp_path / "out"
    publish(run.folder, out)
    assert not (out / "notes.txt").exists()
    with (run.folder.dataset / "SHA256SUMS").open("a") as sums:
        sums.write(f"{sha256_of(secret)}  notes.txt\n")
    with pytest.raises(CorruptFile, match=r"notes.txt: is damaged"):
        publish(run.folder, out)


def test_only_a_folder_of_an_earlier_publication_is_replaced(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="no export wrote"):
        publish(run.folder, tmp_path)
    publish(run.folder, tmp_path / "out")
    done = CliRunner().invoke(app, ["publish", str(run.folder.path), str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["missing"]


LOAD = """
import sys, datasets
datasets.disable_progress_bars()
for folder in sys.argv[1:]:
    for config in datasets.get_dataset_config_names(folder):
        rows = datasets.load_dataset(folder, config)
        print(*(f"{config}/{split}={len(part)}" for split, part in rows.items()))
"""


def rows(cache: Path, *folders: Path) -> list[str]:
    """What `datasets` says of the folders, with one cache for all and no network."""
    environment = {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(cache)}
    command = [sys.executable, "-c", LOAD, *map(str, folders)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def counts(folder: Path) -> list[str]:
    return [f"{name}/train={len(records_of(folder, name))}" for name in ("accepted", "rejected")]


@pytest.mark.slow
def test_one_cache_never_serves_rows_of_another_run_or_older_merge(make_merged: Any, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    one, two = make_merged(name="one/run")[0], make_merged(name="two/run", items=24)[0]
    folders = [run.folder.dataset for run in (one, two, one)]
    assert rows(tmp_path / "cache", *folders) == [line for folder in folders for line in counts(folder)]
    before = counts(one.folder.dataset)
    reconfigure(one.folder, dataset={"z_score": None})
    merge(one.folder)
    assert counts(one.folder.dataset) != before
    assert rows(tmp_path / "cache", one.folder.dataset) == counts(one.folder.dataset)


@pytest.mark.slow
def test_each_configuration_can_be_loaded_when_nothing_was_rejected(make_merged: Any, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    run, accounting = make_merged(items=5)
    assert accounting.total.accepted == 5
    assert rows(tmp_path / "cache", run.folder.dataset) == ["accepted/train=5"]


@pytest.mark.slow
def test_splits_empty_parts_and_combinations_load_as_cards_say(make_merged: Any, tmp_path: Path) -> None:
    """A part without records is no split, for `datasets` loads nothing of a configuration that names an empty file;
    and without a card it would give accepted and rejected records as one.
    """
    pytest.importorskip("datasets")
    divided, accounting = make_merged(dataset={"split": {"shares": {"train": 0.7, "test": 0.3}}})
    whole, said = make_merged(name="whole/run", dataset={"split": {"by": "kind"}})
    runs = [make_merged(name="one/run")[0], make_merged(name="two/run", items=24, seed=8)[0]]
    combine(tmp_path / "out", [run.folder for run in runs])
    parts = {name: part["records"] for name, part in accounting.splits["parts"].items()}
    assert sum(parts.values()) == accounting.total.accepted
    assert "test: empty, for records that share kind stay together" in str(said)
    said.splits["groups"] = 0  # without any accepted record, another column would not help
    assert "stay together" not in str(said)
    lines = rows(tmp_path / "cache", divided.folder.dataset, whole.folder.dataset, tmp_path / "out")
    assert lines[0] == " ".join(f"accepted/{name}={number}" for name, number in parts.items())
    assert lines[2] == f"accepted/train={said.total.accepted}"
    assert lines[4:] == counts(tmp_path / "out")


def test_pandas_polars_and_duckdb_give_the_same_rows(merged: Any) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    folder = merged[0].folder.dataset
    for name in ("accepted", "rejected"):
        path = str(folder / f"{name}-00000-of-00001.parquet")
        # A struct without fields (no step measured a feature) is what Parquet cannot hold.
        records = [{k: v for k, v in record.items() if v != {}} for record in records_of(folder, name)]
        assert polars.read_parquet(path).to_dicts() == records
        assert duckdb.sql(f"from '{path}'").to_arrow_table().to_pylist() == records
        rows_of_pandas = pandas.read_parquet(path, dtype_backend="pyarrow").to_dict("records")
        assert [json.loads(json.dumps(row, default=list)) for row in rows_of_pandas] == records
