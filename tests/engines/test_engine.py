"""What leaves an engine: no secret, and nothing that a terminal obeys."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa_hpc.engines import parse_engine
from kgqa_hpc.engines.engine import MASK, EngineSettings, Redactor, Response, one_line, without_node
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.errors import EngineConfigError
from tests import chat_program
from tests.engines.asking import user

KEY = "sk-known-value-0123456789"
PATIENCE_S = 120.0


@given(st.text(max_size=2000))
@example("\x1b]0;title\x07")
@example("\x9b31m red")
@example("\u202eevil\u2066")
@example("a\r\nb\x00")
def test_foreign_words_become_one_bounded_printable_line(text: str) -> None:
    line = one_line(text, 100)
    assert len(line) <= 100
    assert line == " ".join(line.split())
    assert line.isprintable()


def test_a_known_key_is_masked_wherever_it_stands_and_short_values_are_not() -> None:
    redact = Redactor(["MY_KEY", "SHORT", "UNSET"], {"MY_KEY": KEY, "SHORT": "no"})
    error, thought = f"bad {KEY}\x1b[2J no", f"The key is {KEY}."
    answer = redact.response(Response("r", f'{{"a": "{KEY}"}}', "error", error=error, thought=thought))
    assert (answer.text, answer.thought) == (f'{{"a": "{MASK}"}}', f"The key is {MASK}.")
    assert answer.error == f"bad {MASK} [2J no"
    assert not Redactor(["SHORT", "UNSET"], {"SHORT": "no"})


@pytest.mark.parametrize("before", [5, *range(65_536 - len(KEY), 65_537, 5)])
def test_a_log_is_copied_without_the_key_also_where_it_lies_across_two_pieces_of_a_long_line(
    tmp_path: Path, before: int
) -> None:
    redact, log = Redactor(["MY_KEY"], {"MY_KEY": KEY}), tmp_path / "engine.log"
    redact.copy(io.BytesIO(f"{'x' * before}{KEY} \u00b5\nthe end".encode() + b"\xe2\x82"), log)
    assert log.read_text(encoding="utf-8") == f"{'x' * before}{MASK} \u00b5\nthe end\ufffd"
    redact.copy(io.BytesIO(b"x" * 100_000), tmp_path / "none" / "engine.log")  # as where the disk is full


def echoing(*words: str, **settings: str) -> EngineSettings:
    command = [sys.executable, str(chat_program.__file__), "--port", "{port}", *words]
    keys = {"kind": "openai", "model": "m", "api_key_env": "ECHOED_KEY", "command": command}
    return parse_engine({**keys, **settings})


def test_a_key_that_a_server_echoes_reaches_neither_answers_nor_errors_nor_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHOED_KEY", KEY)
    log = tmp_path / "engine.log"
    with EngineProcess(echoing(structured="none"), log, PATIENCE_S) as engine:
        engine.start()
        engine.send([user("hello"), user("please fail")])
        answers: dict[str, Response] = {}
        while len(answers) < 2:
            answers |= {a.id: a for a in engine.receive(1.0)}
    assert json.loads(answers["hello"].text)["said"] == MASK
    assert engine._copier is not None
    engine._copier.join(PATIENCE_S)  # closing waits for the last output, but not for ever
    error = answers["please fail"].error or ""
    assert MASK in error
    assert error.isprintable()
    written = log.read_text()
    assert f"got key {MASK}" in written
    assert KEY not in written + repr(answers)
    with pytest.raises(EngineConfigError) as caught:
        EngineProcess(echoing("--refuse", structured="json_schema"), log, PATIENCE_S).start()
    assert KEY not in str(caught.value)
    assert caught.value.message.isprintable()


def test_a_broken_card_names_the_line_that_excludes_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "CUDA error: uncorrectable ECC error encountered"
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert without_node(words) == ""
    monkeypatch.setenv("SLURMD_NODENAME", "gpu07")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    assert "sbatch --exclude=gpu07" in without_node(words)
    assert "scontrol update JobId=4711 ExcNodeList=gpu07" in without_node(words)
    assert without_node("CUDA out of memory") == ""
