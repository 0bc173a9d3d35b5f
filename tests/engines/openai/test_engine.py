"""The OpenAI engine against a server that misbehaves in every way: each request is answered exactly once; and how many
requests each server gets: up by one, down by a share, never none.
"""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import Response
from kgqa_hpc.engines.grammar import ebnf
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai import engine as engine_module
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.engine import Lane, Lanes, OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from tests.engines.asking import BOOLEAN, TEXT, an_object, answers_of, user
from tests.engines.openai.fault_server import KEY, FaultServer
from tests.servers import chat_server
from tests.waiting import when

PATIENCE_S = 120.0
Start = Callable[..., OpenAIEngine]


@contextmanager
def fault_server() -> Iterator[FaultServer]:
    server = FaultServer()
    with chat_server(server) as address:
        server.url = f"{address}/v1"
        yield server


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with fault_server() as server:
        yield server


@pytest.fixture
def start(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts engines for the server, or for other addresses, and closes them."""
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr(engine_module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(engine_module, "LONGEST_PAUSE_S", 0.1)
    engines = []

    def started(*urls: str, **settings: Any) -> OpenAIEngine:
        defaults = {"model": "m", "api_key_env": "TEST_KEY", "concurrency": 8, "max_retries": 8}
        config = OpenAISettings(base_url=list(urls) or server.url, **{**defaults, **settings})
        engines.append(OpenAIEngine(config))
        return engines[-1]

    yield started
    for engine in engines:
        engine.close()


def ask(engine: OpenAIEngine, prompts: list[str]) -> dict[str, Response]:
    return answers_of(engine, [user(prompt, schema=an_object(ok=BOOLEAN)) for prompt in prompts])


def test_every_request_is_answered_exactly_once_whatever_the_server_does(start: Start) -> None:
    faults = ["fine", "storm", "500", "reset", "hangup", "notjson", "html", "nochoices", "null", "wrongid"]
    answers = ask(start(), [f"{n} {fault}" for n in range(12) for fault in faults])
    assert {a.finish for a in answers.values()} == {"stop"}
    assert all(json.loads(a.text)["echo"] == p for p, a in answers.items())


def test_a_body_that_trickles_for_ever_is_given_up_and_asked_for_again(start: Start) -> None:
    assert ask(start(timeout_s=2.0, max_retries=30), ["1 loris"])["1 loris"].finish == "stop"


def test_a_requests_own_fault_is_an_error_and_harms_no_other(server: FaultServer, start: Start) -> None:
    expected = {"1 context": "error", "2 filter": "refusal", "3 cut": "length", "4 fine": "stop"}
    expected |= {"5 always500": "error", "6 guard": "error"}
    answers = ask(start(max_retries=2), list(expected))
    assert {p: a.finish for p, a in answers.items()} == expected
    assert server.seen["1 context"] == 1, "asked again in vain"
    assert server.seen["5 always500"] >= 3
    assert "maximum context" in (answers["1 context"].error or "")


def test_no_item_is_lost_to_a_server_that_is_down_for_a_while(server: FaultServer, start: Start) -> None:
    engine = start(max_retries=1)
    server.down = True
    with when(lambda: sum(server.seen.values()) >= 60, lambda: setattr(server, "down", False)):
        assert {a.finish for a in ask(engine, [f"{n} fine" for n in range(6)]).values()} == {"stop"}


def test_a_server_that_stays_down_ends_the_engine_not_the_items(server: FaultServer, start: Start) -> None:
    engine = start(max_retries=0, start_timeout_s=0.5)
    server.down = True
    before = engine.progress
    with pytest.raises(ConnectionError, match="no server has answered"):
        ask(engine, ["1 fine"])
    assert engine.progress > before, "engine_stall would end it before start_timeout_s"


def test_load_adapts_to_what_the_server_bears(server: FaultServer, start: Start) -> None:
    # How often one request is refused in a row is luck, so the tries are not limited here.
    engine = start(concurrency=64, max_retries=10_000)
    server.room = 4
    server.gate.clear()
    with when(lambda: server.most_busy > server.room, server.gate.set):
        answers = ask(engine, [f"{n} fine" for n in range(300)])
    assert {a.finish for a in answers.values()} == {"stop"}
    assert engine._lanes.lanes[0].limit < 64


def test_servers_share_the_work_and_a_dead_one_costs_nothing(server: FaultServer, start: Start) -> None:
    with fault_server() as second:
        engine = start(server.url, second.url)
        # Nobody is answered until both are at work: else one that answers at once gets everything.
        second.gate = server.gate
        server.gate.clear()
        with when(lambda: min(server.busy, second.busy) == 8, server.gate.set):
            assert len(ask(engine, [f"{n} fine" for n in range(60)])) == 60
        assert server.most_busy == second.most_busy == 8
    assert {a.finish for a in ask(engine, [f"x{n} fine" for n in range(60)]).values()} == {"stop"}


def test_a_dead_server_is_not_blamed_on_a_request_that_finds_the_other_one_full(start: Start) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        engine = start(max_retries=1)
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


def test_the_key_is_in_no_answer_and_no_error(
    server: FaultServer, start: Start, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(max_retries=0)
    answer = ask(engine, ["1 always500"])["1 always500"]
    assert "your key was ***" in (answer.error or "")
    assert KEY not in repr(answer) + repr(engine.info)
    assert engine.info.server == "fp ***"
    server.key = "another"
    with pytest.raises(EngineConfigError, match=r"TEST_KEY|401") as caught:
        ask(engine, ["2 fine"])
    with pytest.raises(EngineConfigError) as at_start:
        start()
    for text in (str(caught.value), str(at_start.value), *capfd.readouterr()):
        assert KEY not in text
    assert at_start.value.exit_code == 2
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(EngineConfigError, match="TEST_KEY is not set"):
        start()


@pytest.mark.parametrize(
    "url",
    ["http://user:secret@host/v1", "http://host/v1?api_key=secret", "http://host/v1?token=secret", "host:80"],
)
def test_an_address_that_holds_a_key_or_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        OpenAISettings(model="m", base_url=url)
    assert all("secret" not in error["msg"] for error in caught.value.errors())


ASKED_TEXT = {"type": "string", "maxLength": 90, "pattern": "^It .*[.]$"}
ASKING = an_object(ok=BOOLEAN, text=ASKED_TEXT) | {"required": ["ok"]}
# Servers read patterns and lengths in their own ways, so that a schema is sent without them.
BARE = an_object(ok=BOOLEAN, text=TEXT) | {"required": ["ok"]}
GRAMMAR = {"type": "grammar", "grammar": ebnf(ASKING, bounded=False)}
FORMS = {
    "grammar": {"type": "structural_tag", "format": GRAMMAR},
    "json_schema": {"type": "json_schema", "json_schema": {"name": "answer", "schema": BARE, "strict": True}},
    "none": None,
}


@pytest.mark.parametrize(
    ("lacks", "structured", "mode"),
    [
        ("", "auto", "grammar"),
        ("knows_grammar", "auto", "json_schema"),
        ("knows_grammar", "json_schema", "json_schema"),
        ("knows_schema", "auto", "none"),
        ("obeys", "auto", "none"),
    ],
)
def test_the_strongest_form_that_the_server_keeps_to_is_sent_and_recorded(
    server: FaultServer, start: Start, lacks: str, structured: str, mode: str
) -> None:
    if lacks:
        setattr(server, lacks, False)
    engine = start(structured=structured)
    engine.preflight([ASKING])
    assert server.bodies[-1].get("response_format") == FORMS[mode]
    assert engine.info.provenance()["structured"] == mode
    assert "structured" not in engine.info.identity(), "a run may go on when the server is another"


CUT_OFF = ('{"greeting": "Hello, my', '{"gree', "{greeting: 'Hello, my", '["Hello, my')
OWN_WORDS = [
    ("as you like", "stop"),
    ('{"greeting": "Hello!"}', "stop"),
    *((text, "length") for text in CUT_OFF),
]


@pytest.mark.parametrize("own_words", OWN_WORDS)
def test_a_server_that_accepts_schemas_and_ignores_them_is_found_out(
    server: FaultServer, start: Start, own_words: tuple[str, str]
) -> None:
    server.obeys, server.own_words = False, own_words
    with pytest.raises(EngineConfigError, match="ignores json_schema"):
        start(structured="json_schema")


def test_cancel_aborts_at_once_even_what_waits_for_a_retry(server: FaultServer, start: Start) -> None:
    engine = start(max_retries=1)
    server.down = True
    mailbox = Mailbox()
    mailbox.put([user(f"{n} fine") for n in range(20)])
    with when(lambda: sum(server.seen.values()) >= 10, mailbox.cancel):
        answers = list(engine.generate(mailbox))
    assert {a.finish for a in answers} == {"abort"}
    assert len({a.id for a in answers}) == len(answers)


def test_what_is_passed_through_reaches_server_and_provenance(server: FaultServer, start: Start) -> None:
    engine = start(
        generation={"top_p": 0.9, "extra": {"min_tokens": 3}},
        chat_template_kwargs={"enable_thinking": False},
        reasoning_effort="low",
    )
    ask(engine, ["1 fine"])
    body = server.bodies[-1]
    assert (body["top_p"], body["min_tokens"], body["reasoning_effort"]) == (0.9, 3, "low")
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert '"top_p": 0.9' in engine.info.provenance()["settings"]
    for refused, words in (
        ({"seed": 1}, "seed is set by the engine"),
        ({"x": 1 << 64}, "cannot be sent: Integer"),
    ):
        with pytest.raises(ValueError, match=words):
            OpenAISettings(model="m", extra_body=refused)


def test_a_thought_has_its_own_tokens_and_its_familys_sampling(server: FaultServer, start: Start) -> None:
    engine = start(model="Qwen3-8B", thinking=True, thinking_tokens=500)
    ask(engine, ["1 fine"])
    body = server.bodies[-1]
    assert body["max_tokens"] == 1500
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.6, 0.95, 20)
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert '"sampling": {"temperature": 0.6, "top_k": 20, "top_p": 0.95}' in engine.info.settings
    assert OpenAISettings(model="m", reasoning_effort="low").thought_room == 8192
    assert OpenAISettings(model="m", reasoning_effort="none").thought_room == 0


def test_many_refusals_at_once_are_one_decrease() -> None:
    lane = Lane(64)
    lane.succeeded(2.0)
    for _ in range(50):
        lane.overloaded(now=100.0, pause=0.0)
    assert lane.limit == 64 * 0.7
    lane.overloaded(now=103.0, pause=0.0)
    assert lane.limit == 64 * 0.7 * 0.7


@pytest.mark.parametrize(("in_flight", "least", "most"), [(10, 10.9, 11.0), (3, 10.0, 10.0)])
def test_a_full_round_of_answers_adds_one_and_those_of_a_lane_with_room_prove_nothing(
    in_flight: int, least: float, most: float
) -> None:
    lane = Lane(64)
    lane.limit, lane.in_flight = 10, in_flight
    for _ in range(10):
        lane.succeeded(1.0)
    assert least <= lane.limit <= most


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=200), st.integers(1, 100))
def test_the_limit_stays_between_one_and_the_most(events: list[tuple[bool, float]], most: int) -> None:
    lane = Lane(most)
    for step, (good, pause) in enumerate(events):
        lane.in_flight = int(lane.limit)
        if good:
            lane.succeeded(0.5)
        else:
            lane.overloaded(float(step), pause)
        assert 1.0 <= lane.limit <= most
        assert lane.not_before <= step + 60.0


def test_requests_go_where_there_is_room_not_back_to_who_just_failed_and_again_to_who_has_rested() -> None:
    async def scene() -> None:
        lanes = Lanes(servers=2, most=2)
        assert [await lanes.enter(avoid) for avoid in (0, None, 0, 1)] == [1, 0, 1, 0]
        waiting = asyncio.create_task(lanes.enter(avoid=0))
        await asyncio.sleep(0)
        assert not waiting.done()
        lanes.lanes[0].overloaded(asyncio.get_running_loop().time(), pause=0.05)
        lanes.leave(0)
        lanes.leave(0)
        assert await asyncio.wait_for(waiting, 60) == 0  # better than nowhere

    asyncio.run(scene())


def test_places_are_given_in_the_order_of_arrival() -> None:
    async def scene() -> None:
        lanes = Lanes(servers=1, most=1)
        await lanes.enter()
        served: list[int] = []

        async def wait(number: int) -> None:
            served.append(number + await lanes.enter())

        waiting = [asyncio.create_task(wait(number)) for number in range(20)]
        for _ in waiting:
            await asyncio.sleep(0)
        latest = asyncio.create_task(wait(20))
        while not latest.done():
            if len(served) == sum(task.done() for task in waiting) and lanes.lanes[0].in_flight:
                lanes.leave(0)
            await asyncio.sleep(0)
        assert served == list(range(21))

    asyncio.run(scene())
