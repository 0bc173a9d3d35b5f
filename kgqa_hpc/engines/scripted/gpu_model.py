"""A continuously batching GPU as a model: when would each request be answered?

Sequences enter a batch of fixed size as soon as one leaves. Prefill is done one prompt after the other at a
fixed rate, the part found in the prefix cache costs nothing; then each sequence decodes at its own fixed
rate. Time is an argument, so the same model runs against the clock (engine.py) or faster than it
(benchmarks).
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import Field

from kgqa_hpc.settings import Settings

T = TypeVar("T")


class GpuModel(Settings):
    """What the card is like: `batch` sequences share it, prefill and decode take their time."""

    batch: int = Field(64, ge=1, description="Sequences decoded at the same time.")
    prefill_tokens_per_s: float = Field(0.0, ge=0, description="0: prefill takes no time.")
    decode_tokens_per_s: float = Field(0.0, ge=0, description="Of one sequence; 0: decoding takes no time.")
    prefix_hit: float = Field(
        0.0, ge=0, le=1, description="Share of the system message read from the prefix cache."
    )
    jitter: float = Field(0.0, ge=0, le=1, description="Relative spread of each request's duration.")
    per_request_s: float = Field(0.0, ge=0, description="A fixed duration added to each request.")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request takes: tokens to read, of which `cached_tokens` are cached already, and to write."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    stretch: float = 1.0  # of the time to write, from jitter


class Batch(Generic[T]):
    """Requests of any type T in the model GPU. Times are seconds on any monotonic scale, never decreasing."""

    def __init__(self, latency: GpuModel) -> None:
        self.latency = latency
        self.busy_sequence_s = 0.0  # sum over sequences of the time each held its place
        self._queue: deque[tuple[T, Cost]] = deque()
        self._running: list[tuple[float, int, T]] = []
        self._prefill_free = 0.0
        self._count = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._running)

    def add(self, item: T, cost: Cost, now: float) -> None:
        """Queue a request at time `now`; it starts at once when the batch has room."""
        self._queue.append((item, cost))
        self._admit(now)

    def next_time(self) -> float | None:
        """When the next answer is ready; None when nothing runs."""
        return self._running[0][0] if self._running else None

    def pop_ready(self, now: float) -> list[T]:
        """The answers that are ready at `now`, in order; each frees its place to one that waits."""
        ready: list[T] = []
        while self._running and self._running[0][0] <= now:
            done, _, item = heapq.heappop(self._running)
            ready.append(item)
            self._admit(done)
        return ready

    def clear(self) -> list[T]:
        """Take everything out, running and waiting."""
        items = [item for _, _, item in sorted(self._running, key=lambda r: r[1])]
        items += [item for item, _ in self._queue]
        self._running.clear()
        self._queue.clear()
        return items

    def _admit(self, now: float) -> None:
        while self._queue and len(self._running) < self.latency.batch:
            item, cost = self._queue.popleft()
            done = self._finish_time(cost, now)
            self.busy_sequence_s += done - now
            self._count += 1
            heapq.heappush(self._running, (done, self._count, item))

    def _finish_time(self, cost: Cost, now: float) -> float:
        model = self.latency
        read = now
        if model.prefill_tokens_per_s:
            start = max(now, self._prefill_free)
            read = start + (cost.prompt_tokens - cost.cached_tokens) / model.prefill_tokens_per_s
            self._prefill_free = read
        write = cost.completion_tokens / model.decode_tokens_per_s if model.decode_tokens_per_s else 0.0
        return read + (write + model.per_request_s) * cost.stretch
