"""What all steps have in common: requests, traces, and the end of an item."""

import json
from itertools import product

import orjson
import pytest

from kgqa_hpc.engines.engine import Response
from kgqa_hpc.steps.item import end
from kgqa_hpc.steps.step import TRACE_TEXT, Done, Reject, Retry, seed_of


def test_a_request_names_item_step_and_attempt_and_carries_the_schema(item, chain):
    request = chain[0].request(item, 2)
    assert request.id == "g01-0011223344556677/generate/2"
    assert request.schema == chain[0].prompt.schema
    assert request.max_tokens == 1000
    assert [message["role"] for message in request.messages] == ["system", "user"]


def test_seeds_have_31_bits_and_differ_between_items_steps_and_attempts():
    cases = list(product(range(3), map(str, range(100)), ("generate", "judge"), range(3)))
    seeds = {seed_of(*case) for case in cases}
    assert len(seeds) == len(cases)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert max(seeds) > 2**30


def test_a_request_is_the_same_everywhere_and_a_repeated_attempt_samples_as_greedy_would_repeat(item, chain):
    requests = [chain[0].request(item, attempt) for attempt in (0, 0, 1, 2)]
    assert requests[0] == requests[1]
    assert requests[0].seed == 2121284834
    assert (requests[0].temperature, requests[2].temperature > 0) == (0, True)
    assert requests[2].seed != requests[3].seed


def test_the_trace_tells_everything_about_an_answer(item, chain, pair_text, stop):
    request = chain[0].request(item, 1)
    chain[0].take(item, stop(pair_text()), 1)
    (entry,) = item.trace
    engine = {"name": "scripted", "version": "1", "model": "scripted-1", "digest": "d", "quantisation": "q"}
    assert entry == {
        "step": "generate",
        "attempt": 1,
        "prompt": {"name": "p5", "sha256": chain[0].prompt.sha256},
        "engine": engine,
        "seed": request.seed,
        "temperature": request.temperature,
        "text": pair_text(),
        "finish": "stop",
        "error": None,
        "repaired": False,
        "tokens": {"prompt": 1200, "completion": 300, "cached": 1100},
    }


@pytest.mark.parametrize("text", ["\ud800 alone", "x" * 10_000_000, "\x00", "\u2028", "🧬" * 3])
def test_any_text_can_be_stored(item, chain, stop, text):
    assert isinstance(chain[0].take(item, stop(text), 0), Retry)
    line = orjson.dumps(item.to_record())
    assert json.loads(line) == item.to_record()
    assert len(item.trace[0]["text"]) < TRACE_TEXT + 100


@pytest.mark.parametrize(
    ("finish", "error", "outcome"),
    [
        ("length", None, Retry("truncated", "invalid")),
        ("error", "CUDA error", Retry("engine error", "failed")),
        ("error", "request exceeds the context size", Retry("prompt too long", "failed")),
        ("error", None, Retry("engine error", "failed")),
        ("abort", None, Retry("aborted", "failed")),
    ],
)
def test_only_a_regular_end_is_data(item, chain, pair_text, finish, error, outcome):
    for step in chain:
        assert step.take(item, Response("x", pair_text(), finish, error=error), 0) == outcome
    assert item.output == {}
    assert item.verdicts == {}


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (Retry("truncated", "invalid"), "invalid", "judge: truncated"),
        (Retry("engine error", "failed"), "failed", "judge: engine error"),
        (Reject("judge: invalid answer"), "rejected", "judge: invalid answer"),
        (Done(), "accepted", None),
    ],
)
def test_the_end_of_an_item_has_a_status_and_a_reason_that_names_the_step(
    item, chain, pair_text, stop, outcome, status, reason
):
    chain[0].take(item, stop(pair_text()), 0)
    end(item, outcome, chain[0].context.kind, "judge")
    assert (item.status, item.reason) == (status, reason)
