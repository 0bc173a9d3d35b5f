"""The JSON Schema for editors accepts what the program accepts, and names what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kgqa_hpc.config.files import FILE, LINE, examples, json_schema, write_example
from tests.command import kgqa

NAMES = [
    name for name, file in examples().items() if file.suffix == ".yaml" and not name.startswith("hydrate_")
]
SCHEMA = json_schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def test_it_is_a_schema_and_the_command_prints_it() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(kgqa("config", "--schema").stdout) == SCHEMA


@pytest.mark.parametrize("name", NAMES)
def test_each_shipped_configuration_fits_and_names_the_schema(name: str) -> None:
    text = examples()[name].read_text(encoding="utf-8")
    assert LINE in text
    problems = [
        f"{error.json_path}: {error.message[:300]}" for error in CHECK.iter_errors(yaml.safe_load(text))
    ]
    assert not problems


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"engin": {}}, "'engin' was unexpected"),
        ({"runtime": {"shard_size": "many"}}, "$.runtime.shard_size"),
        ({"engine": {"kind": "scriptd"}}, "$.engine"),
        (
            {"passes": [{"name": "main", "steps": [{"use": "generate", "temperatur": 1}]}]},
            "$.passes[0].steps[0]",
        ),
    ],
)
def test_a_mistake_is_marked_where_it_stands(config: dict[str, Any], expected: str) -> None:
    assert any(expected in f"{error.json_path} {error.message}" for error in CHECK.iter_errors(config))


def test_an_example_brings_the_schema_it_names(tmp_path: Path) -> None:
    write_example("csv", tmp_path / "mine.yaml")
    assert json.loads((tmp_path / FILE).read_text()) == SCHEMA
