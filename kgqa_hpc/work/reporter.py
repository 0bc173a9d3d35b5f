"""A thread beside the worker: it leads when it may, and tells people and `status` how things stand.

Trouble in it (a full disk while cutting shards) is kept in `trouble` and raised by the main thread, never
lost.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from kgqa_hpc.errors import KgqaError
from kgqa_hpc.progress import Progress
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.status.worker_states import remove_state, write_state
from kgqa_hpc.store import canonical
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.work.coordinator import Lead
from kgqa_hpc.work.session import Activity, describe

TICK = 0.5  # s between two looks at what is due
# Seconds between two states and two rounds of duties: quick for one worker, bearable for thousands.
SOONEST, LATEST = 5.0, 30.0


class Reporter:
    """`facts` are what does not change in a worker's state: rank, host, job and the like."""

    def __init__(
        self,
        run: RunFolder,
        worker: str,
        lead: Lead,
        activity: Activity,
        facts: dict[str, Any],
        progress: Progress | None,
    ) -> None:
        self._run = run
        self._worker = worker
        self._lead = lead
        self._activity = activity
        self._facts = facts
        self._progress = progress
        self._began = time.monotonic()
        self._every = min(LATEST, max(SOONEST, facts["size"] / 20))
        self._seen: tuple[dict[str, Any], int] | None = None  # a status, and what we had ended when it came
        self._ended = threading.Event()
        self._trouble: KgqaError | None = None
        self._thread = threading.Thread(target=self._run_thread, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Raise what went wrong in the thread."""
        if self._trouble is not None:
            raise self._trouble

    def stop(self, *, failed: bool = False) -> None:
        """Take the last look, remove the own state and give the lead back. Raises DiskFull, StoreError."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            if not failed and self._trouble is None:
                if self._lead.leading:
                    self._lead.duties(last=True)
                if self._progress is not None:
                    self._seen = (self._lead.status or survey(self._run.path), self._activity.ended)
            remove_state(self._run.logs, self._worker)
        finally:
            self._close_progress()
            self._lead.resign()

    def _run_thread(self) -> None:
        due = 0.0
        try:
            while not self._ended.wait(TICK if due else 0):
                if time.monotonic() >= due:
                    self._report()
                    due = time.monotonic() + self._every * random.uniform(0.8, 1.2)
                self._show()
        except KgqaError as problem:
            self._trouble = problem

    def _report(self) -> None:
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
        self._look()

    def _look(self) -> None:
        status = self._lead.status if self._lead.leading else self._read_status()
        if status is not None:
            self._seen = (status, self._activity.ended)

    def _read_status(self) -> dict[str, Any] | None:
        if self._progress is None:
            return None
        try:
            status = canonical.loads(self._run.status_file.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return status if isinstance(status, dict) else None

    def _show(self) -> None:
        if self._progress is not None and self._seen is not None:
            self._progress.update(*self._words())

    def _close_progress(self) -> None:
        if self._progress is None:
            return
        if self._seen is None:
            self._progress.close(0, 0, "nothing was begun")
        else:
            self._progress.close(*self._words())

    def _words(self) -> tuple[int, int, str]:
        assert self._seen is not None
        status, ended_then = self._seen
        total = status["items"]["total"]
        ended = min(status["items"]["ended"] + self._activity.ended - ended_then, total)
        counts = {name: number for name, number in status["verdicts"].items() if name != "waiting"}
        judged = sum(counts.values())
        words = f"shards {status['shards']['done']:,} of {status['shards']['total']:,}"
        if judged:
            words += f" · accepted {100 * counts.get('accepted', 0) / judged:.0f} %"
        if status["workers"]["alive"] > 1:
            words += f" · {status['workers']['alive']} workers"
        return ended, total, words
