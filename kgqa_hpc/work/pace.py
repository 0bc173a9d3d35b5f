"""Timing of retries: of claims for a shard, of failed file system calls, and of restarts of an engine.

A shard whose holder needs several times as long as our own shards took gets a second, speculative worker,
which goes on from the first one's journal. The first committed result wins; the other worker notices at its
next heartbeat.

A parallel file system that fails over returns only errors for seconds; NFS reports a stale handle for a file that
another node has just replaced. Calls that are repeated every few seconds anyway (heartbeats, states,
claims) are then repeated, unless the errors last, or are of a kind that does not pass by itself, as a full disk.
"""

import errno
import time
from collections.abc import Callable

from kgqa_hpc.engines.clean import without_node
from kgqa_hpc.errors import CorruptFile, EngineDied, EngineError, NewerFormat, OlderFormat, StoreError
from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.queue import ShardQueue

# Factor on this worker's mean time per shard, larger than the variation between shards.
SLOW = 3.0
REMEMBERED = 10  # number of latest shards in the mean


class Claims:
    """The leases of one worker in one pass, claimed at the interval that the queue asks for."""

    def __init__(self, queue: ShardQueue) -> None:
        self._queue = queue
        self._look_again = 0.0
        self._durations: list[float] = []

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
        """Add a shard's seconds from claim to result to the mean."""
        self._durations = [*self._durations[1 - REMEMBERED :], seconds]

    @property
    def slow_after(self) -> float | None:
        """Seconds after which another worker's shard counts as stuck; None before this worker has finished a shard."""
        if not self._durations:
            return None
        return max(SLOW * sum(self._durations) / len(self._durations), self._queue.leases.expiry)


LONGEST = 60.0  # s; a fail-over takes tens of seconds
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class TransientErrors:
    """Transient errors of one thread: call `failed` with each error, and `ok` after a success.

    Errors may last for half the expiry of a lease, at most LONGEST.
    """

    def __init__(self, expiry: float) -> None:
        self._patience = min(LONGEST, expiry / 2)
        self._since: float | None = None

    def ok(self) -> None:
        self._since = None

    def failed(self, problem: Exception) -> None:
        """Return if the call may be repeated; raise `problem` if it cannot pass by itself, or has lasted too long."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not may_pass(problem) or now - self._since > self._patience:
            raise problem


def may_pass(problem: Exception) -> bool:
    """Whether an error may be temporary and disappear within seconds."""
    if isinstance(problem, CorruptFile | NewerFormat | OlderFormat):
        return False
    cause = problem.__cause__ if isinstance(problem, StoreError) else problem
    lasting = isinstance(cause, OSError) and cause.errno in _LASTING
    return isinstance(problem, StoreError | OSError) and not lasting


# Seconds before the second restart of an engine in a row, and before each later one.
PAUSE, LONGEST_PAUSE = 0.1, 30.0


def bring_up(
    start: Callable[[], object],
    restarts: int,
    stopped: Callable[[], bool],
    deaths: int = 0,
    last: EngineDied | None = None,
) -> int:
    """Call `start` until the engine is up or `stopped()`; returns how often it has died in a row.

    `deaths` and `last`: number and time of earlier deaths. The first restart comes at once, later ones after growing
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
