"""Frames between worker and engine process."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import MOST_TOKENS, Request, Response
from kgqa_hpc.engines.protocol import (
    Frames,
    frame,
    read_requests,
    read_responses,
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


def test_a_lone_surrogate_becomes_a_question_mark_and_nothing_else_changes() -> None:
    response = Response("r", 'a\ud800b "é"', "stop", 5)
    ((_, content),) = Frames().feed(frame("responses", write_responses([response])))
    assert read_responses(content)[0] == Response("r", 'a?b "é"', "stop", 5)


def test_token_counts_from_the_engine_are_bounded() -> None:
    (answer,) = read_responses([["r", "t", "stop", 2**63, -1, 1e300, None, ""]])
    assert answer[3:6] == (MOST_TOKENS, 0, MOST_TOKENS)
