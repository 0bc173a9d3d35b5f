"""A target: how many accepted records a finished sample gives, how much larger it must be, what the dataset keeps.

All is decided over samples that are finished, from their content alone: who did which item when, and what was killed
meanwhile, changes nothing. What is kept are the first records in the dataset's order, which is a seeded shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from kgqa_hpc.config.dataset import Target
from kgqa_hpc.dataset.candidates import Candidates

BEYOND = "beyond target"
ALL = "all"
ROOM = 1.02  # more than the rate so far asks for, so that a last tiny round is rare
STEP = 4  # a sample grows by this factor at most, for the first rates are uncertain


@dataclass(frozen=True, slots=True)
class Standing:
    """A finished sample: the number it was asked for, what it took, and what it gave by group.

    `even`: the number asks for so many of each group, as for shapes; else for so many in all.
    """

    size: int
    even: bool
    sampled: dict[str, int]
    accepted: dict[str, int]
    spent: dict[str, float]  # by the keys of Budget

    @property
    def items(self) -> int:
        return sum(self.sampled.values())

    def counts(self, target: Target) -> dict[str, int]:
        """What the target counts: accepted records by group, or in all."""
        if target.per == ALL:
            return {ALL: sum(self.accepted.values())}
        return {group: self.accepted.get(group, 0) for group in self.sampled}


def cut(candidates: Candidates, target: Target) -> dict[str, Any]:
    """Reject accepted records beyond the target, as `beyond target`; returns the accounting of it."""
    within = "PARTITION BY grp" if target.per == "group" else ""
    beyond = f"""row IN (
      SELECT row FROM candidate WHERE status = 'accepted'
      QUALIFY row_number() OVER ({within} ORDER BY row) > {target.accepted}
    )"""
    return {"settings": target.model_dump(), BEYOND: candidates.reject_where(beyond, BEYOND)}


def next_size(target: Target, now: Standing) -> tuple[int | None, str]:
    """The number to ask for next, or None when there is no more to do; and why, in words."""
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
    """The groups of which a larger sample may hold more: those that gave all they were asked for."""
    if now.even:
        return {group for group, number in now.sampled.items() if number >= now.size}
    return set(now.sampled) if now.items >= now.size else set()


def _affordable(target: Target, now: Standing, growing: set[str]) -> tuple[int, str]:
    """The largest number that the budget allows at what an item took so far, and which part of it binds."""
    most, limit = STEP * now.size + 1, ""
    for name, allowed in target.budget.model_dump().items():
        spent = now.spent.get(name, 0)
        if allowed is None or spent <= 0:
            continue
        items = floor(now.items * allowed / spent)
        ended = sum(number for group, number in now.sampled.items() if group not in growing)
        size = (items - ended) // len(growing) if now.even else items
        if size < most:
            most, limit = size, name.replace("gpu_hours", "GPU-hours")
    return most, limit
