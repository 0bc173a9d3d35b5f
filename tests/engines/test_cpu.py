"""The embedded engine with the bundled model: its promises beside the contract (tests/engines/test_contract.py)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.engines.cpu import CpuEngine, CpuSettings, bundled_model
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.prompts.prompt import load_prompt
from tests.engines.asking import BOOLEAN, an_object, answers_of, user

pytest.importorskip("xllamacpp", reason="XLLAMACPP IS NOT INSTALLED: THE EMBEDDED ENGINE IS NOT TESTED")
pytestmark = pytest.mark.slow

PATIENCE_S = 120.0
SHORT = {"type": "string", "minLength": 10, "maxLength": 40}
PAIR = an_object(question=SHORT, answer=SHORT)
JUDGE = an_object(valid_question=BOOLEAN, original_answer_valid=BOOLEAN)
WRITER = "You write one question with its answer, as JSON. Use only what the graph shows."
READER = "You judge one question with its answer, as JSON."


def request(name: str, role: str = WRITER, schema: dict[str, Any] | None = PAIR, **settings: Any) -> Request:
    messages = ({"role": "system", "content": role}, {"role": "user", "content": f"Nodes:\n- 0: {name}"})
    return Request(name, messages, schema=schema, **{"max_tokens": 120, "temperature": 0.8, **settings})


@pytest.fixture(scope="module")
def engine() -> Iterator[CpuEngine]:
    engine = CpuEngine(CpuSettings(context=1024))
    yield engine
    engine.close()


def one(engine: CpuEngine, asked: Request) -> Response:
    return answers_of(engine, [asked])[asked.id]


def test_the_same_request_gives_the_same_text_whatever_came_before(engine: CpuEngine) -> None:
    asked = request("Scoliosis", seed=11, max_tokens=16)
    first = one(engine, asked).text
    one(engine, request("Scoliosis again", READER, JUDGE))
    one(engine, request("Scolecoid", seed=3, max_tokens=8))
    assert one(engine, asked).text == first
    for role in ("Third role.", "Fourth role."):  # crowd the first role out of its place
        one(engine, request("x", role, None, max_tokens=1))
    assert one(engine, user("Name one gene.", max_tokens=1)).finish in {"stop", "length"}
    again = one(engine, asked)
    assert again.text == first
    assert one(engine, request("Scoliosis", seed=12, max_tokens=16)).text != first


def test_instructions_are_read_once(engine: CpuEngine) -> None:
    one(engine, request("Nystagmus", max_tokens=3))
    answer = one(engine, request("Cleft palate", max_tokens=3))
    assert answer.cached_tokens >= len(WRITER.split())
    assert answer.prompt_tokens > answer.cached_tokens


def test_a_schema_beyond_the_grammar_is_an_error_of_that_request_and_refused_in_preflight(
    engine: CpuEngine,
) -> None:
    schema = an_object(a={"type": "string", "pattern": "x"})
    assert one(engine, request("Ataxia", schema=schema)).finish == "error"
    with pytest.raises(EngineConfigError, match="pattern"):
        engine.preflight([schema])
    engine.preflight([load_prompt("demo").schema, JUDGE])


def test_cancel_ends_a_long_answer_on_the_way(engine: CpuEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox()
    mailbox.put([request(f"{n}", schema=None, max_tokens=900) for n in range(5)])
    third, on_token = engine.progress + 3, engine._on_token

    def stop_at_the_third() -> bool:
        ended = on_token()
        if engine.progress < third:
            return ended
        mailbox.cancel()
        return engine.stopped.wait(PATIENCE_S)  # it says no more until it hears of the cancel

    monkeypatch.setattr(engine, "_on_token", stop_at_the_third)
    answers = list(engine.generate(mailbox))
    monkeypatch.undo()
    assert sorted(a.id for a in answers) == ["0", "1", "2", "3", "4"]
    assert {a.finish for a in answers} == {"abort"}
    assert one(engine, request("Ataxia", max_tokens=3)).finish == "length"


def test_provenance_names_the_weights_and_no_path(engine: CpuEngine) -> None:
    provenance = engine.info.provenance()
    assert provenance["model"] == bundled_model().name
    assert len(provenance["digest"]) == 64
    assert provenance["quantisation"] == "Q4_1"
    assert "/" not in "".join(provenance.values())


def test_a_new_engine_says_what_the_old_one_said_also_from_a_file_that_is_named(
    engine: CpuEngine, tmp_path: Path
) -> None:
    asked = request("Hypotonia", seed=5, schema=None, max_tokens=20)
    (tmp_path / "mine.gguf").symlink_to(bundled_model())
    second = CpuEngine(CpuSettings(model=str(tmp_path / "mine.gguf"), context=1024))
    assert second.info.model == "mine.gguf"
    assert one(second, asked).text == one(engine, asked).text
    second.close()
    second.close()
