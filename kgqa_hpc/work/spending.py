"""The budget of a run (`runtime.budget`): workers stop when the run has spent its money, tokens, items or hours."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kgqa_hpc.cluster.stop import PATIENCE, Stop
from kgqa_hpc.errors import InputError
from kgqa_hpc.status.history import HOUR, active_seconds
from kgqa_hpc.status.money import money
from kgqa_hpc.status.snapshot import load_totals
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.durations import about

LOOK_EVERY_S = 1.0
CURE = "raise it in the configuration, then kgqa init and kgqa run again"
SHARE = 0.02  # share of the time that may go into reading what was spent


class Spending:
    """Check of the budget against the spending of all workers. `limits` by name; without limits it never stops
    the run.
    """

    def __init__(
        self, run: RunFolder, limits: Mapping[str, float], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._limits, self._now = run, limits, now
        self._totals = load_totals(run, []) if limits else []
        self._began = self._next = now()
        self.cure = "run the same command again"  # after an early stop
        self._earlier = active_seconds(run.logs) if "hours" in limits else 0.0

    def require_rest(self) -> None:
        """Raises InputError when the budget is spent already: the same command again would do nothing."""
        for name, spent in self._exceeded():
            raise InputError(
                f"runtime.budget.{name}: {about(spent)} of {self._limits[name]:,g} are spent",
                CURE,
            )

    def check(self, stop: Stop) -> None:
        """Request a stop when the budget is spent. Requests in flight are still waited for, because they cost money."""
        if not self._limits or self._now() < self._next:
            return
        began = self._now()
        exceeded = self._exceeded()
        self._next = self._now() + max(LOOK_EVERY_S, (self._now() - began) / SHARE)
        for name, spent in exceeded[:1]:
            self.cure = f"runtime.budget.{name}: {CURE}"
            limit = f"the budget of {self._limits[name]:,g} {'' if name == 'money' else name}".rstrip()
            stop.request(f"{about(spent)} of {limit} are spent", PATIENCE)

    def _exceeded(self) -> list[tuple[str, float]]:
        """The spent limits, each with the amount spent."""
        spent = self._spent() if self._limits else {}
        return [(name, spent[name]) for name, limit in self._limits.items() if spent[name] >= limit]

    def _spent(self) -> dict[str, float]:
        for pass_totals in self._totals:
            pass_totals.refresh(self._run)
        figures = money(self._run, self._totals)
        used = [totals.all_tokens for totals in self._totals]
        return {
            "money": float(figures["spent"]) if figures else 0.0,
            "tokens": sum(tokens["prompt"] + tokens["completion"] for tokens in used),
            "items": max((totals.items + totals.journals.ended for totals in self._totals), default=0),
            "hours": (self._earlier + self._now() - self._began) / HOUR,
        }
