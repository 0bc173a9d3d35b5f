"""Hostile YAML is refused at the door in one line, and what people write is read as it stands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.store.yaml_file import LARGEST, load_yaml, parse_yaml

BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
CYCLE = "engine: &e\n  extra_body: *e\n"


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text.encode(), "run.yaml")
    assert "\n" not in caught.value.message
    return caught.value.message


def test_what_people_write_is_read() -> None:
    assert parse_yaml(b"seed: 1\npasses:\n  - name: main\n    steps: [a, {use: b}]\n", "x") == {
        "seed": 1,
        "passes": [{"name": "main", "steps": ["a", {"use": "b"}]}],
    }


@pytest.mark.parametrize("text", [BOMB, CYCLE])
def test_aliases_are_refused_with_their_line(text: str) -> None:
    assert "run.yaml line 2: aliases" in refusal(text)


def test_a_key_that_stands_twice_is_named_with_its_line() -> None:
    assert refusal("seed: 1\ngraph:\n  path: a\n  path: b\n") == (
        "run.yaml line 4: not YAML: the key 'path' stands twice"
    )


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 20_000, "- " * 20_000 + "x"])
def test_twenty_thousand_brackets_are_refused_before_anything_is_built(text: str) -> None:
    assert "levels deep" in refusal(text)


@pytest.mark.parametrize(
    "text", ["a: 2024-13-45", "a: \x1b[31m", "a: [", "? [a]\n: b", "!!python/object:os.x {}"]
)
def test_broken_yaml_is_one_line(text: str) -> None:
    assert "\x1b" not in refusal(text)


def test_a_file_larger_than_any_configuration_is_refused() -> None:
    assert "KiB" in refusal("a: " + "x" * LARGEST)


def test_a_fifo_is_refused_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="not a regular file"):
        load_yaml(tmp_path / "c.yaml")


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ConfigError, match="not UTF-8"):
        parse_yaml(b"\xff\xfe", "c.yaml")
