"""The OpenAI engine against a server that misbehaves in every way: each request is answered exactly once."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.grammar import ebnf
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai import agreement
from kgqa_hpc.engines.openai import engine as engine_module
from kgqa_hpc.engines.openai.adaptive_limit import Lanes
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from tests.engines.openai.fault_server import KEY, FaultServer
from tests.waiting import wait_for

PATIENCE_S = 120.0
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr(engine_module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(agreement, "PAUSE_S", 0.01)
    monkeypatch.setattr(engine_module, "LONGEST_PAUSE_S", 0.1)


def start(*urls: str, **settings: Any) -> OpenAIEngine:
    settings = {"model": "m", "api_key_env": "TEST_KEY", "concurrency": 8, "max_retries": 8, **settings}
    return OpenAIEngine(OpenAISettings(base_url=list(urls), **settings))


def ask(engine: OpenAIEngine, prompts: list[str]) -> dict[str, Response]:
    requests = [Request(p, ({"role": "user", "content": p},), schema=OK) for p in prompts]
    answers = list(engine.generate(Mailbox.holding(requests)))
    assert sorted(a.id for a in answers) == sorted(prompts)
    return {a.id: a for a in answers}


@contextmanager
def opened(servers: list[FaultServer], when: Callable[[], bool]) -> Iterator[None]:
    """The servers' gates are closed, and opened as soon as `when()` is true."""

    def open_gates() -> None:
        try:
            wait_for(when, "the servers to be as full as wanted", PATIENCE_S / 2)
        finally:
            for server in servers:
                server.gate.set()

    for server in servers:
        server.gate.clear()
    thread = threading.Thread(target=open_gates)
    thread.start()
    yield
    thread.join()


def test_every_request_is_answered_exactly_once_whatever_the_server_does(server: FaultServer) -> None:
    faults = ["fine", "storm", "500", "reset", "hangup", "notjson", "html", "nochoices", "null", "wrongid"]
    prompts = [f"{n} {fault}" for n in range(12) for fault in faults]
    engine = start(server.url)
    answers = ask(engine, prompts)
    assert {a.finish for a in answers.values()} == {"stop"}
    assert all(json.loads(a.text)["echo"] == p for p, a in answers.items())
    engine.close()


def test_a_body_that_trickles_for_ever_is_given_up_and_asked_for_again(server: FaultServer) -> None:
    engine = start(server.url, timeout_s=2.0, max_retries=30)
    assert ask(engine, ["1 loris"])["1 loris"].finish == "stop"
    engine.close()


def test_what_is_the_requests_own_fault_is_an_error_at_once_and_harms_no_other(server: FaultServer) -> None:
    engine = start(server.url)
    answers = ask(engine, ["1 context", "2 filter", "3 cut", "4 fine"])
    assert {p: a.finish for p, a in answers.items()} == {
        "1 context": "error",
        "2 filter": "refusal",
        "3 cut": "length",
        "4 fine": "stop",
    }
    assert server.seen["1 context"] == 1
    assert "maximum context" in (answers["1 context"].error or "")
    engine.close()


def test_a_request_that_always_fails_on_a_working_server_becomes_an_error(server: FaultServer) -> None:
    engine = start(server.url, max_retries=2)
    answers = ask(engine, ["1 always500", "2 fine"])
    assert answers["1 always500"].finish == "error"
    assert server.seen["1 always500"] >= 3
    assert answers["2 fine"].finish == "stop"
    engine.close()


def test_no_item_is_lost_to_a_server_that_is_down_for_a_while(server: FaultServer) -> None:
    engine = start(server.url, max_retries=1)
    server.down = True

    def recover() -> None:
        wait_for(lambda: sum(server.seen.values()) >= 60, "60 requests")
        server.down = False

    thread = threading.Thread(target=recover)
    thread.start()
    assert {a.finish for a in ask(engine, [f"{n} fine" for n in range(6)]).values()} == {"stop"}
    thread.join()
    engine.close()


