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
    """Speed of a GPU: the size of its batch, and the rates of prefill and decoding."""

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
    """Size of a request in tokens: prompt, part of it in the prefix cache, and answer."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    stretch: float = 1.0  # factor of the decoding time, from jitter


class Batch(Generic[T]):
    """Requests of any type T in the model GPU. Times are seconds on any monotonic scale, never decreasing."""

    def __init__(self, latency: GpuModel) -> None:
        self.latency = latency
        self.busy_sequence_s = 0.0  # sum of the times that sequences were in the batch
        self._queue: deque[tuple[T, Cost]] = deque()
        self._running: list[
            tuple[float, int, float, T]
        ] = []  # a heap: end on the decoding clock, number, entry
        # A clock that advances with the decoding speed of a sequence, and the time of its last update.
        self._decoded = self._now = 0.0
        self._prefill_free = 0.0
        self._count = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._running)

    def add(self, item: T, cost: Cost, now: float) -> None:
        """Queue a request at time `now`; it starts at once if the batch is not full."""
        self._advance(now)
        self._queue.append((item, cost))
        self._admit()

    def next_time(self) -> float | None:
        """The time at which the next answer is ready; None if no sequence is running."""
        if not self._running:
            return None
        return self._now + (self._running[0][0] - self._decoded) / self._speed()

    def pop_ready(self, now: float) -> list[T]:
        """The answers that are ready at `now`, in order; a waiting request enters the batch for each."""
        ready: list[T] = []
        while (due := self.next_time()) is not None and due <= now:
            self._advance(due)
            _, _, entered, item = heapq.heappop(self._running)
            self.busy_sequence_s += due - entered
            ready.append(item)
            self._admit()
        return ready

    def clear(self) -> list[T]:
        """Remove all running and waiting requests."""
        items = [item for *_, item in sorted(self._running, key=lambda entry: entry[1])]
        items += [item for item, _ in self._queue]
        self._running.clear()
        self._queue.clear()
        return items

    def _advance(self, now: float) -> None:
        self._decoded += (now - self._now) * self._speed()
        self._now = now

    def _speed(self) -> float:
        """Speed of each sequence, as a share of the full speed."""
        most = self.latency.saturation
        return most / len(self._running) if 0 < most < len(self._running) else 1.0

    def _admit(self) -> None:
        """Move waiting requests into the batch while it has room; a prompt is read after the one before it."""
        model = self.latency
        while self._queue and len(self._running) < model.batch:
            item, cost = self._queue.popleft()
            duration = model.per_request_s
            if model.decode_tokens_per_s:
                duration += cost.completion_tokens / model.decode_tokens_per_s
            duration *= cost.stretch
            if model.prefill_tokens_per_s:
                reading = (cost.prompt_tokens - cost.cached_tokens) / model.prefill_tokens_per_s
                self._prefill_free = max(self._now, self._prefill_free) + reading
                duration += self._prefill_free - self._now
            self._count += 1
            heapq.heappush(self._running, (self._decoded + duration, self._count, self._now, item))
