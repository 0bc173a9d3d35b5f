"""Retry timing: for the next shard, for a refused call of the file system, for an engine that died.

A shard whose holder needs several times as long as our own shards took gets a second, speculative worker,
which goes on from the first one's journal. The first committed result wins; the other worker notices at its
next heartbeat.

A parallel file system that fails over answers nothing but errors for seconds; NFS calls a file stale that
another node has just replaced. Calls that are repeated every few seconds anyway (heartbeats, states,
claims) are then tried again, unless the trouble lasts, or is one that stays until somebody mends it: a full
disk.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from kgqa_hpc.engines.last_words import without_node
from kgqa_hpc.errors import (
    CorruptFile,
    EngineDied,
    EngineError,
    KgqaError,
    NewerFormat,
    OlderFormat,
    StoreError,
)
from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.queue import ShardQueue

# Times our own mean: more than shards differ in length, and sooner than the other worker would be done.
SLOW = 3.0
REMEMBERED = 10  # shards the mean is taken over


class Claims:
    """The leases of one worker in one pass, claimed at the interval that the queue asks for."""

    def __init__(self, queue: ShardQueue) -> None:
        self._queue = queue
        self._look_again = 0.0
        self._durations: list[float] = []

    @property
    def complete(self) -> bool:
        """All shards of the pass are done, as of the last `next`."""
        return self._queue.complete

    def next(self, *, idle: bool) -> Lease | None:
        """Claim a lease; None if no shard is free, or it is too early to look again.

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


LONGEST = 60.0  # s; a fail-over takes tens of seconds
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class TransientErrors:
    """The errors of one thread: call `failed` with each, and `ok` when something worked."""

    def __init__(self, patience: float = LONGEST) -> None:
        self._patience = patience
        self._since: float | None = None

    def ok(self) -> None:
        self._since = None

    def failed(self, problem: Exception) -> None:
        """Returns when it is worth another try; else, or when it has lasted too long, raises `problem`."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not may_pass(problem) or now - self._since > self._patience:
            raise problem


def may_pass(problem: Exception) -> bool:
    """Whether it may be over in a moment."""
    if isinstance(problem, StoreError) and not isinstance(problem, CorruptFile | NewerFormat | OlderFormat):
        cause = problem.__cause__
        return not (isinstance(cause, OSError) and cause.errno in _LASTING)
    if isinstance(problem, KgqaError):
        return False
    return isinstance(problem, OSError) and problem.errno not in _LASTING


# s before the second restart of an engine in a row, and before a late one
PAUSE, LONGEST_PAUSE = 0.1, 30.0


def bring_up(
    start: Callable[[], object],
    restarts: int,
    stopped: Callable[[], bool],
    deaths: int = 0,
    last: EngineDied | None = None,
) -> int:
    """Call `start` until the engine is up or `stopped()`; returns how often it has died in a row.

    `deaths` and `last` tell of those before. The first restart comes at once, later ones after growing
    pauses of at most half a minute. Raises EngineError after more than `restarts` deaths; what `start`
    raises besides EngineDied passes through.
    """
    while not stopped():
        if deaths > restarts:
            words = last.message if last else ""
            cure = "its log in the run's logs/ tells more; everything finished is saved"
            raise EngineError(
                f"the engine died {deaths} times without an answer: {words}", cure + without_node(words)
            ) from last
        until = time.monotonic() + min(PAUSE * 2.0 ** max(deaths - 2, 0), LONGEST_PAUSE)
        while deaths > 1 and time.monotonic() < until and not stopped():
            time.sleep(0.05)
        try:
            start()
            return deaths
        except EngineDied as death:
            deaths, last = deaths + 1, death
    return deaths