def test_a_server_that_stays_down_ends_the_engine_rather_than_the_items(server: FaultServer) -> None:
    engine = start(server.url, max_retries=0, start_timeout_s=0.5)
    server.down = True
    with pytest.raises(ConnectionError, match="no server has answered"):
        ask(engine, ["1 fine"])
    engine.close()


def test_load_adapts_to_what_the_server_bears(server: FaultServer) -> None:
    # How often one request is refused in a row is luck, so the tries are not limited here.
    engine = start(server.url, concurrency=64, max_retries=10_000)
    server.room = 4
    with opened([server], lambda: server.most_busy > server.room):
        answers = ask(engine, [f"{n} fine" for n in range(300)])
    assert {a.finish for a in answers.values()} == {"stop"}
    assert engine._lanes.lanes[0].limit < 64
    engine.close()


def test_several_servers_share_the_work_and_a_dead_one_costs_nothing(server: FaultServer) -> None:
    with FaultServer() as second:
        thread = threading.Thread(target=second.serve_forever, args=(0.05,))
        thread.start()
        engine = start(server.url, second.url)
        # Nobody is answered until both are at work: else one that answers at once gets everything.
        with opened([server, second], lambda: min(server.busy, second.busy) == 8):
            assert len(ask(engine, [f"{n} fine" for n in range(60)])) == 60
        assert server.most_busy == second.most_busy == 8
        second.shutdown()
        thread.join()
        second.server_close()
        assert {a.finish for a in ask(engine, [f"x{n} fine" for n in range(60)]).values()} == {"stop"}
        engine.close()


def test_a_dead_server_is_not_blamed_on_a_request_that_finds_the_other_one_full(server: FaultServer) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        engine = start(server.url, max_retries=1)
        dead = ChatApi(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", engine._config)
        engine._apis.append(dead)
        engine._lanes = Lanes(2, 8)
        engine._lanes.lanes[0].in_flight = 8
        ask_dead, tries = dead.ask, []

        async def bounce(*asked: Any) -> Response:
            tries.append(asked)
            engine._last_success = time.monotonic() + 3600  # the first one answers others all the time
            if len(tries) == 12:
                engine._lanes.leave(0)
            return await ask_dead(*asked)

        dead.ask = bounce  # type: ignore[method-assign]
        assert ask(engine, ["1 fine"])["1 fine"].finish == "stop"
        assert len(tries) == 12
        engine.close()


def test_the_key_is_in_no_answer_and_no_error(
    server: FaultServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(server.url, max_retries=0)
    answer = ask(engine, ["1 always500"])["1 always500"]
    assert "your key was ***" in (answer.error or "")
    assert KEY not in repr(answer) + repr(engine.info)
    server.key = "another"
    with pytest.raises(EngineConfigError, match=r"TEST_KEY|401") as caught:
        ask(engine, ["2 fine"])
    engine.close()
    with pytest.raises(EngineConfigError) as at_start:
        start(server.url)
    for text in (str(caught.value), str(at_start.value), *capfd.readouterr()):
        assert KEY not in text
    assert at_start.value.exit_code == 2


def test_a_key_that_is_not_set_is_named(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(EngineConfigError, match="TEST_KEY is not set"):
        start(server.url)


def test_a_server_that_is_not_there_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "FOREIGN_PATIENCE_S", 0.2)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(EngineConfigError, match="base_url"):
            start(f"http://127.0.0.1:{unused.getsockname()[1]}/v1")


@pytest.mark.parametrize("url", ["http://user:secret@host/v1", "http://host/v1?api_key=secret", "host:80"])
def test_an_address_that_holds_a_key_or_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        OpenAISettings(model="m", base_url=url)
    assert all("secret" not in error["msg"] for error in caught.value.errors())


ASKING = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean"},
        "text": {"type": "string", "maxLength": 90, "pattern": "^It .*[.]$"},
    },
    "required": ["ok"],
    "additionalProperties": False,
}


def test_our_own_grammar_is_sent_where_the_server_takes_it(server: FaultServer) -> None:
    engine = start(server.url)
    assert engine.info.structured == "grammar"
    engine.preflight([ASKING])
    form = server.bodies[-1]["response_format"]
    grammar = {"type": "grammar", "grammar": ebnf(ASKING, bounded=False)}
    assert form == {"type": "structural_tag", "format": grammar}
    assert engine.info.provenance()["structured"] == "grammar"
    assert "structured" not in engine.info.identity(), "a run may go on when the server is another"
    engine.close()


