"""When to ask the queue for another shard, and when to help a straggler.

A shard whose holder needs several times as long as our own shards took gets a second, speculative worker,
which goes on from the first one's journal. The first committed result wins; the other one notices at its
next heartbeat.
"""

from __future__ import annotations

import time

from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.queue import ShardQueue

# Times our own mean: more than shards differ in length, and sooner than the other worker would be done.
SLOW = 3.0
REMEMBERED = 10  # shards the mean is taken over


class Claims:
    """The leases that one worker gets in one pass, asked for at the queue's pace."""

    def __init__(self, queue: ShardQueue) -> None:
        self._queue = queue
        self._look_again = 0.0
        self._durations: list[float] = []

    @property
    def complete(self) -> bool:
        """All shards of the pass are done, as of the last `next`."""
        return self._queue.complete

    def next(self, *, idle: bool) -> Lease | None:
        """A claimed lease; None when there is none, or it is too early to look again.

        `idle`: this worker has nothing else to do, so it may help a straggler. Raises DiskFull, StoreError.
        """
        if time.monotonic() < self._look_again:
            return None
        lease = self._queue.claim(self.slow_after if idle else None)
        if lease is None:
            self._look_again = time.monotonic() + self._queue.poll_interval()
        return lease

    def finished(self, seconds: float) -> None:
        """A shard took so long from its claim to its result."""
        self._durations = [*self._durations[1 - REMEMBERED :], seconds]

    @property
    def slow_after(self) -> float | None:
        """Seconds after which another's shard counts as stuck; None before we know how long one takes."""
        if not self._durations:
            return None
        return max(SLOW * sum(self._durations) / len(self._durations), self._queue.leases.expiry)
