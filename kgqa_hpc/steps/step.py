"""One thing that is done to an item: ask an engine, read the answer, say how it goes on.

A step owns no engine and no queue. The worker asks it for a request, gives it the response, and acts on the
outcome:

    Done            the item goes to the next step; after the last one: finish(item, outcome)
    Retry           ask again with attempt + 1; when attempts are used up: finish(item, outcome)
    Reject          finish(item, outcome)

`accept` writes output, verdicts and one trace entry per answer, and leaves the status alone; `finish` sets
it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

from kgqa_hpc.engines.engine import EngineInfo, Request, Response
from kgqa_hpc.prompts.module import Prompt
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.parse import Parsed, Unparseable, parse_json

TRACE_TEXT = 100_000  # characters of a raw answer that are kept


@dataclass(frozen=True, slots=True)
class Done:
    """The step did what it is for; the item goes on."""


@dataclass(frozen=True, slots=True)
class Retry:
    """No usable answer. `lost_as` is the item's status if this was the last attempt."""

    reason: str
    lost_as: Literal["invalid", "failed"]


@dataclass(frozen=True, slots=True)
class Reject:
    """A judge said no; `reason` begins with the step's name."""

    reason: str


Outcome = Done | Retry | Reject


class Step(Protocol):
    """What the worker sees of a step. It has no state that a request or an answer changes."""

    name: str
    prompt: Prompt
    context: StepContext

    def request(self, item: Item, attempt: int, run_seed: int) -> Request:
        """The question to the engine; the same for the same item, attempt and seed, on any machine."""

    def accept(self, item: Item, response: Response, attempt: int) -> Outcome:
        """Take the answer to `request(item, attempt, …)`; never raises on what a model wrote.

        An aborted response (finish `abort`) is not an answer: queue the item again and do not call this.
        """


@dataclass(slots=True)
class StepContext:
    """What the steps of a chain share: the run's seed, settings, and, once it is up, the engine."""

    run_seed: int
    edge_types: bool = False
    engine: EngineInfo | None = None


@lru_cache(maxsize=1 << 14)  # asked for by the request, and again by the trace of its answer
def seed_of(run_seed: int, item_id: str, step: str, attempt: int) -> int:
    """31 bits that differ between items, steps and attempts and never depend on who asks or when."""
    text = f"{run_seed}/{item_id}/{step}/{attempt}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") >> 1


def request_for(
    step: str, prompt: Prompt, item: Item, variables: dict[str, Any], attempt: int, run_seed: int
) -> Request:
    """Render the prompt. A repeated attempt samples at the prompt's retry temperature."""
    return Request(
        id=f"{item.id}/{step}/{attempt}",
        messages=prompt.render(variables),
        max_tokens=prompt.max_tokens,
        temperature=prompt.retry_temperature if attempt > 0 else prompt.temperature,
        seed=seed_of(run_seed, item.id, step, attempt),
        schema=prompt.schema,
    )


def trace_entry(
    step: str, prompt: Prompt, context: StepContext, item: Item, response: Response, attempt: int
) -> dict[str, Any]:
    """What is kept of one answer; `repaired` is set by the step that could read it."""
    return {
        "step": step,
        "attempt": attempt,
        "prompt": prompt.identity(),
        "engine": context.engine.provenance() if context.engine else {},
        "seed": seed_of(context.run_seed, item.id, step, attempt),
        "temperature": prompt.retry_temperature if attempt > 0 else prompt.temperature,
        "text": storable(response.text),
        "finish": response.finish,
        "error": None if response.error is None else storable(response.error),
        "repaired": False,
        "tokens": {
            "prompt": response.prompt_tokens,
            "completion": response.completion_tokens,
            "cached": response.cached_tokens,
        },
    }


def read_answer(
    step: str, prompt: Prompt, context: StepContext, item: Item, response: Response, attempt: int
) -> Parsed | Retry:
    """Keep the answer in the item's trace and read its JSON; a Retry when there is none to be had."""
    entry = trace_entry(step, prompt, context, item, response, attempt)
    item.trace.append(entry)
    if trouble := unusable(response):
        return trouble
    try:
        parsed = parse_json(response.text, prompt.schema)
    except Unparseable as problem:
        return Retry(problem.reason, lost_as="invalid")
    entry["repaired"] = parsed.repaired
    return parsed


def storable(text: str) -> str:
    """`text` as it can be written to any file: bounded, and without lone surrogates."""
    if len(text) > TRACE_TEXT:
        text = f"{text[:TRACE_TEXT]}… ({len(text)} characters, cut)"
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def unusable(response: Response) -> Retry | None:
    """The outcome of a response that is not data, whatever its text; None for one that may be read."""
    if response.finish == "stop":
        return None
    if response.finish == "length":
        return Retry("truncated", lost_as="invalid")
    if response.finish == "abort":
        return Retry("aborted", lost_as="failed")
    too_long = any(word in (response.error or "").lower() for word in ("context", "too long"))
    return Retry("prompt too long" if too_long else "engine error", lost_as="failed")


def finish(item: Item, outcome: Outcome, step: str | None = None) -> None:
    """Close the item: set `status` and `reason`. `step` is needed only if no request was ever answered."""
    if isinstance(outcome, Done):
        item.status, item.reason = "accepted", None
    elif isinstance(outcome, Reject):
        item.status, item.reason = "rejected", outcome.reason
    else:
        name = step or (item.trace[-1]["step"] if item.trace else None)
        item.status, item.reason = outcome.lost_as, f"{name}: {outcome.reason}" if name else outcome.reason