@pytest.mark.parametrize("structured", ["auto", "json_schema"])
def test_elsewhere_the_schema_is_sent_without_patterns_and_lengths_for_servers_read_them_in_their_own_ways(
    server: FaultServer, structured: str
) -> None:
    server.knows_grammar = False
    engine = start(server.url, structured=structured)
    engine.preflight([ASKING])
    assert engine.info.structured == "json_schema"
    sent = server.bodies[-1]["response_format"]["json_schema"]["schema"]
    assert sent == {**ASKING, "properties": {"ok": {"type": "boolean"}, "text": {"type": "string"}}}
    assert server.bodies[-1]["response_format"]["json_schema"]["strict"] is True
    engine.close()


def test_auto_does_without_where_the_server_has_it_not(server: FaultServer) -> None:
    server.knows_schema = False
    engine = start(server.url)
    assert engine.info.structured == "none"
    ask(engine, ["1 fine"])
    assert "response_format" not in server.bodies[-1]
    engine.close()


def test_a_server_that_accepts_schemas_and_ignores_them_is_found_out(server: FaultServer) -> None:
    server.obeys = False
    with pytest.raises(EngineConfigError, match="ignores json_schema"):
        start(server.url, structured="json_schema")
    engine = start(server.url)
    assert engine.info.structured == "none"
    assert engine.info.provenance()["structured"] == "none"
    engine.close()


def test_cancel_aborts_at_once_even_what_waits_for_a_retry(server: FaultServer) -> None:
    engine = start(server.url, max_retries=1)
    server.down = True
    mailbox = Mailbox()
    mailbox.put([Request(p, ({"role": "user", "content": p},)) for p in (f"{n} fine" for n in range(20))])

    def stop_soon() -> None:
        wait_for(lambda: sum(server.seen.values()) >= 10, "10 requests")
        mailbox.cancel()

    thread = threading.Thread(target=stop_soon)
    thread.start()
    answers = list(engine.generate(mailbox))
    thread.join()
    assert {a.finish for a in answers} == {"abort"}
    assert len({a.id for a in answers}) == len(answers)
    engine.close()


def test_what_is_passed_through_reaches_the_server_and_the_provenance(server: FaultServer) -> None:
    generation = {"top_p": 0.9, "extra": {"min_tokens": 3}}
    engine = start(
        server.url,
        generation=generation,
        chat_template_kwargs={"enable_thinking": False},
        reasoning_effort="low",
    )
    ask(engine, ["1 fine"])
    body = server.bodies[-1]
    assert (body["top_p"], body["min_tokens"], body["reasoning_effort"]) == (0.9, 3, "low")
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert '"top_p": 0.9' in engine.info.provenance()["settings"]
    engine.close()
    with pytest.raises(ValueError, match="seed is set by the engine"):
        OpenAISettings(model="m", extra_body={"seed": 1})


def test_the_cards_of_a_server_that_is_started_here_belong_to_its_worker() -> None:
    assert OpenAISettings(model="m", command=["serve", "{port}"], gpus=2).gpus_per_worker == 2
    assert OpenAISettings(model="m", gpus=2).gpus_per_worker == 0


def test_a_thought_has_its_own_tokens_and_is_kept_where_it_is_asked_for(server: FaultServer) -> None:
    engine = start(server.url, model="Qwen3-8B", thinking=True, thinking_tokens=500, keep_thoughts=True)
    ask(engine, ["1 fine"])
    body = server.bodies[-1]
    assert body["max_tokens"] == 1500
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.6, 0.95, 20)
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert '"sampling": {"temperature": 0.6, "top_k": 20, "top_p": 0.95}' in engine.info.settings
    engine.close()
    assert OpenAISettings(model="m", reasoning_effort="low").thought_room == 8192
    assert OpenAISettings(model="m", reasoning_effort="none").thought_room == 0
