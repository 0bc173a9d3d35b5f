"""Reporter thread of a worker: it takes the coordinator's role when it is free, and writes progress and status.

After a passing error of the file system it tries again. A lasting error (a full disk while cutting shards)
ends the thread, and `check` raises it in the main thread.
"""

import random
import threading
import time
from typing import Any

from kgqa_hpc.errors import StoppedEarly, StoreError
from kgqa_hpc.status.log_files import remove_state, write_state
from kgqa_hpc.status.pass_totals import acceptance_words
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store import canonical
from kgqa_hpc.store.regular import read_if_there
from kgqa_hpc.terminal import Progress
from kgqa_hpc.work.coordinator import Coordinator
from kgqa_hpc.work.pace import TransientErrors, may_pass
from kgqa_hpc.work.session import Session, describe

TICK = 0.5  # s between two checks of the timers
# Shortest and longest seconds between two states and two rounds of duties: few workers report often, thousands seldom.
SOONEST, LATEST = 5.0, 30.0
# Number of workers that may try to write the final status if the coordinator is dead.
FEW = 16


class Reporter:
    """The reporter of a worker, as a thread from `start` to `stop`."""

    def __init__(self, session: Session, lead: Coordinator, progress: Progress | None) -> None:
        self._session, self._run, self._log = session, session.run, session.log.write
        self._lead, self._progress = lead, progress
        self._began = time.monotonic()
        self._every = min(LATEST, max(SOONEST, session.facts["size"] / 20))
        self._seen: dict[str, Any] | None = None
        self._ended = threading.Event()
        self._trouble: BaseException | None = None
        self._transient_errors = TransientErrors(session.config.runtime.lease)
        self._thread = threading.Thread(target=self._report, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Raise the exception that ended the thread, if there was one."""
        if self._trouble is not None:
            raise self._trouble

    def stop(self, *, failed: bool, complete: bool) -> None:
        """Remove this worker's state, write the final status, release the coordinator's role.

        The final status of a `complete` run is written by the first process that finds it missing, even if the
        coordinator was killed. Raises DiskFull, StoreError.
        """
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        remove_state(self._run.logs, self._session.worker)
        try:
            if not failed and self._trouble is None:
                self._finish(complete)
        finally:
            if self._progress is not None:
                self._progress.close(*(_words(self._seen) if self._seen else (0, 0, "nothing was begun")))
            self._lead.resign()

    def _finish(self, complete: bool) -> None:
        """Write the final status if this process is the coordinator, or no other process does; show the progress."""
        try:
            missing = complete and not (self._read_status() or {}).get("complete")
            few = (
                self._session.facts["size"] <= FEW
            )  # of thousands of processes, only the coordinator's successor writes
            if self._lead.leading or (missing and (few or self._lead.take())):
                self._lead.duties(last=True)
            if self._progress is not None:
                self._seen = self._lead.status or survey(self._run.path)
        except StoppedEarly:
            pass  # the shards were not cut yet: there is no state to write
        except (StoreError, OSError) as problem:
            if not may_pass(problem):
                raise
            self._log("last-look-failed", problem=str(problem))

    def _report(self) -> None:
        due = 0.0
        try:
            while not self._ended.wait(TICK if due else 0):
                if time.monotonic() >= due:
                    pause = self._every if self._report_once() else TICK
                    due = time.monotonic() + pause * random.uniform(0.8, 1.2)
                if self._progress is not None and self._seen is not None:
                    self._progress.update(*_words(self._seen))
        except StoppedEarly:
            pass  # the main thread stops for the same reason
        except BaseException as problem:  # noqa: BLE001  raised by `check` in the main thread
            self._trouble = problem

    def _report_once(self) -> bool:
        """Write state and status; returns whether that succeeded. An error that may pass is tolerated for a while."""
        try:
            now = time.monotonic()
            session = self._session
            state = {**session.facts, "worker": session.worker, "up": round(now - self._began, 1)}
            write_state(self._run.logs, session.worker, state | describe(session.activity, now))
            if self._lead.take():
                self._lead.duties()
            if self._progress is not None:
                self._seen = (self._lead.status if self._lead.leading else self._read_status()) or self._seen
        except (StoreError, OSError) as problem:
            self._transient_errors.failed(problem)
            self._log("report-failed", problem=str(problem))
            return False
        self._transient_errors.ok()
        return True

    def _read_status(self) -> dict[str, Any] | None:
        try:
            status = canonical.loads(read_if_there(self._run.status_file) or b"")
        except ValueError:
            return None
        return status if isinstance(status, dict) and {"items", "verdicts"} <= status.keys() else None


def _words(status: dict[str, Any]) -> tuple[int, int, str]:
    """The number of finished items, the number of all items, and the text of the progress line."""
    items, shards = status["items"], status["shards"]
    words = [f"shards {shards['done']:,} of {shards['total']:,}", acceptance_words(status)]
    if status["workers"]["alive"] > 1:
        words.append(f"{status['workers']['alive']} workers")
    return min(items["ended"], items["total"]), items["total"], " · ".join(filter(None, words))
