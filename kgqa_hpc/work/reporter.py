"""Reporter thread of a worker: it takes the coordinator's role when it is free, and writes progress and status.

After a passing error of the file system it tries again. A lasting error (a full disk while cutting shards)
ends the thread, and `check` raises it in the main thread.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from kgqa_hpc.errors import StoppedEarly, StoreError
from kgqa_hpc.status.pass_totals import acceptance_words
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.status.worker_states import remove_state, write_state
from kgqa_hpc.store import canonical
from kgqa_hpc.store.regular import read_if_there
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import Progress
from kgqa_hpc.work.coordinator import Coordinator
from kgqa_hpc.work.pace import LONGEST, TransientErrors, may_pass
from kgqa_hpc.work.session import Activity, describe

TICK = 0.5  # s between two checks of the timers
# Shortest and longest seconds between two states and two rounds of duties: few workers report often, thousands seldom.
SOONEST, LATEST = 5.0, 30.0
# Number of workers that may try to write the last state if the coordinator is dead.
FEW = 16


class Reporter:
    """`facts` are what does not change in a worker's state: rank, host, job and the like."""

    def __init__(
        self,
        run: RunFolder,
        worker: str,
        lead: Coordinator,
        activity: Activity,
        facts: dict[str, Any],
        progress: Progress | None,
        log: Callable[..., None] = lambda event, **facts: None,
        patience: float = LONGEST,
    ) -> None:
        self._run = run
        self._log = log
        self._worker = worker
        self._lead = lead
        self._activity = activity
        self._facts = facts
        self._progress = progress
        self._began = time.monotonic()
        self._every = min(LATEST, max(SOONEST, facts["size"] / 20))
        self._seen: dict[str, Any] | None = None
        self._ended = threading.Event()
        self._trouble: BaseException | None = None
        self._transient_errors = TransientErrors(patience)
        self._thread = threading.Thread(target=self._run_thread, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Raise the exception that ended the thread, if there was one."""
        if self._trouble is not None:
            raise self._trouble

    def stop(self, *, failed: bool = False, complete: bool = False) -> None:
        """Remove this worker's state, write the final status, release the coordinator's role.

        Raises DiskFull, StoreError.

        The last state of a `complete` run is written by the first process that finds it missing, even if the
        coordinator was killed.
        """
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        remove_state(self._run.logs, self._worker)
        try:
            if not failed and self._trouble is None:
                self._last_look(complete)
        finally:
            if self._progress is not None:
                self._progress.close(*(self._words() if self._seen else (0, 0, "nothing was begun")))
            self._lead.resign()

    def _last_look(self, complete: bool) -> None:
        try:
            if self._lead.leading or (complete and self._is_left_to_me()):
                self._lead.duties(last=True)
            if self._progress is not None:
                self._seen = self._lead.status or survey(self._run.path)
        except StoppedEarly:
            pass  # the shards were not cut yet: there is no state to write
        except (StoreError, OSError) as problem:
            if not may_pass(problem):
                raise
            self._log("last-look-failed", problem=str(problem))

    def _is_left_to_me(self) -> bool:
        """Whether the last state is missing and no other process writes it; few of thousands of processes
        check at once.
        """
        written = self._read_status() or {}
        return not written.get("complete") and (self._facts["size"] <= FEW or self._lead.take())

    def _run_thread(self) -> None:
        due = 0.0
        try:
            while not self._ended.wait(TICK if due else 0):
                if time.monotonic() >= due:
                    pause = self._every if self._try_to_report() else TICK
                    due = time.monotonic() + pause * random.uniform(0.8, 1.2)
                if self._progress is not None and self._seen is not None:
                    self._progress.update(*self._words())
        except StoppedEarly:
            pass  # the main thread stops for the same reason
        except BaseException as problem:  # noqa: BLE001  raised by `check` in the main thread
            self._trouble = problem

    def _try_to_report(self) -> bool:
        """Write state and status; returns whether that succeeded. An error that may pass is tolerated for a while."""
        try:
            now = time.monotonic()
            state = {
                **self._facts,
                "worker": self._worker,
                "up": round(now - self._began, 1),
                **describe(self._activity, now),
            }
            write_state(self._run.logs, self._worker, state)
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

    def _words(self) -> tuple[int, int, str]:
        assert self._seen is not None
        status = self._seen
        total = status["items"]["total"]
        ended = min(status["items"]["ended"], total)
        words = f"shards {status['shards']['done']:,} of {status['shards']['total']:,}"
        if accepted := acceptance_words(status):
            words += f" · {accepted}"
        if status["workers"]["alive"] > 1:
            words += f" · {status['workers']['alive']} workers"
        return ended, total, words
