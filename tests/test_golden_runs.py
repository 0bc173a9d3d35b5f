"""Runs as each version of the formats first wrote them can be looked at, merged and used for ever.

tests/golden_runs/vN: nine graphlets of a graph of 14 nodes, answered by the scripted engine. v1 was made
by kgqa_hpc 0.1.0 and is read after `tools/upgrade_v1.py`, v2 by 0.2.0; both never change.
"""

import json
import shutil
from pathlib import Path

import pytest

import kgqa_hpc
from kgqa_hpc import stages
from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, OlderFormat
from kgqa_hpc.kg.file import read_graph
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import MOST, read_summary
from kgqa_hpc.work.run import run_command
from tests.by_path import load
from tests.record_runs import config_of, made_run

upgrade = load(Path(__file__).parents[1] / "tools" / "upgrade_v1.py")
GOLDEN = Path(__file__).parent / "golden_runs"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir())


@pytest.fixture(params=VERSIONS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "v1":
        assert upgrade.upgrade(GOLDEN / "v1", tmp_path / "run") == 3
    else:
        shutil.copytree(GOLDEN / request.param, tmp_path / "run")
    return tmp_path / "run"


def test_it_is_looked_at_merged_and_reported(run: Path) -> None:
    opened = kgqa_hpc.open(run)
    state = opened.status
    assert state["items"] == {"total": 9, "ended": 9}
    assert sum(state["verdicts"].values()) == 9
    counts = stages.merge(run)
    assert counts.total.sampled == 9
    assert counts.total.accepted == state["verdicts"]["accepted"]
    assert sorted(counts.groups) == ["shape 1", "shape 2", "shape 4"]
    stages.report(run)
    record = next(opened.dataset.records())
    assert record["triples"]
    assert record["graphlet_id"] in (1, 2, 4)
    story = opened.explain(record["id"])
    assert story["status"] == "accepted"
    assert story["anchor"]["group"] == record["group"]


def test_its_records_are_the_anchors_of_another_run(run: Path, tmp_path: Path) -> None:
    accepted = stages.merge(run).total.accepted
    config = config_of({"use": "judge", "as": "again"}, anchors="run")
    dataset = kgqa_hpc.open(made_run(tmp_path, config, "next")).dataset
    records = [*dataset.records("accepted"), *dataset.records("rejected")]
    assert len(records) == accepted
    assert {tuple(record["verdicts"]) for record in records} == {("again",)}


def test_a_run_of_version_1_is_refused_with_its_converter_in_one_line(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1", tmp_path / "run")
    for verb in (kgqa_hpc.open, run_command, stages.merge):
        with pytest.raises(OlderFormat, match=r"a run of kgqa_hpc 0\.1\.0") as caught:
            verb(tmp_path / "run")
        assert "\n" not in caught.value.message
        assert "tools/upgrade_v1.py" in caught.value.cure
    assert not (tmp_path / "run" / "quarantine").exists()


def test_a_converted_run_is_not_worked_on_because_its_prompts_are_gone(tmp_path: Path) -> None:
    upgrade.upgrade(GOLDEN / "v1", tmp_path / "run")
    with pytest.raises(FingerprintMismatch, match=r"prompts\.modules\.p5"):
        run_command(tmp_path / "run")


def test_a_converted_run_has_what_the_old_one_recorded(tmp_path: Path) -> None:
    upgrade.upgrade(GOLDEN / "v1", tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    for path in sorted((GOLDEN / "v1/results/main").glob("*.h5")):
        old = json.loads(path.read_bytes()[:1024])
        new = read_summary(run.result("main", path.stem), run.origin("main"))
        for key in ("counts", "reasons", "tokens", "rows"):
            assert new[key] == old[key]
    assert read_graph(run.kg).num_edges == 25


@pytest.mark.parametrize("folder", ["nothing", "v2", "again"])
def test_the_converter_refuses_in_one_line_and_writes_nothing(
    tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = GOLDEN / "v2" if folder == "again" else tmp_path / "new"
    source = GOLDEN / ("v1" if folder == "again" else folder)
    monkeypatch.setattr("sys.argv", ["upgrade_v1.py", str(source), str(target)])
    assert upgrade.main() == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "new").exists()


def test_a_conversion_that_fails_midway_leaves_nothing(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1", tmp_path / "run")
    damaged = max((tmp_path / "run" / "results" / "main").iterdir())
    damaged.write_bytes(damaged.read_bytes() + b"x")
    with pytest.raises(CorruptFile, match=damaged.name):
        upgrade.upgrade(tmp_path / "run", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_golden_files_are_of_the_versions_they_say() -> None:
    for version in VERSIONS:
        block = (GOLDEN / version / "anchors.h5").read_bytes()[:1024]
        assert json.loads(block)["version"] == int(version[1:])


@pytest.mark.parametrize("number", [2**63, 10**30, -7, "many"])
def test_the_converter_bounds_token_counts_that_a_server_claimed(number: object) -> None:
    old = {"id": "g1", "status": "accepted", "reason": None, "output": {"question": "?"}, "verdicts": {}}
    new = upgrade.record({**old, "trace": [{"step": "generate", "tokens": {"prompt": number, "cached": 3}}]})
    assert 0 <= new["trace"][0]["tokens"]["prompt"] <= MOST
    assert new["trace"][0]["tokens"]["cached"] == 3
    assert new["decided"] is True
