"""Mistakes in an engine of one's own, told at once by its name: in its start, its description and its responses."""

from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.engines.child import checked_info, checked_responses
from kgqa_hpc.engines.engine import EngineInfo, Response
from tests.command import kgqa
from tests.project import PATHS, write_project

ENGINE = '''
from typing import Literal

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response


class OwnSettings(EngineSettings):
    kind: Literal["own"] = "own"


class Own:
    """An engine with a mistake."""

    name = "own"
    Settings = OwnSettings

    def __init__(self, settings, memory=None):
        self.info = EngineInfo(name="own", version="1", model="own-1", max_batch=8)

    def preflight(self, schemas):
        pass

    def generate(self, mailbox):
        yield from ()

    def close(self):
        pass
'''


def run_with(folder: Path, engine: str) -> str:
    """What `kgqa preview` says with this class as the engine, when it ends with exit code 2."""
    (folder / "mine.py").write_text(engine)
    config = PATHS.replace("kind: scripted", "kind: own") + "plugins: [mine.py]\n"
    return kgqa("preview", write_project(folder, config), code=2).stderr


@pytest.mark.parametrize(
    ("correct", "wrong", "words"),
    [
        ("self.info =", "self.inform =", "AttributeError: 'Own' object has no attribute 'info'"),
        ("self, settings, memory=None", "self", "TypeError: Own.__init__() takes 1 positional argument"),
        ("pass\n\n    def generate", "schema.load()\n\n    def generate", "NameError: name 'schema'"),
        ("pass\n\n    def generate", "raise SystemExit(0)\n\n    def generate", "SystemExit: 0"),
        ("self.info =", "raise SystemExit('no GPU')\n        self.info =", "SystemExit: no GPU"),
    ],
)
def test_a_mistake_in_an_engine_ends_the_run_at_its_first_start(
    correct: str, wrong: str, words: str, tmp_path: Path
) -> None:
    assert correct in ENGINE
    assert f"engine own of mine.py failed: {words}" in run_with(tmp_path, ENGINE.replace(correct, wrong))


YIELD = "for request in mailbox: yield "
RESPONSE = YIELD + 'Response(request.id, "", "error", '


@pytest.mark.parametrize(
    ("correct", "wrong", "words"),
    [
        (
            "yield from ()",
            YIELD + 'Response(request.id, "", "done")',
            "finish 'done', not one of stop, length",
        ),
        ("yield from ()", YIELD + 'Response(request.id, b"{}", "stop")', "text b'{}', not a text"),
        ("yield from ()", RESPONSE + "error={1: 2})", "error {1: 2}, not a text"),
        ("yield from ()", RESPONSE + "thought=7)", "thought 7, not a text"),
        ("yield from ()", RESPONSE + "prompt_tokens='7')", "prompt_tokens '7', not a number"),
        ("yield from ()", YIELD + "request.id", "is no Response"),
        ("yield from ()", "return None", "generate() returned None, not an iterator of responses"),
        (
            'EngineInfo(name="own"',
            'EngineInfo(settings={1: 2}, name="own"',
            "info.settings is {1: 2}, not a str",
        ),
        ("self.info = EngineInfo", "self.info = dict", "info is {'name': 'own', "),
    ],
)
def test_what_breaks_the_contract_of_an_engine_ends_the_run_at_once_by_name(
    correct: str, wrong: str, words: str, tmp_path: Path
) -> None:
    assert correct in ENGINE
    said = run_with(tmp_path, ENGINE.replace(correct, wrong))
    assert "engine own of mine.py: " in said
    assert words in said


def test_an_engine_is_recorded_under_the_name_of_its_entry() -> None:
    assert checked_info("engine own", "own", EngineInfo("cpu", "1", "m")) == EngineInfo("own", "1", "m")


def test_an_exception_in_a_response_becomes_text_and_numbers_of_numpy_become_tokens() -> None:
    response = Response("r", "", "error", np.int64(5), None, np.int32(7), ValueError("rain"), None)  # type: ignore[arg-type]
    (checked,) = checked_responses("engine own", [response])
    assert checked == Response("r", "", "error", 5, 0, 7, "ValueError: rain")
    assert type(checked.prompt_tokens) is int
