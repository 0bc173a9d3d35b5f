"""Engines are found by name, configured by their own settings; another package adds one by entry point."""

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from kgqa_hpc.engines.engine import EngineSettings, Request
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.engines.registry import ENGINES, OPERATIONAL, EngineConfig, parse_engine
from kgqa_hpc.registry import Registry

SMALLEST = {
    "function": {"call": "json:dumps"},
    "lmdeploy": {"model": "a/b"},
    "openai": {"model": "m"},
    "openai_batch": {"model": "m"},
}


class Holder(BaseModel):
    engine: EngineConfig
    other: EngineConfig | None = None


def words_of(data: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"engine": data})
    return {".".join(map(str, error["loc"])): error["msg"] for error in caught.value.errors()}


@pytest.mark.parametrize("kind", list(ENGINES.names()))
def test_every_engine_says_how_its_settings_are_treated(kind: str) -> None:
    settings = parse_engine({"kind": kind, **SMALLEST.get(kind, {})})
    fields = set(type(settings).model_fields)
    assert settings.kind == kind
    for names in (settings.operational, set(settings.paths), settings.dangerous):
        assert names <= fields
    assert OPERATIONAL[kind] == settings.operational | {"price"}
    assert not settings.retired & fields
    assert settings.gpus_per_worker >= 0
    described = [field.description for name, field in type(settings).model_fields.items() if name != "kind"]
    assert all(described) or kind == "scripted"
    assert parse_engine(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("data", "place", "words"),
    [
        ({"kind": "cpu", "contxt": 1000}, "engine.contxt", "unknown key, did you mean context?"),
        ({"kind": "scripted", "faults": {"crush": 1}}, "engine.faults.crush", "did you mean crash?"),
        ({"kind": "scripted", "faults": {"hang": 2}}, "engine.faults.hang", "must be at most 1.0"),
        ({"kind": "cpuu"}, "engine.kind", "did you mean cpu?"),
        ({}, "engine.kind", "is missing"),
        ("cpu", "engine", "must be a mapping"),
    ],
)
def test_errors_keep_their_place_and_name_the_nearest_key(data: Any, place: str, words: str) -> None:
    problems = words_of(data)
    assert problems.keys() == {place}
    assert words in problems[place]


def test_the_settings_of_a_pass_keep_their_place_too() -> None:
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"engine": {"kind": "cpu"}, "other": {"kind": "cpu", "slots": 0}})
    assert [error["loc"] for error in caught.value.errors()] == [("other", "slots")]


@pytest.mark.parametrize("value", ["sk-live-123456", "my key", "key\n", "OPENAI-KEY", "", "abc", "A" * 80])
def test_only_the_name_of_a_variable_is_taken_for_a_key_and_nothing_is_repeated(value: str) -> None:
    words = words_of({"kind": "openai", "model": "m", "api_key_env": value})["engine.api_key_env"]
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


ECHO = textwrap.dedent('''
    """An engine of another package."""
    from typing import ClassVar, Literal
    from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response

    class EchoSettings(EngineSettings):
        operational: ClassVar = frozenset({"loud"})
        kind: Literal["echo"] = "echo"
        loud: bool = False

    class EchoEngine:
        """Says every prompt again."""
        name = "echo"
        Settings = EchoSettings

        def __init__(self, settings, memory=None):
            self.settings = settings
            self.info = EngineInfo(name="echo", version="1", model="echo-1")

        def preflight(self, schemas):
            pass

        def generate(self, mailbox):
            for request in mailbox:
                text = request.messages[-1]["content"]
                yield Response(request.id, text.upper() if self.settings.loud else text, "stop")

        def close(self):
            pass
''')


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with one engine, installed as pip would: a module, and its entry point beside it."""
    site = tmp_path / "site"
    info = site / "echo_engine-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "echo_engine.py").write_text(ECHO)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kgqa_hpc.engines]\necho = echo_engine:EchoEngine\n")
    monkeypatch.syspath_prepend(str(site))
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    monkeypatch.setenv("PYTHONPATH", path)  # for the engine's own process
    fresh = Registry(ENGINES.group, ENGINES.what, ENGINES._shipped)
    monkeypatch.setattr("kgqa_hpc.engines.registry.ENGINES", fresh)


@pytest.mark.usefixtures("foreign")
def test_an_engine_of_another_package_is_configured_started_and_asked_like_any_other(tmp_path: Path) -> None:
    settings = parse_engine({"kind": "echo", "loud": True})
    assert isinstance(settings, EngineSettings)
    assert OPERATIONAL["echo"] == {"loud", "price"}
    assert "did you mean loud?" in words_of({"kind": "echo", "lout": True})["engine.lout"]
    with EngineProcess(settings, tmp_path / "engine.log", 120.0) as engine:
        assert engine.start().model == "echo-1"
        engine.send([Request("r", ({"role": "user", "content": "hello"},))])
        answers = []
        while not answers:
            answers = engine.receive(1.0)
    assert [(a.id, a.text) for a in answers] == [("r", "HELLO")]
