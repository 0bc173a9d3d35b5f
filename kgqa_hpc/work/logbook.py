"""One worker's log: a JSON object per line, for people with `jq` and for the tests.

Every line has `time` (seconds since 1970), `worker` and `event`; the rest depends on the event. Lines are
written at once and never synced: a log need not outlive a power cut.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import disk_errors, make_folder
from kgqa_hpc.terminal import LOG


class Logbook:
    """An open log. Usable from several threads; a context manager."""

    def __init__(self, path: Path, worker: str) -> None:
        make_folder(path.parent)
        self._worker = worker
        self._lock = threading.Lock()
        self._lost = 0
        with disk_errors(path):
            self._file = path.open("ab", buffering=0)
        self.path = path

    def write(self, event: str, **facts: object) -> None:
        """One line. After `close` nothing is written.

        A line that the file system refuses is lost: the log must not be what ends a thread. The next line
        that is written tells how many were, as "lost".
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

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
