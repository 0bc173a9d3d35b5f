"""Nothing foreign is merged: each file says what made it, and a run takes only its own."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.fingerprint import anchors_origin, keeps_own, pass_digest
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import sweep
from kgqa_hpc.store.results import read_result, write_result
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_anchors

BASE: dict[str, Any] = {
    "seed": 1,
    "graph": {"source": "hpo"},
    "anchors": {"per_shape": 10},
    "engine": {"kind": "scripted", "model": "large"},
    "passes": [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}],
}


def sections(**changed: Any) -> dict[str, dict[str, Any]]:
    return fingerprint(parse_config({**copy.deepcopy(BASE), **changed}, "the test"))


def make(folder: Path, make_anchor: Any, **changed: Any) -> RunFolder:
    """A run of which every shard of the first pass is done."""
    config = parse_config({**copy.deepcopy(BASE), **changed}, "the test")
    run = RunFolder.create(folder, config.model_dump(mode="json"), fingerprint(config))
    anchors = [make_anchor(n) for n in range(4)]
    write_anchors(run.anchors, anchors, anchors_origin(run.manifest().sections))
    for entry in partition(run, 2).shards:
        rows = [{"id": f"{entry.name}-{n}", "status": "open"} for n in range(2)]
        write_result(
            run.result("draft", entry.name), rows, run.origin("draft").header(entry.name, entry.sha256)
        )
    return run


@pytest.mark.parametrize(
    "changed",
    [
        {"anchors": {"per_shape": 99}},
        {"dataset": {"z_score": None}},
        {"runtime": {"shard_size": 7}},
        {"passes": BASE["passes"][:1]},
        {"passes": [BASE["passes"][0], {**BASE["passes"][1], "engine": {"kind": "cpu"}}]},
    ],
)
def test_more_anchors_later_passes_and_the_dataset_do_not_change_what_a_first_pass_is(changed: Any) -> None:
    assert pass_digest(sections(**changed), "draft") == pass_digest(sections(), "draft")


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2},
        {"graph": {"source": "hpo", "min_degree": 4}},
        {"engine": {"kind": "scripted", "model": "cheap"}},
        {"prompts": {"generate": "p1_1"}},
        {"prompts": {"edge_types": False}},
    ],
)
def test_graph_seed_engine_and_prompts_change_it_and_every_pass_behind(changed: Any) -> None:
    for name in ("draft", "check"):
        assert pass_digest(sections(**changed), name) != pass_digest(sections(), name)


def test_a_result_of_a_cheaper_model_is_neither_counted_nor_read_and_is_done_again(
    tmp_path: Path, make_anchor: Any
) -> None:
    run = make(tmp_path / "run", make_anchor)
    cheap = make(tmp_path / "cheap", make_anchor, engine={"kind": "scripted", "model": "cheap"})
    foreign = run.result("draft", "shard-000001")
    shutil.copy(cheap.result("draft", "shard-000001"), foreign)
    assert survey(run.path)["passes"][0]["shards_done"] == 1
    with pytest.raises(CorruptFile, match="made with another configuration"):
        read_result(foreign, run.origin("draft"))
    assert sweep(run, "draft").quarantined == 1
    assert not foreign.exists()
    assert "another configuration" in next(run.quarantine.glob("*.reason.json")).read_text()


def test_a_result_of_the_first_pass_is_none_of_the_second(tmp_path: Path, make_anchor: Any) -> None:
    run = make(tmp_path / "run", make_anchor)
    run.results("check").mkdir()
    shutil.copy(run.result("draft", "shard-000000"), run.result("check", "shard-000000"))
    assert sweep(run, "check").quarantined == 1
    assert sweep(run, "draft").quarantined == 0


def test_anchors_of_another_seed_are_set_aside_and_never_cut(tmp_path: Path, make_anchor: Any) -> None:
    run = make(tmp_path / "run", make_anchor)
    other = make(tmp_path / "other", make_anchor, seed=2)
    shutil.copy(other.anchors, run.anchors)
    with pytest.raises(CorruptFile, match="another configuration") as caught:
        partition(run, 2)
    assert "kgqa sample" in caught.value.cure
    assert not keeps_own(run.quarantine, run.anchors, "anchors", anchors_origin(run.manifest().sections))
    assert not run.anchors.exists()


def test_a_deleted_manifest_is_made_again_when_the_files_fit(tmp_path: Path, make_anchor: Any) -> None:
    run = make(tmp_path / "run", make_anchor)
    before = run.manifest().sections
    run.manifest_file.unlink()
    with pytest.raises(Exception, match="the run is there, but its manifest") as caught:
        RunFolder.open(run.path)
    assert "empty" not in str(caught.value)
    RunFolder.create(run.path, run.config(), before)
    assert run.manifest().sections == before


def test_a_deleted_manifest_lets_no_other_configuration_in(tmp_path: Path, make_anchor: Any) -> None:
    run = make(tmp_path / "run", make_anchor)
    run.manifest_file.unlink()
    with pytest.raises(Exception, match="made with another configuration") as caught:
        RunFolder.create(run.path, run.config(), sections(seed=2))
    assert "empty" not in str(caught.value)
    assert not run.manifest_file.exists()
