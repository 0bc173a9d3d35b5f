"""Engines are found by name and configured by their own settings; those of other packages: tests/test_extending.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from kgqa_hpc.engines import ENGINES, EngineConfig, operational, parse_engine

SMALLEST = {"function": {"call": "json:dumps"}}
SMALLEST |= {kind: {"model": "a/b"} for kind in ("lmdeploy", "openai", "openai_batch")}


def words_of(data: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(EngineConfig).validate_python(data)
    return {".".join(map(str, error["loc"])): error["msg"] for error in caught.value.errors()}


@pytest.mark.parametrize("kind", list(ENGINES.names()))
def test_every_engine_says_how_its_settings_are_treated(kind: str) -> None:
    settings = parse_engine({"kind": kind, **SMALLEST.get(kind, {})})
    fields = set(type(settings).model_fields)
    assert settings.kind == kind
    for names in (settings.operational, set(settings.paths), settings.dangerous):
        assert names <= fields
    assert operational(kind) == settings.operational | {"price"}
    assert not settings.retired & fields
    assert settings.gpus_per_worker >= 0
    described = [field.description for name, field in type(settings).model_fields.items() if name != "kind"]
    assert all(described) or kind == "scripted"
    assert parse_engine(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize("value", ["sk-live-123456", "my key", "key\n", "OPENAI-KEY", "", "abc", "A" * 80])
def test_only_the_name_of_a_variable_is_taken_for_a_key_and_nothing_is_repeated(value: str) -> None:
    words = words_of({"kind": "openai", "model": "m", "api_key_env": value})["api_key_env"]
    assert "NAME of an environment variable" in words
    assert len(value) < 6 or value not in words


def test_files_are_found_from_the_configurations_folder_and_hub_ids_stay(tmp_path: Path) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    assert parse_engine({"kind": "cpu", "model": "m.gguf"}, tmp_path).model == str(tmp_path / "m.gguf")
    local = parse_engine({"kind": "lmdeploy", "model": "models/mine"}, tmp_path)
    assert local.model == str(tmp_path / "models" / "mine")
    assert parse_engine({"kind": "lmdeploy", "model": "org/name"}, tmp_path).model == "org/name"


def test_what_changes_answers_is_recorded_and_what_does_not_or_never_did_is_not() -> None:
    generation = {"top_p": 0.9, "extra": {"bad_words": ["x"]}}
    settings = parse_engine(
        {"kind": "lmdeploy", "model": "a/b", "tp": 2, "wave": 4, "generation": generation}
    )
    recorded = json.loads(settings.recorded("enable_prefix_caching"))
    assert recorded == {"generation": generation, "enable_prefix_caching": True}
    assert "wave" not in settings.model_dump()
    assert parse_engine({"kind": "cpu"}).recorded() == ""
