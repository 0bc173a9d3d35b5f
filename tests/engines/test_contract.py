"""The contract of every engine, on the embedded engine and on a real server (llama.cpp) with the bundled model; and the
embedded engine's own promises.

Never about what the model says: 135 M parameters know little. LMDeploy's contract: tests/engines/lmdeploy.
"""

import json
import os
import struct
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kgqa_hpc.engines.cpu import CpuEngine, CpuSettings, bundled_model
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.prompts.prompt import load_prompt
from tests.engines.asking import BOOLEAN, an_object, answers_of, user, valid
from tests.waiting import gone

pytest.importorskip("xllamacpp", reason="XLLAMACPP IS NOT INSTALLED: NO REAL MODEL TO TEST WITH")
pytestmark = pytest.mark.slow

PATIENCE_S = 300.0
SERVER = textwrap.dedent("""
    import os, sys, threading
    os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"] = "passive", "0"
    import xllamacpp
    from kgqa_hpc.engines.cpu import bundled_model
    params = xllamacpp.CommonParams()
    params.model.path = str(bundled_model())
    params.model_alias = {"smol"}
    params.n_parallel, params.port, params.n_ctx = 2, int(sys.argv[1]), int(sys.argv[2])
    params.warmup, params.verbosity, params.cache_ram_mib, params.ui = False, 0, 0, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.api_keys = [os.environ[name] for name in ("TEST_KEY",) if name in os.environ]
    server = xllamacpp.Server(params)
    threading.Event().wait()
""")
SCHEMA = an_object(grounded=BOOLEAN, word={"enum": ["gene", "disease"]})
SHORT = {"type": "string", "minLength": 10, "maxLength": 40}
PAIR = an_object(question=SHORT, answer=SHORT)
WRITER = "You write one question with its answer, as JSON. Use only what the graph shows."


@pytest.fixture(scope="module")
def embedded() -> Iterator[CpuEngine]:
    engine = CpuEngine(CpuSettings(context=1024, slots=2))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIEngine]:
    before = set(psutil.Process().children(recursive=True))  # what other tests keep, such as a tracker
    os.environ["TEST_KEY"] = "sk-of-the-test"
    command = [sys.executable, "-c", SERVER, "{port}", "2048"]
    keys = {"model": "smol", "api_key_env": "TEST_KEY", "start_timeout_s": PATIENCE_S}
    engine = OpenAIEngine(OpenAISettings(command=command, concurrency=2, **keys))
    yield engine
    servers = set(psutil.Process().children(recursive=True)) - before
    engine.close()
    assert all(gone(process) for process in servers), "a server outlived its engine"
    os.environ.pop("TEST_KEY", None)


