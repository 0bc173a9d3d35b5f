"""What a server sends is bounded: its size, packed or not, its nesting, its numbers."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import MOST_TOKENS, Request
from kgqa_hpc.engines.openai.chat_api import ChatApi, Trouble
from kgqa_hpc.engines.openai.reply import LARGEST_REPLY, BrokenReply, read_answer, read_json
from kgqa_hpc.engines.openai.settings import OpenAISettings
from tests.servers import QuietHandler, serving

ASKED = Request("r", ({"role": "user", "content": "hello"},))


def reply(**usage: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": '{"ok": true}'}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


@contextmanager
def server(body: bytes, **headers: str) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            try:
                self.reply(200, body, {name.replace("_", "-"): value for name, value in headers.items()})
            except OSError:
                self.close_connection = True  # hung up on, as it deserves

    with serving(Handler) as address:
        yield f"{address}/v1"


def ask(url: str) -> Any:
    async def once() -> Any:
        api = ChatApi(url, OpenAISettings(model="m", base_url=url))
        try:
            return await api.ask(ASKED, "none")
        finally:
            await api.close()

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("9223372036854775808", MOST_TOKENS),
        ("1e999", 0),  # no JSON parser here reads it as a number; the reply is refused or the count is 0
        ("1" + "0" * 30, MOST_TOKENS),
        ("-5", 0),
        ("12.7", 12),
        ('"77"', 0),
        ("true", 0),
        ("[1]", 0),
        ("null", 0),
        ("17", 17),
    ],
)
def test_token_counts_are_clamped_and_never_kill(number: str, expected: int) -> None:
    text = json.dumps(reply()).replace('"usage": {}', f'"usage": {{"prompt_tokens": {number}}}')
    try:
        got, clamped = read_answer(ASKED, read_json(text.encode()))
    except BrokenReply:
        assert number == "1e999"
        return
    assert got.prompt_tokens in (expected, MOST_TOKENS if number == "1e999" else expected)
    assert (clamped > 0) == (number not in ("17", "null"))


def test_a_packed_bomb_is_given_up_at_the_limit() -> None:
    bomb = gzip.compress(b" " * (LARGEST_REPLY * 20))
    assert len(bomb) < LARGEST_REPLY / 40
    with server(bomb, Content_Encoding="gzip") as url, pytest.raises(Trouble, match="larger than 16 MiB"):
        ask(url)


def test_a_plain_flood_is_given_up_at_the_limit() -> None:
    with server(b" " * (LARGEST_REPLY + 1)) as url, pytest.raises(Trouble, match="larger than 16 MiB"):
        ask(url)


def test_an_honest_packed_reply_is_read() -> None:
    packed = gzip.compress(json.dumps(reply(prompt_tokens=3)).encode())
    with server(packed, Content_Encoding="gzip") as url:
        assert ask(url).prompt_tokens == 3


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, gzip"])
def test_a_packing_nobody_asked_for_is_refused(packing: str) -> None:
    with server(b"xx", Content_Encoding=packing) as url, pytest.raises(Trouble, match="packed with"):
        ask(url)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_nesting_is_refused_before_it_is_built(opening: bytes) -> None:
    began = time.process_time()
    with pytest.raises(BrokenReply):
        read_json(opening * 500_000)
    with server(opening * 100_000) as url, pytest.raises(Trouble, match="not JSON"):
        ask(url)
    assert time.process_time() - began < 30


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["choices", "message", "content", "usage", "prompt_tokens", "finish_reason", "x"]),
        inner, max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=1000, deadline=None)
@given(JSON)
def test_any_json_is_an_answer_or_a_broken_reply_never_anything_else(body: Any) -> None:
    try:
        got, _ = read_answer(ASKED, body)
    except BrokenReply:
        return
    assert isinstance(got.text, str)
    assert 0 <= got.prompt_tokens <= MOST_TOKENS


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_json_or_a_broken_reply(body: bytes) -> None:
    try:
        value = read_json(body)
    except BrokenReply:
        return
    # As another parser reads it; numbers as float, for integers beyond 64 bits are read as such.
    assert json.loads(json.dumps(value), parse_int=float) == json.loads(body, parse_int=float)


@pytest.mark.parametrize(
    ("message", "thought", "answer"),
    [
        ({"content": '{"ok": true}', "reasoning_content": "Hm."}, "Hm.", '{"ok": true}'),
        ({"content": '{"ok": true}', "reasoning": "Hm."}, "Hm.", '{"ok": true}'),
        ({"content": '<think>Hm.</think>\n\n{"ok": true}'}, "Hm.", '{"ok": true}'),
        ({"content": 'Hm.\n</think>{"ok": true}'}, "Hm.", '{"ok": true}'),
        ({"content": '{"ok": "</think>"}'}, "", '{"ok": "</think>"}'),
    ],
)
def test_a_thought_is_told_apart_from_the_answer(message: dict[str, Any], thought: str, answer: str) -> None:
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    response, _ = read_answer(ASKED, body)
    assert (response.thought, response.text) == (thought, answer)
