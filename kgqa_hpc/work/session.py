"""One process of a run: the data it keeps through all passes, its activity, its log, and its patience with errors.

The log holds a JSON object per line, for people with `jq` and for the tests. Every line has `time` (seconds since
1970), `worker` and `event`; the rest depends on the event. Lines are written at once and never synced: a log need not
outlive a power cut.

A parallel file system that fails over returns only errors for seconds; NFS reports a stale handle for a file that
another node has just replaced. Calls that are repeated every few seconds anyway (heartbeats, states,
claims) are then repeated, unless the errors last, or cannot pass by themselves, such as a full disk.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgqa_hpc.cluster.stop import Stop
from kgqa_hpc.config import RunConfig
from kgqa_hpc.engines.engine import ServerLoad, without_node
from kgqa_hpc.errors import CorruptFile, EngineDied, EngineError, NewerFormat, OlderFormat, StoreError
from kgqa_hpc.store import atomic, canonical
from kgqa_hpc.store.lease import Heartbeat
from kgqa_hpc.store.partition import ShardsManifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import LOG


class Logbook:
    """An open log. Usable from several threads."""

    def __init__(self, path: Path, worker: str) -> None:
        atomic.make_folder(path.parent)
        self._worker = worker
        self._lock = threading.Lock()
        self._lost = 0
        with atomic.disk_errors(path):
            self._file = open(atomic.open_append(path), "ab", buffering=0)  # noqa: SIM115  closed by `close`
        self.path = path

    def write(self, event: str, **facts: object) -> None:
        """Write one line; after `close`, nothing.

        A line that the file system refuses is lost, because the log must not end a thread; the next line that is
        written has the number of lost lines, as "lost".
        """
        LOG.debug("%s: %s %s", self._worker, event, facts)
        with self._lock:
            if self._file.closed:
                return
            entry = {"time": round(time.time(), 3), "worker": self._worker, "event": event, **facts}
            if self._lost:
                entry["lost"] = self._lost
            try:
                self._file.write(canonical.dumps(entry) + b"\n")
                self._lost = 0
            except OSError:
                self._lost += 1

    def close(self) -> None:
        with self._lock, suppress(OSError):
            self._file.close()


@dataclass(slots=True)
class Counters:
    """Counts of the scheduler (work/item_scheduler.py). `slowest`: duration of the slowest request, in seconds."""

    requests: int = 0
    answers: int = 0
    retries: int = 0
    errors: int = 0
    deaths: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    slowest: float = 0.0


@dataclass
class Activity:
    """Present activity of a worker; the main thread writes it, the reporter reads it."""

    pass_name: str = ""
    ended: int = 0  # items that this process has finished, in all passes
    open_shards: int = 0
    shards_done: int = 0
    in_flight: int = 0
    answered_at: float = field(default_factory=time.monotonic)
    counters: Counters = field(default_factory=Counters)


@dataclass
class Session:
    """One process of a run: the data that its threads share and keep through all passes.

    `facts` are the constant members of the worker's state: rank, host, job and the like. `shards` and `check` are set
    before the first pass.
    """

    run: RunFolder
    config: RunConfig
    worker: str
    stop: Stop
    log: Logbook
    heartbeat: Heartbeat
    facts: dict[str, Any]
    shards: ShardsManifest = field(init=False)
    check: Callable[[], None] = field(init=False)  # raises the exception of another thread, if there was one
    activity: Activity = field(default_factory=Activity)
    server_loads: dict[str, ServerLoad] = field(default_factory=dict)  # counts of server errors, by pass

    def stopped(self) -> bool:
        """Whether this process must stop."""
        return self.stop.reason is not None


LONGEST = 60.0  # seconds that errors may last at most; a fail-over takes tens of seconds
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class TransientErrors:
    """Patience of one thread with transient errors: call `failed` with each error, and `ok` after a success.

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


DEAD = (
    "see its log in the run's logs/; everything finished is saved; "
    "raise runtime.engine_restarts if single items kill it"
)


def bring_up(
    start: Callable[[], object],
    restarts: int,
    stopped: Callable[[], bool],
    deaths: int = 0,
    last: EngineDied | None = None,
) -> int:
    """Call `start` until the engine is up or `stopped()`; returns how often it has died in a row.

    `deaths`: number of earlier deaths; `last`: the latest of them. The first restart comes at once, later ones after
    growing pauses of at most half a minute. Raises EngineError after more than `restarts` deaths; what `start` raises
    besides EngineDied passes through.
    """
    while not stopped():
        if deaths > restarts:
            words = last.message if last else ""
            problem = f"the engine died {deaths} times without an answer: {words}"
            raise EngineError(problem, DEAD + without_node(words)) from last
        until = time.monotonic() + min(PAUSE * 2.0 ** max(deaths - 2, 0), LONGEST_PAUSE)
        while deaths > 1 and time.monotonic() < until and not stopped():
            time.sleep(0.05)
        try:
            start()
            return deaths
        except EngineDied as death:
            deaths, last = deaths + 1, death
    return deaths
