"""What is read from a server's reply: the answer, its numbers, the requested pause, and what a refusal teaches.

Replies that are too large, too deep, broken or random: tests/foreign.
"""

import gzip
import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.replies import Dialect, Trouble, error_words, read_answer, retry_after
from kgqa_hpc.engines.openai.settings import OpenAISettings
from tests.servers import chat_server, completion

ASKED = Request("r", ({"role": "user", "content": "hello"},))


def answer(body: Any, **headers: str) -> Response:
    """The answer of a server that replies with this body."""
    with chat_server(lambda handler, sent: (200, body, headers)) as address:
        api = ChatApi(address, OpenAISettings(model="m", base_url=address))
        return api.run(api.ask(ASKED, "none"))


@pytest.mark.parametrize("packing", ["gzip", "br", "zstd", "gzip, gzip"])
def test_gzip_is_unpacked_and_any_other_packing_is_a_broken_answer(packing: str) -> None:
    packed = gzip.compress(json.dumps(completion("yes")).encode(), mtime=0)
    headers = {"Content-Encoding": packing}
    if packing == "gzip":
        assert answer(packed, **headers).text == "yes"
    else:
        with pytest.raises(Trouble, match=r"broken answer|decode content-encoding"):
            answer(packed, **headers)


@pytest.mark.parametrize(
    ("message", "thought", "text"),
    [
        ({"content": '{"ok": true}', "reasoning_content": "Hm."}, "Hm.", '{"ok": true}'),
        ({"content": '{"ok": true}', "reasoning": "Hm."}, "Hm.", '{"ok": true}'),
        ({"content": '<think>Hm.</think>\n\n{"ok": true}'}, "Hm.", '{"ok": true}'),
        ({"content": 'Hm.\n</think>{"ok": true}'}, "Hm.", '{"ok": true}'),
        ({"content": '{"ok": "</think>"}'}, "", '{"ok": "</think>"}'),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                    {"type": "text", "text": '{"ok": '},
                    {"type": "text", "text": "true}"},
                ]
            },
            "Hm.",
            '{"ok": true}',
        ),
    ],
)
def test_a_thought_is_told_apart_from_the_answer(message: dict[str, Any], thought: str, text: str) -> None:
    response = read_answer(ASKED, completion(message))
    assert (response.thought, response.text) == (thought, text)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"), ("STOP", "stop"), ("eos_token", "stop"), ("stop_sequence", "stop"),
        ("MAX_TOKENS", "length"), ("SAFETY", "refusal"), ("content_filter: PROHIBITED_CONTENT", "refusal"),
        ("tool_calls", "error"), (None, "error"), (["stop"], "error"),
    ],
)  # fmt: skip
def test_only_a_known_reason_to_stop_makes_an_answer(reason: Any, finish: str) -> None:
    response = read_answer(ASKED, completion("yes", finish=reason))
    assert (response.text, response.finish) == ("yes", finish)
    assert finish != "error" or f"finish_reason {reason}" in (response.error or "")


def test_a_thought_that_takes_all_tokens_tells_the_cure() -> None:
    response = read_answer(ASKED, completion({"content": None, "reasoning": "Hm, wait."}, finish="length"))
    assert (response.finish, response.text) == ("length", "")
    assert "engine.thinking_tokens" in (response.error or "")


def test_a_filtered_answer_may_come_without_a_message() -> None:
    body = {"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]}
    response = read_answer(ASKED, body)
    assert (response.finish, response.text) == ("refusal", "content_filter: PROHIBITED_CONTENT")
    assert response.error == f"refused: {response.text}"


def test_a_page_in_place_of_an_answer_is_quoted() -> None:
    with pytest.raises(Trouble, match=r"broken answer: .*Welcome to nginx!"):
        answer(b"<html>Welcome to nginx!</html>")


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens_details": {"cached_tokens": 64}},
        {"prompt_tokens_details": None, "cached_tokens": 64},  # Moonshot
        {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},  # DeepSeek
    ],
)
def test_cached_tokens_are_read_from_any_of_the_forms(usage: dict[str, Any]) -> None:
    response = read_answer(ASKED, completion("yes", usage={"prompt_tokens": 100, **usage}))
    assert (response.prompt_tokens, response.cached_tokens) == (100, 64)


