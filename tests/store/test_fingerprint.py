"""Fingerprint and origin: settings that change the dataset change them, and nothing foreign is merged."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines import operational
from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, InputError
from kgqa_hpc.prompts.files import shipped_prompts
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.fingerprint import anchors_origin, keeps_own, pass_digest, require_same
from kgqa_hpc.store.fingerprint import fingerprint as sections_of
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import sweep
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_result, write_anchors, write_result
from tests.store.conftest import anchor

BASE: dict[str, Any] = {
    "seed": 1,
    "graph": {"source": "csv", "nodes": "/home/a/nodes.csv", "edges": "/home/a/edges.csv"},
    "anchors": {"per_shape": 10},
    "engine": {"kind": "scripted", "model": "large"},
    "passes": [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}],
}
GRAPH, ENGINE, (DRAFT, CHECK) = BASE["graph"], BASE["engine"], BASE["passes"]
MOVED = {"nodes": "/scratch/nodes.csv", "edges": "/scratch/edges.csv"}
# What is changed, whether that changes the fingerprint, and the passes whose digest it changes.
CHANGES: list[tuple[dict[str, Any], bool, str]] = [
    ({"runtime": {"shard_size": 7, "window": 3}}, False, ""),
    ({"dataset": {"z_score": None}}, False, ""),
    ({"prompts": {"folder": str(shipped_prompts())}}, False, ""),
    ({"graph": {**GRAPH, **MOVED}}, False, ""),
    ({"engine": {**ENGINE, "latency": {"batch": 7}}}, False, ""),
    ({"passes": [{**DRAFT, "engine": ENGINE}, CHECK]}, False, ""),
    ({"anchors": {"per_shape": 99}}, True, ""),
    ({"passes": [DRAFT, {**CHECK, "engine": {"kind": "cpu"}}]}, True, "check"),
    ({"passes": [{**DRAFT, "engine": {"kind": "cpu"}}, CHECK]}, True, "draft check"),
    ({"passes": [{"name": "draft", "steps": [{"use": "generate", "prompt": "p1_1"}]}, CHECK]}, True, "draft check"),
    ({"seed": 2}, True, "draft check"),
    ({"graph": {**GRAPH, "min_degree": 4}}, True, "draft check"),
    ({"graph": {**GRAPH, "nodes": "/home/a/other.csv"}}, True, "draft check"),
    ({"engine": {**ENGINE, "model": "cheap"}}, True, "draft check"),
    ({"engine": {**ENGINE, "faults": {"garbage": 0.5}}}, True, "draft check"),
    ({"prompts": {"generate": "p1_1"}}, True, "draft check"),
    ({"prompts": {"edge_types": True}}, True, "draft check"),
]  # fmt: skip


def sections(**changed: Any) -> dict[str, dict[str, Any]]:
    return fingerprint(parse_config({**copy.deepcopy(BASE), **changed}, "the test"))


@pytest.mark.parametrize(("changed", "counts", "passes"), CHANGES)
def test_what_changes_an_answer_changes_the_fingerprint_its_pass_and_those_behind_it_and_nothing_else_does(
    changed: dict[str, Any], counts: bool, passes: str
) -> None:
    before, after = sections(), sections(**changed)
    assert (after != before) is counts
    assert pass_digest(sections(passes=[DRAFT]), "draft") == pass_digest(before, "draft")
    names = ("draft", "check")
    assert [name for name in names if pass_digest(after, name) != pass_digest(before, name)] == passes.split()


def test_a_prompts_text_counts_and_not_only_its_name(config: dict[str, Any]) -> None:
    one, other = (sections_of(config, {"p5": text}, operational) for text in ("aa", "cc"))
    assert one != other
    assert pass_digest(one, "main") != pass_digest(other, "main")


def test_the_message_names_each_changed_key_old_and_new_and_the_cure() -> None:
    old = {"graph": {"min_degree": 3, "types": ["a"]}, "sampling": {"seed": 1}, "gone": {"x": True}}
    new = {"graph": {"min_degree": 4, "types": ["a", "b"]}, "sampling": {"seed": 1}, "came": {"y": "z"}}
    with pytest.raises(FingerprintMismatch) as caught:
        require_same("runs/x", old, new, "use another run folder")
    assert caught.value.message.splitlines() == [
        "runs/x was made with another configuration:",
        "  came.y: (not set) → z",
        "  gone.x: true → (not set)",
        "  graph.min_degree: 3 → 4",
        '  graph.types: ["a"] → ["a","b"]',
    ]
    assert caught.value.cure == "use another run folder"
    assert caught.value.exit_code == 2
    require_same("runs/x", old, copy.deepcopy(old), "")


def test_a_setting_that_came_with_a_later_version_and_is_not_set_changes_nothing() -> None:
    require_same("runs/x", {"sampling": {"seed": 1}}, {"sampling": {"seed": 1, "spread": None}}, "")
    with pytest.raises(FingerprintMismatch, match=r"sampling.spread: \(not set\) → types"):
        require_same("runs/x", {"sampling": {"seed": 1}}, {"sampling": {"seed": 1, "spread": "types"}}, "")


def make(folder: Path, **changed: Any) -> RunFolder:
    """A run of which every shard of the first pass is done."""
    config = parse_config({**copy.deepcopy(BASE), **changed}, "the test")
    run = RunFolder.create(folder, config.model_dump(mode="json"), fingerprint(config))
    anchors = [anchor(n) for n in range(4)]
    write_anchors(run.anchors, anchors, anchors_origin(run.manifest().sections))
    for entry in partition(run, 2).shards:
        rows = [{"id": f"{entry.name}-{n}", "status": "open"} for n in range(2)]
        write_result(
            run.result("draft", entry.name), rows, run.origin("draft").header(entry.name, entry.sha256)
        )
    return run


def test_a_result_of_a_cheaper_model_is_neither_counted_nor_read_and_is_done_again(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    cheap = make(tmp_path / "cheap", engine={"kind": "scripted", "model": "cheap"})
    foreign = run.result("draft", "shard-000001")
    shutil.copy(cheap.result("draft", "shard-000001"), foreign)
    assert survey(run.path)["passes"][0]["shards_done"] == 1
    with pytest.raises(CorruptFile, match="made with another configuration"):
        read_result(foreign, run.origin("draft"))
    assert sweep(run, "draft").quarantined == 1
    assert not foreign.exists()
    assert "another configuration" in next(run.quarantine.glob("*.reason.json")).read_text()


def test_a_result_of_the_first_pass_is_none_of_the_second(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    run.results("check").mkdir()
    shutil.copy(run.result("draft", "shard-000000"), run.result("check", "shard-000000"))
    assert sweep(run, "check").quarantined == 1
    assert sweep(run, "draft").quarantined == 0


def test_anchors_of_another_seed_are_set_aside_and_never_cut(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    other = make(tmp_path / "other", seed=2)
    shutil.copy(other.anchors, run.anchors)
    with pytest.raises(CorruptFile, match="another configuration") as caught:
        partition(run, 2)
    assert "kgqa sample" in caught.value.cure
    assert not keeps_own(run.quarantine, run.anchors, "anchors", anchors_origin(run.manifest().sections))
    assert not run.anchors.exists()


def test_a_deleted_manifest_is_made_again_only_when_the_files_fit(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    recorded = run.manifest().sections
    run.manifest_file.unlink()
    with pytest.raises(InputError, match="the run is there, but its manifest") as caught:
        RunFolder.open(run.path)
    assert "empty" not in str(caught.value)
    with pytest.raises(FingerprintMismatch, match="made with another configuration") as refused:
        RunFolder.create(run.path, run.config(), sections(seed=2))
    assert "empty" not in str(refused.value)
    assert not run.manifest_file.exists()
    RunFolder.create(run.path, run.config(), recorded)
    assert run.manifest().sections == recorded
