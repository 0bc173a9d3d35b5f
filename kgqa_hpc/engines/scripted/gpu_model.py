"""A continuously batching GPU as a model: when would each request be answered?

Sequences enter a batch of fixed size as soon as one leaves. Prefill is done one prompt after the other at a
fixed rate, the part found in the prefix cache costs nothing; then each sequence decodes at a fixed rate, as long
as not more than `saturation` of them decode: more share the speed of so many. Time is an argument, so the same
model runs against the clock (engine.py) or faster than it (benchmarks).
"""

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import Field

from kgqa_hpc.settings import Settings

T = TypeVar("T")


class GpuModel(Settings):
    """What the card is like: `batch` sequences share it, prefill and decode take their time."""

    batch: int = Field(64, ge=1, description="Number of sequences decoded at the same time.")
    prefill_tokens_per_s: float = Field(0.0, ge=0, description="Speed of prefill; 0: prefill takes no time.")
    decode_tokens_per_s: float = Field(
        0.0, ge=0, description="Decoding speed of one sequence; 0: decoding takes no time."
    )
    saturation: int = Field(
        0,
        ge=0,
        description="Number of sequences that use the card fully; more of them share its speed; 0: no limit.",
    )
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
        self._running: list[tuple[float, int, float, T]] = []
        # A clock that advances with the decoding speed of a sequence, and the time of its last update.
        self._decoded = self._set = 0.0
        self._prefill_free = 0.0
        self._count = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._running)

    def add(self, item: T, cost: Cost, now: float) -> None:
        """Queue a request at time `now`; it starts at once if the batch is not full."""
        self._pass_to(now)
        self._queue.append((item, cost))
        self._admit()

    def next_time(self) -> float | None:
        """The time at which the next answer is ready; None if no sequence is running."""
        if not self._running:
            return None
        return self._set + (self._running[0][0] - self._decoded) / self._speed()

    def pop_ready(self, now: float) -> list[T]:
        """The answers that are ready at `now`, in order; each frees its place to one that waits."""
        ready: list[T] = []
        while (due := self.next_time()) is not None and due <= now:
            self._pass_to(due)
            _, _, entered, item = heapq.heappop(self._running)
            self.busy_sequence_s += due - entered
            ready.append(item)
            self._admit()
        return ready

    def clear(self) -> list[T]:
        """Remove all running and waiting requests."""
        items = [item for *_, item in sorted(self._running, key=lambda r: r[1])]
        items += [item for item, _ in self._queue]
        self._running.clear()
        self._queue.clear()
        return items

    def _pass_to(self, now: float) -> None:
        self._decoded += (now - self._set) * self._speed()
        self._set = now

    def _speed(self) -> float:
        """Speed of each sequence, as a share of the full speed."""
        most = self.latency.saturation
        return most / len(self._running) if 0 < most < len(self._running) else 1.0

    def _admit(self) -> None:
        while self._queue and len(self._running) < self.latency.batch:
            item, cost = self._queue.popleft()
            self._count += 1
            entry = self._decoded + self._duration(cost), self._count, self._set, item
            heapq.heappush(self._running, entry)

    def _duration(self, cost: Cost) -> float:
        """Duration of a request that enters now, at full speed."""
        model = self.latency
        wait = 0.0
        if model.prefill_tokens_per_s:
            start = max(self._set, self._prefill_free)
            reading = (cost.prompt_tokens - cost.cached_tokens) / model.prefill_tokens_per_s
            self._prefill_free = start + reading
            wait = self._prefill_free - self._set
        write = cost.completion_tokens / model.decode_tokens_per_s if model.decode_tokens_per_s else 0.0
        return wait + (write + model.per_request_s) * cost.stretch
