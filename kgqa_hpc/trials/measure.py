"""Measurement of an engine in its own process at several batch sizes, in the steady state.

A row of the result sends at least three times as many different prompts as it keeps in flight. It counts the time from
the first to the last moment with a full batch; an answer that overlaps a bound of this time counts by its share. The
time to the first token is measured with requests for one token, because engines return whole answers; the prefill speed
is the number of prompt tokens per second of these requests. The unguided row repeats the best guided batch size.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Request, Response
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.trials.card import GpuWatch, decode_limit

STALL_S = 600.0
TIMES = 3  # prompts of a row, as a multiple of its batch
ALONE = 4  # prompts of a row with a batch of 1
FIRST = 32  # largest number of requests for one token
SWEEP = (1.0, 1.5, 2.0)  # multiples of the engine's own batch


@dataclass(frozen=True, slots=True)
class Prompts:
    """Requests in the order of a run, the mean number of requests per item, and the steps that send them."""

    requests: list[Request]
    per_item: float = 1.0
    steps: tuple[str, ...] = ("generate",)


class Exchange(NamedTuple):
    """A response with the times at which its request was sent and answered (seconds, time.monotonic)."""

    sent: float
    answered: float
    response: Response


@dataclass(slots=True)
class Timed:
    """Exchanges of a row, and start and end of the time with a full batch."""

    start: float
    end: float = 0.0
    steady: bool = False
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def rate(self, count: Callable[[Response], float]) -> float:
        """The sum of `count(response)` per second between start and end."""
        if self.seconds <= 0:
            return 0.0
        return sum(count(e.response) * self._share(e) for e in self.exchanges) / self.seconds

    def _share(self, exchange: Exchange) -> float:
        inside = min(exchange.answered, self.end) - max(exchange.sent, self.start)
        return max(inside, 0.0) / max(exchange.answered - exchange.sent, 1e-9)


def measure(
    settings: EngineSettings,
    prompts: Callable[[int], Prompts],
    log: Path,
    batches: Sequence[int] | None = None,
    number: int | None = None,
    row_done: Callable[[dict[str, Any]], None] = lambda document: None,
) -> dict[str, Any]:
    """The measurement as plain data (docs/guide/engines.md, "kgqa bench"); `row_done` is called with it after each row.

    `prompts(n)` returns at most n requests. `batches` defaults to 1 and to 1, 1.5 and 2 times the engine's batch,
    `number` (prompts per row) to three times the row's batch. Raises EngineConfigError, EngineDied.
    """
    engine = EngineProcess(settings, log, STALL_S)
    try:
        began = time.monotonic()
        info = engine.start()
        document = {"load_s": round(time.monotonic() - began, 2)}
        sizes = sorted(set(batches or _sweep(settings, info)))
        needed = {size: number or (TIMES * size if size > 1 else ALONE) for size in sizes}
        rounds = [needed[size] + min(size, FIRST) for size in (*sizes, max(sizes))]
        source = prompts(sum(rounds) + 2)
        supply = _Supply(source.requests)
        began = time.monotonic()
        _prepare(engine, supply)
        document["preflight_s"] = round(time.monotonic() - began, 2)
        rows: list[dict[str, Any]] = []
        with GpuWatch(str(info.extra.get("gpu_uuid", ""))) as gpu:
            for mode, size in _plan(sizes, rows):
                larger = settings.with_batch(max(sizes)) if size > info.max_batch else None
                if larger is not None and size > engine.info.max_batch:
                    engine.close()
                    engine = EngineProcess(larger, log, STALL_S)
                    engine.start()
                    _prepare(engine, supply)
                rows.append(_row(engine, mode, size, supply, needed[size], gpu))
                row_done(_document(document, info, gpu, source, rows))
        engine.close()
        return _document(document, info, gpu, source, rows)
    finally:
        engine.kill()


def _sweep(settings: EngineSettings, info: EngineInfo) -> list[int]:
    held = settings.with_batch(info.max_batch) is None
    return [1, *(max(round(info.max_batch * times), 1) for times in (SWEEP[:1] if held else SWEEP))]


def _plan(sizes: Sequence[int], rows: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """(mode, batch) of each row; the last row depends on the rows before it."""
    yield from (("guided", size) for size in sizes)
    yield "unguided", best_of(rows)["batch"]


class _Supply:
    """Supply of prompts, each used once; after the last it starts again and counts the repetitions."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.schemas = list({id(r.schema): r.schema for r in requests if r.schema is not None}.values())
        self._all = cycle(enumerate(requests))
        self._number = len(requests)
        self._handed = 0

    def take(self, number: int, **changes: Any) -> tuple[list[Request], int]:
        """Take `number` requests with new ids; also return how many of their prompts are repetitions."""
        again = max(self._handed + number - max(self._number, self._handed), 0)
        start = self._handed
        self._handed += number
        requests = [
            request._replace(id=f"{start + n}/{request.id}", **changes)
            for n, (_, request) in enumerate(islice(self._all, number))
        ]
        return requests, again


