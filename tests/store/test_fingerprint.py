"""Fingerprint and origin: settings that change the dataset change them, and nothing foreign is merged."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines import operational
from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, InputError
from kgqa_hpc.runs import fingerprint as fingerprint_of
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store import fingerprint as module
from kgqa_hpc.store.fingerprint import anchors_origin, keeps_own, pass_digest, require_same
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import sweep
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_result, write_anchors, write_result
from tests.store.conftest import anchor

Dict = dict[str, Any]
PROMPTS = {"p5": "aa", "filter": "bb"}


def fingerprint(config: Dict, prompts: dict[str, str]) -> dict[str, Dict]:
    return module.fingerprint(config, prompts, operational)


CHANGES: dict[bool, list[Callable[[Dict], Any]]] = {  # whether they change an answer
    True: [
        lambda c: c.update(seed=7),
        lambda c: c["graph"].update(min_degree=4),
        lambda c: c["graph"].update(nodes="/data/other.csv"),
        lambda c: c["anchors"].update(per_shape=7),
        lambda c: c["prompts"].update(edge_types=False),
        lambda c: c["engine"].update(model="another"),
        lambda c: c["engine"]["faults"].update(garbage=0.5),
        lambda c: c["passes"][0].update(steps=[{"use": "generate", "as": "generate", "prompt": "p5"}]),
        lambda c: c["passes"][0].update(engine={"kind": "cpu", "model": None}),
    ],
    False: [
        lambda c: c["runtime"].update(shard_size=7, window=3),
        lambda c: c["dataset"].update(z_score=2.0),
        lambda c: c["prompts"].update(folder="/home/me/prompts"),
        lambda c: c["engine"]["latency"].update(batch=7),
        lambda c: c["passes"][0].update(engine=copy.deepcopy(c["engine"])),
    ],
}


@pytest.mark.parametrize(("counts", "change"), [(counts, c) for counts in CHANGES for c in CHANGES[counts]])
def test_what_changes_an_answer_changes_the_fingerprint_and_what_moves_or_paces_the_work_does_not(
    config: Dict, counts: bool, change: Callable[[Dict], Any]
) -> None:
    other = copy.deepcopy(config)
    change(other)
    assert (fingerprint(other, PROMPTS) != fingerprint(config, PROMPTS)) is counts


def test_a_prompts_text_counts(config: Dict) -> None:
    assert fingerprint(config, {**PROMPTS, "p5": "cc"}) != fingerprint(config, PROMPTS)


def test_the_same_files_elsewhere_are_the_same() -> None:
    graph = {"source": "csv", "nodes": "/home/a/nodes.csv", "edges": "/home/a/edges.csv"}
    moved = {"source": "csv", "nodes": "/scratch/nodes.csv", "edges": "/scratch/edges.csv"}
    one, other = (
        parse_config({"graph": where, "engine": {"kind": "scripted"}}, "t").model_dump(mode="json")
        for where in (graph, moved)
    )
    assert fingerprint(one, {}) == fingerprint(other, {})


@pytest.mark.parametrize("engine", ["cpu", "openai", "lmdeploy"])
def test_operational_settings_are_real_settings_and_left_out(engine: str) -> None:
    model = None if engine == "cpu" else "m"
    parsed = parse_config({"engine": {"kind": engine, "model": model}}, "t")
    assert operational(engine) <= type(parsed.engine).model_fields.keys()
    config = parsed.model_dump(mode="json")
    recorded = fingerprint(config, {})["passes"]["values"]["main"]["engine"]
    assert recorded.keys() == config["engine"].keys() - operational(engine)


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


BASE: dict[str, Any] = {
    "seed": 1,
    "graph": {"source": "hpo"},
    "anchors": {"per_shape": 10},
    "engine": {"kind": "scripted", "model": "large"},
    "passes": [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}],
}


def sections(**changed: Any) -> dict[str, dict[str, Any]]:
    return fingerprint_of(parse_config({**copy.deepcopy(BASE), **changed}, "the test"))


def make(folder: Path, **changed: Any) -> RunFolder:
    """A run of which every shard of the first pass is done."""
    config = parse_config({**copy.deepcopy(BASE), **changed}, "the test")
    run = RunFolder.create(folder, config.model_dump(mode="json"), fingerprint_of(config))
    anchors = [anchor(n) for n in range(4)]
    write_anchors(run.anchors, anchors, anchors_origin(run.manifest().sections))
    for entry in partition(run, 2).shards:
        rows = [{"id": f"{entry.name}-{n}", "status": "open"} for n in range(2)]
        write_result(
            run.result("draft", entry.name), rows, run.origin("draft").header(entry.name, entry.sha256)
        )
    return run


@pytest.mark.parametrize(
    ("changed", "passes"),
    [
        ({"anchors": {"per_shape": 99}}, []),
        ({"dataset": {"z_score": None}}, []),
        ({"runtime": {"shard_size": 7}}, []),
        ({"passes": [BASE["passes"][0], {**BASE["passes"][1], "engine": {"kind": "cpu"}}]}, ["check"]),
        ({"seed": 2}, ["draft", "check"]),
        ({"graph": {"source": "hpo", "min_degree": 4}}, ["draft", "check"]),
        ({"engine": {"kind": "scripted", "model": "cheap"}}, ["draft", "check"]),
        ({"prompts": {"generate": "p1_1"}}, ["draft", "check"]),
        ({"prompts": {"edge_types": False}}, ["draft", "check"]),
    ],
)
def test_a_change_of_graph_seed_engine_or_prompts_changes_its_pass_and_those_behind_it(
    changed: Any, passes: list[str]
) -> None:
    before, after = sections(), sections(**changed)
    names = ("draft", "check")
    assert [name for name in names if pass_digest(after, name) != pass_digest(before, name)] == passes
    assert pass_digest(sections(passes=BASE["passes"][:1]), "draft") == pass_digest(before, "draft")


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
