"""Frames between worker and engine process."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import MOST_TOKENS, EngineInfo, Request, Response
from kgqa_hpc.engines.protocol import (
    Frames,
    GarbledStream,
    frame,
    read_info,
    read_refusal,
    read_requests,
    read_responses,
    write_info,
    write_requests,
    write_responses,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), st.randoms(use_true_random=False))
def test_what_goes_in_comes_out_however_the_stream_is_cut(
    name: str, content: str, seed: int, cutter: random.Random
) -> None:
    request = Request(name, ({"role": "user", "content": content},), seed=seed, schema={"type": "null"})
    response = Response(name, content, "length", 1, 2, 3, error=content)
    stream = frame("requests", write_requests([request])) + frame("beat", 7)
    stream += frame("responses", write_responses([response]))
    frames, got, start = Frames(), [], 0
    while start < len(stream):
        end = start + cutter.randint(1, 40)
        got += list(frames.feed(stream[start:end]))
        start = end
    assert [verb for verb, _ in got] == ["requests", "beat", "responses"]
    assert read_requests(got[0][1]) == [request]
    assert read_responses(got[2][1]) == [response]


def test_requests_share_what_they_have_in_common_and_nothing_else() -> None:
    system, schema = {"role": "system", "content": "long instructions"}, {"type": "null"}
    requests = [
        Request(f"r{n}", (system, {"role": "user", "content": f"item {n}"}), seed=n, schema=schema)
        for n in range(50)
    ]
    requests.append(Request("bare", ({"role": "user", "content": "item 0"},)))
    stream = frame("requests", write_requests(requests))
    assert stream.count(b"long instructions") == 1
    ((_, content),) = Frames().feed(stream)
    assert read_requests(content) == requests


@given(st.binary(min_size=4, max_size=200))
def test_bytes_that_are_no_frames_are_refused_or_waited_for_never_misread(data: bytes) -> None:
    frames = Frames()
    try:
        for verb, _ in frames.feed(data):
            assert isinstance(verb, str | list | dict | int | float | bool | None)
    except (GarbledStream, ValueError, TypeError):
        pass


def test_an_impossible_length_is_found_at_once() -> None:
    with pytest.raises(GarbledStream):
        list(Frames().feed(b"\xff\xff\xff\xff"))


def test_a_lone_surrogate_becomes_a_question_mark_and_nothing_else_changes() -> None:
    response = Response("r", 'a\ud800b "é"', "stop", 5)
    ((_, content),) = Frames().feed(frame("responses", write_responses([response])))
    assert read_responses(content)[0] == Response("r", 'a?b "é"', "stop", 5)


def test_engine_info_survives_the_pipe() -> None:
    info = EngineInfo("cpu", "1", "m.gguf", "ab", "Q4", max_batch=3, extra={"context": 5})
    ((_, content),) = Frames().feed(frame("ready", write_info(info)))
    assert read_info(content) == info


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=500, deadline=None)
@given(JSON)
def test_content_of_any_shape_is_understood_or_gibberish_never_another_error(content: Any) -> None:
    for read in (read_responses, read_info, read_refusal):
        with suppress(GarbledStream):
            read(content)
    ((verb, _),) = Frames().feed(frame("x", content))
    assert verb == "x"


@pytest.mark.parametrize("body", [b"5", b"null", b'"ab"', b"[1, 2]", b'["x"]', b'["x", 1, 2]', b"{}"])
def test_a_frame_that_is_no_verb_with_content_is_gibberish(body: bytes) -> None:
    with pytest.raises(GarbledStream):
        list(Frames().feed(len(body).to_bytes(4, "little") + body))


@pytest.mark.parametrize(
    "row",
    [
        ["r", "t", "stop", 1, 2, 3],
        ["r", "t", "stop", 1, 2, 3, None, None],
        ["r", None, "stop", 1, 2, 3, None],
        [5, "t", "stop", 1, 2, 3, None],
        ["r", "t", "done", 1, 2, 3, None],
        ["r", "t", "stop", 1, 2, 3, 7],
        "rtstop1",
    ],
)
def test_a_malformed_response_is_gibberish(row: Any) -> None:
    with pytest.raises(GarbledStream):
        read_responses([row])


def test_token_counts_from_the_engine_are_bounded_too() -> None:
    (answer,) = read_responses([["r", "t", "stop", 2**63, -1, 1e300, None, ""]])
    assert answer[3:6] == (MOST_TOKENS, 0, MOST_TOKENS)