@pytest.fixture(params=["embedded", "server"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_each_request_is_answered_once_by_its_schema_and_counted(engine: Any) -> None:
    engine.preflight([SCHEMA])
    names = ["BRCA1", "asthma", "Marfan syndrome"]
    asked = [user(f"Is {name} a gene?", max_tokens=60, schema=SCHEMA) for name in names]
    answers = answers_of(engine, asked).values()
    assert all(a.finish == "stop" and valid(json.loads(a.text), SCHEMA) for a in answers)
    assert all(a.prompt_tokens > 5 and a.completion_tokens > 5 for a in answers)
    if engine.info.name == "openai":
        assert (engine.info.structured, bool(engine.info.server)) == ("gbnf", True)


def test_a_prompt_beyond_the_context_is_that_requests_error(engine: Any) -> None:
    answers = answers_of(engine, [user("word " * 3000, id="long", max_tokens=5), user("Hi", max_tokens=5)])
    assert answers["long"].finish == "error"
    assert "context" in (answers["long"].error or "")
    assert answers["Hi"].finish in {"stop", "length"}


def test_the_token_limit_is_a_length_not_data(engine: Any) -> None:
    (answer,) = answers_of(engine, [user("Tell me a long story about proteins.", max_tokens=4)]).values()
    assert (answer.finish, answer.completion_tokens) == ("length", 4)


def said(engine: CpuEngine, name: str, role: str = WRITER, **settings: Any) -> Response:
    messages = ({"role": "system", "content": role}, {"role": "user", "content": f"Nodes:\n- 0: {name}"})
    asked = Request(name, messages, **{"max_tokens": 16, "temperature": 0.8, "schema": PAIR, **settings})
    return answers_of(engine, [asked])[name]


def test_the_same_request_gives_the_same_text_whatever_came_before_also_from_a_new_engine(
    embedded: CpuEngine, tmp_path: Path
) -> None:
    first = said(embedded, "Scoliosis", seed=11).text
    said(embedded, "Scolecoid", seed=3, max_tokens=8)
    assert said(embedded, "Scoliosis", seed=11).text == first
    for role in ("Second role.", "Third role."):  # crowd the first role out of its place
        said(embedded, "x", role, schema=None, max_tokens=1)
    assert said(embedded, "Scoliosis", seed=11).text == first
    assert said(embedded, "Scoliosis", seed=12).text != first
    (tmp_path / "mine.gguf").symlink_to(bundled_model())
    second = CpuEngine(CpuSettings(model=str(tmp_path / "mine.gguf"), context=1024))
    assert second.info.model == "mine.gguf"
    assert said(second, "Scoliosis", seed=11).text == first
    second.close()
    second.close()


def test_instructions_are_read_once(embedded: CpuEngine) -> None:
    said(embedded, "Nystagmus", max_tokens=3)
    answer = said(embedded, "Cleft palate", max_tokens=3)
    assert answer.cached_tokens >= len(WRITER.split())
    assert answer.prompt_tokens > answer.cached_tokens


def test_a_schema_beyond_the_grammar_is_an_error_and_refused_in_preflight(embedded: CpuEngine) -> None:
    schema = an_object(a={"type": "string", "pattern": "x"})
    assert said(embedded, "Ataxia", schema=schema).finish == "error"
    with pytest.raises(EngineConfigError, match="pattern"):
        embedded.preflight([schema])
    embedded.preflight([load_prompt("demo").schema])


def test_cancel_ends_a_long_answer_on_the_way(embedded: CpuEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox()
    mailbox.put([user(f"{n}", max_tokens=900) for n in range(5)])
    third, on_token = embedded.progress + 3, embedded._on_token

    def stop_at_the_third() -> bool:
        ended = on_token()
        if embedded.progress < third:
            return ended
        mailbox.cancel()
        return embedded.stopped.wait(PATIENCE_S)  # it says no more until it hears of the cancel

    monkeypatch.setattr(embedded, "_on_token", stop_at_the_third)
    answers = list(embedded.generate(mailbox))
    monkeypatch.undo()
    assert sorted(a.id for a in answers) == ["0", "1", "2", "3", "4"]
    assert {a.finish for a in answers} == {"abort"}
    assert said(embedded, "Ataxia", max_tokens=3).finish == "length"


def test_provenance_names_the_weights_and_no_path(embedded: CpuEngine) -> None:
    provenance = embedded.info.provenance()
    assert (provenance["model"], provenance["quantisation"]) == (bundled_model().name, "Q4_1")
    assert len(provenance["digest"]) == 64
    assert "/" not in "".join(provenance.values())


NO_MODEL: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda whole: b"", "is not a GGUF file"),
    "zip": (lambda whole: b"PK\x03\x04 a zip", "is not a GGUF file"),
    "version": (lambda whole: b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "cannot load this model"),
    "tensors": (lambda whole: b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2), "cannot load this model"),
    "cut header": (lambda whole: whole[:100], "cannot load this model"),
    "cut download": (lambda whole: whole[:-1000], "cannot load this model"),
    "unknown key": (lambda whole: whole.replace(b"llama.embed", b"llama.embeX", 1), "cannot load this model"),
}


@pytest.mark.parametrize("case", NO_MODEL)
def test_a_file_that_is_no_whole_model_is_bad_input_and_named(tmp_path: Path, case: str) -> None:
    damage, words = NO_MODEL[case]
    path = tmp_path / "m.gguf"
    path.write_bytes(damage(bundled_model().read_bytes()))
    with pytest.raises(EngineConfigError, match=words) as caught:
        CpuEngine(CpuSettings(model=str(path)))
    assert str(path) in caught.value.message


def test_no_file_and_a_folder_are_no_model(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.gguf", "no such model file"), (tmp_path, "cannot be read")):
        with pytest.raises(EngineConfigError, match=words):
            CpuEngine(CpuSettings(model=str(path)))
