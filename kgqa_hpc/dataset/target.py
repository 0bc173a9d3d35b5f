"""Targets: a number of accepted records, the next sample size that may reach it, and the cut of the dataset.

Decisions depend on the content of finished samples alone, not on the order of work or on restarts. The dataset keeps
the first records in its order, which is a seeded shuffle.
"""

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from kgqa_hpc.config.dataset import Target
from kgqa_hpc.dataset.candidates import Candidates

BEYOND = "beyond target"
ALL = "all"
ROOM = 1.02  # factor on the estimate, so that a small extra round is rarely needed
STEP = 4  # largest growth of a sample in one round: the first acceptance rates are uncertain


@dataclass(frozen=True, slots=True)
class Standing:
    """A finished sample: its requested size, its cost, and its items and accepted records by group.

    `even`: the size counts items per group (as for shapes), else items in all.
    """

    size: int
    even: bool
    sampled: dict[str, int]
    accepted: dict[str, int]
    spent: dict[str, float]  # spent so far, by the keys of Budget

    @property
    def items(self) -> int:
        return sum(self.sampled.values())

    def counts(self, target: Target) -> dict[str, int]:
        """Accepted records by group or in total, whichever the target limits."""
        if target.per == ALL:
            return {ALL: sum(self.accepted.values())}
        return {group: self.accepted.get(group, 0) for group in self.sampled}


def cut(candidates: Candidates, target: Target) -> dict[str, Any]:
    """Reject accepted records beyond the target; returns the cut's entry of the accounting."""
    within = "PARTITION BY grp" if target.per == "group" else ""
    beyond = f"""row IN (
      SELECT row FROM candidate WHERE status = 'accepted'
      QUALIFY row_number() OVER ({within} ORDER BY row) > {target.accepted}
    )"""
    return {"settings": target.model_dump(), BEYOND: candidates.reject_where(beyond, BEYOND)}


def next_size(target: Target, now: Standing) -> tuple[int | None, str]:
    """The next sample size, or None when the target needs no larger one; and the reason, in words."""
    counts = now.counts(target)
    lacking = {group: have for group, have in counts.items() if have < target.accepted}
    if not lacking:
        return None, "reached"
    growing = _growing(now)
    able = [have for group, have in lacking.items() if group == ALL or group in growing]
    if not growing or not able:
        return None, "there are no more anchors"
    factor = max(target.accepted / have * ROOM if have else STEP for have in able)
    wished = max(now.size + 1, ceil(now.size * min(factor, STEP)))
    most, limit = _affordable(target, now, growing)
    if most <= now.size:
        return None, f"the budget of {limit} allows no more"
    return min(wished, most), "more is needed"


def _growing(now: Standing) -> set[str]:
    """The groups that a larger sample may extend: groups with as many items as requested."""
    if now.even:
        return {group for group, number in now.sampled.items() if number >= now.size}
    return set(now.sampled) if now.items >= now.size else set()


def _affordable(target: Target, now: Standing, growing: set[str]) -> tuple[int, str]:
    """The largest sample size that the budget allows at the present cost per item, and the limit that binds."""
    most, limit = STEP * now.size + 1, ""
    for name, allowed in target.budget:
        spent = now.spent.get(name, 0)
        if allowed is None or spent <= 0:
            continue
        items = floor(now.items * allowed / spent)
        ended = sum(number for group, number in now.sampled.items() if group not in growing)
        size = (items - ended) // len(growing) if now.even else items
        if size < most:
            most, limit = size, name.replace("gpu_hours", "GPU-hours")
    return most, limit
