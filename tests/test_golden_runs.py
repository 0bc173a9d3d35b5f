"""Runs as each version of the formats first wrote them can be looked at, merged and used for ever.

tests/golden_runs/vN: nine graphlets of a graph of 14 nodes, answered by the scripted engine. v1 was made
by kgqa_hpc 0.1.0, v2 by 0.2.0; both never change.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

import kgqa_hpc
from kgqa_hpc import stages
from kgqa_hpc.errors import FingerprintMismatch
from kgqa_hpc.work.run import run_command

GOLDEN = Path(__file__).parent / "golden_runs"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir())


@pytest.fixture(params=VERSIONS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
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
    (tmp_path / "again.yaml").write_text(
        yaml.safe_dump(
            {
                "anchors": {"kind": "records", "from": "run"},
                "engine": {"kind": "scripted"},
                "passes": [{"name": "main", "steps": [{"use": "judge", "as": "again"}]}],
            }
        )
    )
    made = stages.all_stages(tmp_path / "again.yaml", tmp_path / "next")
    records = [
        one for which in ("accepted", "rejected") for one in kgqa_hpc.open(made.path).dataset.records(which)
    ]
    assert len(records) == accepted
    assert {tuple(record["verdicts"]) for record in records} == {("again",)}


def test_a_run_of_version_1_is_not_gone_on_with_and_says_so_in_one_line(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1", tmp_path / "run")
    with pytest.raises(FingerprintMismatch, match=r"was made by kgqa_hpc 0\.1\.0") as caught:
        run_command(tmp_path / "run")
    assert "\n" not in caught.value.message
    assert not (tmp_path / "run" / "quarantine").exists()


def test_the_golden_files_are_of_the_versions_they_say() -> None:
    for version in VERSIONS:
        block = (GOLDEN / version / "anchors.h5").read_bytes()[:1024]
        assert json.loads(block)["version"] == int(version[1:])
