"""One process of a run: the data it keeps through all passes, its activity, and its log.

The log holds a JSON object per line, for people with `jq` and for the tests. Every line has `time` (seconds since
1970), `worker` and `event`; the rest depends on the event. Lines are written at once and never synced: a log need not
outlive a power cut.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgqa_hpc.cluster.stop import Stop
from kgqa_hpc.config import RunConfig
from kgqa_hpc.engines.engine import ServerLoad
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import disk_errors, make_folder, open_append
from kgqa_hpc.store.fingerprint import ResultOrigin
from kgqa_hpc.store.lease_renewal import Heartbeat
from kgqa_hpc.store.partition import ShardsManifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import LOG
from kgqa_hpc.work.item_scheduler import Counters


class Logbook:
    """An open log. Usable from several threads; a context manager."""

    def __init__(self, path: Path, worker: str) -> None:
        make_folder(path.parent)
        self._worker = worker
        self._lock = threading.Lock()
        self._lost = 0
        with disk_errors(path):
            self._file = open(open_append(path), "ab", buffering=0)  # noqa: SIM115  closed by `close`
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

    def __enter__(self) -> Logbook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Activity:
    """Present activity of a worker; the main thread writes it, the reporter reads it."""

    pass_name: str = ""
    ended: int = 0  # items that this process has finished, in all passes
    ended_open: int = 0  # finished items whose shard has no result yet
    open_shards: int = 0
    shards_done: int = 0
    in_flight: int = 0
    waiting: int = 0
    answered_at: float = field(default_factory=time.monotonic)
    counters: Counters = field(default_factory=Counters)


@dataclass
class Session:
    """One process of a run: data that its threads share, and that stay over all passes.

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
    sections: dict[str, dict[str, Any]] = field(init=False)  # the run's fingerprint
    check: Callable[[], None] = field(init=False)  # raises the exception of another thread, if there was one
    activity: Activity = field(default_factory=Activity)
    server_loads: dict[str, ServerLoad] = field(default_factory=dict)  # counts of server errors, by pass

    def stopped(self) -> bool:
        """Whether this process must stop."""
        return self.stop.reason is not None

    def origin(self, pass_name: str) -> ResultOrigin:
        """The origin that identifies results and journals of a pass."""
        return ResultOrigin.of(self.sections, pass_name)

    def before(self, pass_name: str) -> str | None:
        """The previous pass; None for the first."""
        names = [entry.name for entry in self.config.passes]
        position = names.index(pass_name)
        return names[position - 1] if position else None


def describe(activity: Activity, now: float) -> dict[str, Any]:
    """An activity as plain data, for the worker's state file. `now` on the monotonic clock."""
    numbers = ("ended", "ended_open", "open_shards", "shards_done", "in_flight")
    counts = ("requests", "retries", "errors", "deaths", "prompt_tokens", "completion_tokens")
    return {
        "pass": activity.pass_name,
        **{name: getattr(activity, name) for name in numbers},
        "silent": round(now - activity.answered_at, 1),
        **{name: getattr(activity.counters, name) for name in counts},
        "slowest": round(activity.counters.slowest, 3),
    }
