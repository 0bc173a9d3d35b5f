"""One worker's log: a JSON object per line, for people with `jq` and for the tests.

Every line has `time` (seconds since 1970), `worker` and `event`; the rest depends on the event. Lines are
written at once and never synced: a log need not outlive a power cut.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType

from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import disk_errors, make_folder


class Logbook:
    """An open log. Usable from several threads; a context manager."""

    def __init__(self, path: Path, worker: str) -> None:
        make_folder(path.parent)
        self._worker = worker
        self._lock = threading.Lock()
        with disk_errors(path):
            self._file = path.open("ab", buffering=0)
        self.path = path

    def write(self, event: str, **facts: object) -> None:
        """One line. Raises DiskFull, StoreError; after `close` nothing is written."""
        line = canonical.dumps(
            {"time": round(time.time(), 3), "worker": self._worker, "event": event, **facts}
        )
        with self._lock, disk_errors(self.path):
            if not self._file.closed:
                self._file.write(line + b"\n")

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def __enter__(self) -> Logbook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
