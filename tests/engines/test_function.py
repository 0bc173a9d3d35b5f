"""A Python function as the engine: whatever it does, each request is answered."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.engines.function import FunctionEngine, FunctionSettings
from kgqa_hpc.errors import EngineConfigError
from tests.engines.asking import answers_of, user

PROBLEMS = {
    "fails": ValueError("no"),
    "ends": SystemExit(3),
    "is cancelled": asyncio.CancelledError("enough"),
}


def answer(messages: Any, schema: Any, seed: int) -> Any:
    """A function for `engine: {kind: function}`: the prompt says what becomes of it."""
    prompt = messages[-1]["content"]
    if prompt in PROBLEMS:
        raise PROBLEMS[prompt]
    return {"ok": True}


def test_an_exception_an_exit_and_a_cancellation_fail_their_request_alone() -> None:
    engine = FunctionEngine(FunctionSettings(call=f"{__name__}:answer"))
    answers = answers_of(engine, [user(text) for text in [*PROBLEMS, "fine"]])
    engine.close()
    assert answers["fine"].text == '{"ok": true}'
    errors = [answers[text].error for text in PROBLEMS]
    assert errors == ["ValueError: no", "SystemExit: 3", "CancelledError: enough"]


def test_a_module_that_exits_at_import_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exiting.py").write_text("import sys\nsys.exit(1)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(EngineConfigError, match="cannot be imported: SystemExit: 1"):
        FunctionEngine(FunctionSettings(call="exiting:answer"))
