"""fingerprint: what changes the dataset changes it, what does not does not, and the message names it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.registry import OPERATIONAL
from kgqa_hpc.errors import FingerprintMismatch
from kgqa_hpc.store import fingerprint as module
from kgqa_hpc.store.fingerprint import digest, require_same

Dict = dict[str, Any]
PROMPTS = {"p5": "aa", "filter": "bb"}


def fingerprint(config: Dict, prompts: dict[str, str]) -> dict[str, Dict]:
    return module.fingerprint(config, prompts, OPERATIONAL)


def changed(config: Dict, change: Callable[[Dict], Any]) -> Dict:
    other = copy.deepcopy(config)
    change(other)
    return other


@pytest.mark.parametrize(
    "change",
    [
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
)
def test_what_changes_an_answer_changes_the_fingerprint(config: Dict, change: Callable[[Dict], Any]) -> None:
    assert digest(fingerprint(changed(config, change), PROMPTS)) != digest(fingerprint(config, PROMPTS))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["runtime"].update(shard_size=7, window=3),
        lambda c: c["dataset"].update(z_score=2.0),
        lambda c: c["prompts"].update(folder="/home/me/prompts"),
        lambda c: c["engine"]["latency"].update(batch=7),
        lambda c: c["passes"][0].update(engine=copy.deepcopy(c["engine"])),
    ],
)
def test_what_only_moves_or_paces_the_work_does_not(config: Dict, change: Callable[[Dict], Any]) -> None:
    assert fingerprint(changed(config, change), PROMPTS) == fingerprint(config, PROMPTS)


def test_a_prompts_text_counts(config: Dict) -> None:
    assert digest(fingerprint(config, {**PROMPTS, "p5": "cc"})) != digest(fingerprint(config, PROMPTS))


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
    assert OPERATIONAL[engine] <= type(parsed.engine).model_fields.keys()
    config = parsed.model_dump(mode="json")
    recorded = fingerprint(config, {})["passes"]["values"]["main"]["engine"]
    assert recorded.keys() == config["engine"].keys() - OPERATIONAL[engine]


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