def _prepare(engine: EngineProcess, supply: _Supply) -> None:
    """Warm up: compile the schemas and wait for a first answer."""
    engine.preflight(supply.schemas)
    _push(engine, supply.take(1)[0], 1)


def _push(engine: EngineProcess, requests: Sequence[Request], in_flight: int) -> Timed:
    """Send all requests with at most `in_flight` at a time, and wait for the last answer."""
    waiting, sent = list(reversed(requests)), dict[str, float]()
    timed = Timed(time.monotonic())
    while waiting or sent:
        batch = [waiting.pop() for _ in range(min(in_flight - len(sent), len(waiting)))]
        now = time.monotonic()
        sent.update((request.id, now) for request in batch)
        engine.send(batch)
        if not timed.steady and len(sent) == in_flight:
            timed.start, timed.steady = now, True
        for response in engine.receive(1.0):
            now = time.monotonic()
            timed.exchanges.append(Exchange(sent.pop(response.id), now, response))
        if not timed.end and not waiting and len(sent) < in_flight:
            timed.end = now
    return timed


def _row(
    engine: EngineProcess, mode: str, size: int, supply: _Supply, number: int, gpu: GpuWatch
) -> dict[str, Any]:
    single, again = supply.take(min(size, FIRST), max_tokens=1, schema=None)
    reading = _push(engine, single, size)
    reading.end = max((exchange.answered for exchange in reading.exchanges), default=reading.start)
    requests, repeated = supply.take(number, **({} if mode == "guided" else {"schema": None}))
    timed = _push(engine, requests, size)
    answered = [e.response for e in timed.exchanges if e.response.finish in ("stop", "length")]
    prompt, cached = (sum(getattr(r, n) for r in answered) for n in ("prompt_tokens", "cached_tokens"))
    written = sum(response.completion_tokens for response in answered)
    decode = timed.rate(lambda r: r.completion_tokens)
    limit = decode_limit(engine.info, gpu.name, size, (prompt + written) / len(answered) if answered else 0.0)
    return {
        "mode": mode,
        "batch": size,
        "requests": len(requests),
        "failed": len(requests) - len(answered),
        "repeated": again + repeated,  # repeated prompts, which a prefix cache answers without reading them
        "steady": timed.steady,
        "seconds": round(timed.seconds, 3),
        "requests_per_s": round(timed.rate(lambda r: r.finish in ("stop", "length")), 4),
        "decode_tokens_per_s": round(decode, 2),
        "prefill_tokens_per_s": round(reading.rate(lambda r: r.prompt_tokens - r.cached_tokens), 2),
        "first_token_s": _spread([e.answered - e.sent for e in reading.exchanges]),
        "latency_s": _spread([e.answered - e.sent for e in timed.exchanges]),
        "prefix_hit_share": round(cached / prompt, 4) if prompt else None,
        "mean_answer_tokens": round(written / len(answered), 1) if answered else None,
        "share_of_roofline": round(decode / limit, 4) if limit else None,
        **gpu.between(timed.start, timed.end),
    }


def best_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of guided decoding with the most tokens a second."""
    return max((r for r in rows if r["mode"] == "guided"), key=lambda r: r["decode_tokens_per_s"])


def _document(
    times: dict[str, float], info: EngineInfo, gpu: GpuWatch, source: Prompts, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    best = best_of(rows)
    free = next((r["decode_tokens_per_s"] for r in rows if r["mode"] == "unguided"), None)
    tokens = (best["mean_answer_tokens"] or 0) * source.per_item
    return {
        "format": "kgqa-bench",
        "version": 2,
        "engine": info.provenance(),
        "gpu": gpu.name or None,
        "parameters": info.extra.get("parameters"),
        "active_parameters": info.extra.get("active_parameters"),
        **times,
        "steps": list(source.steps),
        "rows": list(rows),
        "best": {
            **{key: best[key] for key in ("batch", "decode_tokens_per_s", "mean_answer_tokens")},
            "tokens_per_item": round(tokens, 1),
        },
        # Share of decoding time that the grammar costs; negative if guided decoding was faster (shorter answers, or
        # noise).
        "grammar_share": round(1 - best["decode_tokens_per_s"] / free, 4) if free else None,
    }


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"median": None, "p95": None, "max": None}
    ordered = sorted(values)
    return {
        "median": round(median(ordered), 4),
        "p95": round(ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)], 4),
        "max": round(ordered[-1], 4),
    }
