"""The money budget of a run (`runtime.budget`): a worker stops when the run has spent it."""

from __future__ import annotations

import time
from collections.abc import Callable

from kgqa_hpc.cluster.stop import PATIENCE, Stop
from kgqa_hpc.errors import InputError
from kgqa_hpc.status.money import money
from kgqa_hpc.status.snapshot import load_totals
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.numbers import about

LOOK_EVERY_S = 1.0
SHARE = 0.02  # of the time that may go into looking


class Spending:
    """Looks at what all workers of the run have spent. `budget` None: never."""

    def __init__(
        self, run: RunFolder, budget: float | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._budget, self._now = run, budget, now
        self._totals = load_totals(run, []) if budget is not None else []
        self._next = 0.0

    def require_rest(self) -> None:
        """Raises InputError when the budget is spent already: the same command again would do nothing."""
        if self._budget is not None and (spent := self._spent()) >= self._budget:
            raise InputError(
                f"runtime.budget.money: {about(spent)} of {self._budget:g} are spent",
                "raise it in the configuration, then kgqa init and kgqa run again",
            )

    def check(self, stop: Stop) -> None:
        """Ask for a stop when the budget is spent. What is in flight is waited for: it is paid for."""
        if self._budget is None or self._now() < self._next:
            return
        began = self._now()
        spent = self._spent()
        self._next = self._now() + max(LOOK_EVERY_S, (self._now() - began) / SHARE)
        if spent >= self._budget:
            stop.request(f"{about(spent)} of the budget of {self._budget:g} are spent", PATIENCE)

    def _spent(self) -> float:
        for pass_totals in self._totals:
            pass_totals.refresh(self._run)
        figures = money(self._run, self._totals)
        return float(figures["spent"]) if figures else 0.0