@pytest.mark.parametrize(
    ("usage", "written"),
    [
        ({"completion_tokens": 1, "total_tokens": 399}, 299),  # xAI, Gemini: thoughts only in the total
        ({"completion_tokens": 50, "total_tokens": 150}, 50),
        ({"completion_tokens": 50}, 50),
        ({"completion_tokens": 50, "total_tokens": 0}, 50),
        ({"completion_tokens": None, "total_tokens": 150}, 50),
    ],
)
def test_thoughts_are_counted_as_answer_tokens(usage: dict[str, Any], written: int) -> None:
    response = read_answer(ASKED, completion("yes", usage={"prompt_tokens": 100, **usage}))
    assert (response.prompt_tokens, response.completion_tokens) == (100, written)


BUSY = {"code": 502, "message": "Upstream idle timeout"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": BUSY}, "HTTP 502: Upstream"),
        ({"error": {"code": "429", "message": "slow"}}, "HTTP 429: slow"),
        (completion("Half an ans", "error") | {"usage": None}, "HTTP 502: finish_reason error"),
        ({"choices": [{"error": BUSY, "finish_reason": "error", "message": {}}]}, "HTTP 502: Upstream"),
        (completion("", "insufficient_system_resource"), "HTTP 502: finish_reason insufficient"),  # DeepSeek
        (
            {"error": {"code": 500, "message": "Provider returned error", "metadata": {"raw": "no GPU"}}},
            "HTTP 500: Provider returned error: no GPU",
        ),
    ],
)
def test_a_provider_that_fails_behind_a_reply_of_status_200_is_asked_again(body: Any, words: str) -> None:
    with pytest.raises(Trouble, match=words) as caught:
        answer(body)
    assert caught.value.again


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1e9"}, 3600.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0.5s"}, 360.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "120s"}, None),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "60s"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_a_pause_is_read_from_any_of_the_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_is_read_as_seconds_from_now() -> None:
    seconds = retry_after({"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert 0 < (seconds or 0) <= 100
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0


@pytest.mark.parametrize(
    "words",
    [
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "max_tokens is too large: 9000. This model supports at most 8192 completion tokens.",
        "`max_tokens` must be between 1 and 8192",
        "`max_tokens` must be <= 8192",
    ],
)
def test_a_limit_that_is_too_large_is_lowered_never_left_out(words: str) -> None:
    dialect = Dialect([])
    sent = dialect.apply({"model": "m"}, 9000)
    assert dialect.learns(sent, {"error": {"message": words, "param": "max_tokens"}}, words)
    assert dialect.apply({"model": "m"}, 9000) == {"model": "m", "max_tokens": 8192}
    assert dialect.learned == "max_tokens at most 8192"


def test_a_prompt_that_is_too_long_teaches_nothing() -> None:
    dialect = Dialect([])
    words = "'max_tokens' is too large: 1000. This model's maximum context length is 512 tokens"
    assert not dialect.learns({"max_tokens": 1000, "seed": 1}, {"error": {"param": "max_tokens"}}, words)
    assert dialect.learned == ""


@given(
    st.recursive(
        st.none() | st.text(max_size=9) | st.sampled_from(["seed", "max_tokens"]) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["error", "param", "loc", "message", "detail"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_an_error_holds_a_request_is_asked_again_only_so_often(error: Any) -> None:
    dialect, tries = Dialect([]), 0
    while dialect.learns(
        dialect.apply({"model": "m", "seed": 1, "temperature": 0}, 1000), error, error_words(error)
    ):
        tries += 1
        assert tries < 9
    assert "model" not in dialect.omitted
