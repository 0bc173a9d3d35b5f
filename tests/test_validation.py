"""What is wrong with a configuration is told in our words, never in pydantic's."""

from __future__ import annotations

from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import ConfigError

GOOD: dict[str, Any] = {
    "graph": {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"},
    "anchors": {"kind": "graphlet", "per_shape": 6},
    "engine": {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"},
}
WRONG = [
    ("seed", "abc", "seed: must be a whole number, not abc"),
    ("graph.min_degree", -2, "graph.min_degree: must be at least 0, not -2"),
    ("graph.nodes", 5, "graph.nodes: must be a text or a list, not 5"),
    ("graph.edges", ["a.csv", 3], "graph.edges.1: must be a text, not 3"),
    ("graph.unknown_nodes", "dropp", "graph.unknown_nodes: must be error or drop, not dropp"),
    ("graph.min_degre", 2, "graph.min_degre: unknown key, did you mean min_degree?"),
    ("anchors.per_shape", "many", "anchors.per_shape: must be a whole number, not many"),
    ("prompts", 5, "prompts: must be a mapping of keys to values, not 5"),
    ("engine.kind", "scriptd", "engine.kind: unknown engine 'scriptd', did you mean scripted?"),
    ("engine.model", ["x"], "engine.model: must be a text"),
    ("engine.base_url", 5, "engine.base_url: must be a text or a list, not 5"),
    (
        "engine.temperature",
        0.2,
        "engine.temperature: unknown key: how an answer is drawn stands in the head of each prompt",
    ),
    ("dataset.duplicates", True, "dataset.duplicates: must be a mapping of keys to values, not true"),
    (
        "dataset.decide",
        {"rule": "any"},
        "dataset.decide: unknown decision rule 'any'; known: all, majority, at_least, weighted",
    ),
    ("dataset.split", {"shares": {"train": 2}}, "dataset.split.shares.train: must be below 1"),
    ("runtime.attempts", 1.5, "runtime.attempts: must be a whole number, not 1.5"),
    ("runtime.shard_size", 0, "runtime.shard_size: must be at least 1, not 0"),
]
THEIRS = (
    "Input should",
    "valid string",
    "valid dictionary",
    "instance of",
    "[str]",
    ".str:",
    "pydantic",
    "Value error",
)


def changed(key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.partition(".")
    if not name:
        return {**GOOD, section: value}
    return {**GOOD, section: {**GOOD.get(section, {}), name: value}}


@pytest.mark.parametrize(("key", "value", "told"), WRONG, ids=[key for key, _, _ in WRONG])
def test_a_wrong_value_is_told_with_its_key_and_what_must_stand_there(
    key: str, value: Any, told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(changed(key, value), "mine.yaml")
    (line,) = caught.value.message.splitlines()
    assert line.startswith(f"mine.yaml: {told}")
    assert not [word for word in THEIRS if word in line]


def test_all_of_them_are_told_at_once() -> None:
    data = {**GOOD}
    for key, value, _ in WRONG:
        if key not in ("prompts", "engine.kind"):
            section, _, name = key.partition(".")
            data[section] = {**data.get(section, {}), name: value} if name else value
    with pytest.raises(ConfigError) as caught:
        parse_config(data, "mine.yaml")
    lines = caught.value.message.splitlines()
    for key, _, told in WRONG:
        if key not in ("prompts", "engine.kind"):
            assert any(told in line for line in lines), key


def test_a_value_that_is_long_or_steers_a_terminal_is_not_repeated() -> None:
    for value in ("x" * 500, "\x1b[2J"):
        with pytest.raises(ConfigError) as caught:
            parse_config({**GOOD, "seed": value}, "mine.yaml")
        assert value not in caught.value.message


def test_a_wrong_key_of_anchors_is_told_without_the_errors_that_follow_from_it() -> None:
    steps = [{"use": "word", "template": "hpo"}]
    data = {"anchors": {"kind": "fact", "numbr": 3}, "passes": [{"name": "main", "steps": steps}]}
    with pytest.raises(ConfigError) as caught:
        parse_config({**GOOD, **data}, "mine.yaml")
    assert caught.value.message == "mine.yaml: anchors.numbr: unknown key, did you mean number?"
