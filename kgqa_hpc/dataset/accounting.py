"""Every item is accounted for: sampled = accepted + rejected + invalid + failed, per shape and in all.

What was sampled is counted from anchors.h5, what became of it from the results: two sources that know nothing
of each other. A merge of an unfinished run has a fifth term, `waiting`, and says so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kgqa_hpc.errors import AccountingError

OUTCOMES = ("accepted", "rejected", "invalid", "failed")
LENGTH = "length"  # the reason of pairs that the length filter left out


@dataclass(slots=True)
class Tally:
    """What became of the items of one shape (or of all): how many of each outcome, by reason."""

    sampled: int = 0
    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    invalid: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    parsed: int = 0  # items that got a question and an answer, whatever became of them

    def add(self, status: str, reason: str | None) -> None:
        """Count one finished item."""
        if status == "accepted":
            self.accepted += 1
        elif status in OUTCOMES:
            getattr(self, status)[reason or "no reason given"] += 1
        else:
            raise AccountingError(
                f"an item ended with the status {status!r}, which is no outcome", "please report it"
            )

    @property
    def ended(self) -> int:
        """Items with an outcome."""
        return self.accepted + self.rejected.total() + self.invalid.total() + self.failed.total()

    @property
    def generated(self) -> int:
        """Pairs left after the length filter: what Table 1 of the paper calls generated."""
        return self.parsed - self.rejected[LENGTH]

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.sampled + other.sampled,
            self.accepted + other.accepted,
            self.rejected + other.rejected,
            self.invalid + other.invalid,
            self.failed + other.failed,
            self.waiting + other.waiting,
            self.parsed + other.parsed,
        )

    def to_dict(self) -> dict[str, Any]:
        """The form of accounting.json; reasons by name."""
        return {
            "sampled": self.sampled,
            "accepted": self.accepted,
            "rejected": dict(sorted(self.rejected.items())),
            "invalid": dict(sorted(self.invalid.items())),
            "failed": dict(sorted(self.failed.items())),
            "waiting": self.waiting,
        }


@dataclass(slots=True)
class Accounting:
    """The tallies of a merge, and what it needs to be understood later: length limits, requests, tokens.

    `shards` and `missing_shards` say how much of the run was merged; items of missing shards are `waiting`.
    """

    shapes: dict[int, Tally] = field(default_factory=dict)
    shards: int = 0
    missing_shards: int = 0
    lengths: dict[str, Any] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def partial(self) -> bool:
        """Whether shards are missing, so that items may be waiting."""
        return self.missing_shards > 0

    def tally(self, shape: int) -> Tally:
        """The tally of one shape, made when first asked for."""
        return self.shapes.setdefault(shape, Tally())

    @property
    def total(self) -> Tally:
        """The sum over all shapes."""
        return sum(self.shapes.values(), Tally())

    def check(self) -> None:
        """Raise AccountingError, naming the numbers, unless the identity holds for every shape."""
        wrong = [
            f"shape {shape}: {sentence(tally)}"
            for shape, tally in sorted(self.shapes.items())
            if tally.sampled != tally.ended + tally.waiting or (tally.waiting and not self.partial)
        ]
        if wrong:
            raise AccountingError(
                "the counts do not add up, no dataset was written\n       " + "\n       ".join(wrong),
                "an item was lost or counted twice; please report it with the output of kgqa status",
            )

    def to_dict(self) -> dict[str, Any]:
        """The whole of accounting.json."""
        return {
            **self.total.to_dict(),
            "partial": self.partial,
            "shards": self.shards,
            "missing_shards": self.missing_shards,
            "shapes": {str(shape): tally.to_dict() for shape, tally in sorted(self.shapes.items())},
            "lengths": self.lengths,
            "requests": self.requests,
        }


def sentence(tally: Tally) -> str:
    """The identity with its numbers, e.g. `10 sampled = 4 accepted + 5 rejected + 1 invalid + 0 failed`."""
    sign = "=" if tally.sampled == tally.ended + tally.waiting else "!="
    terms = [f"{tally.accepted:,} accepted"]
    terms += [f"{getattr(tally, name).total():,} {name}" for name in OUTCOMES[1:]]
    terms += [f"{tally.waiting:,} waiting"] if tally.waiting else []
    return f"{tally.sampled:,} sampled {sign} {' + '.join(terms)}"


def render(accounting: Accounting) -> str:
    """The lines a person reads after a merge: the identity, then each reason that occurred."""
    total = accounting.total
    lines = [sentence(total)]
    if accounting.partial:
        lines.insert(
            0, f"PARTIAL: {accounting.missing_shards:,} of {accounting.shards:,} shards are not done yet"
        )
    for outcome in OUTCOMES[1:]:
        reasons: Counter[str] = getattr(total, outcome)
        lines += [f"  {outcome:<9} {n:>9,}  {reason}" for reason, n in sorted(reasons.items())]
    return "\n".join(lines)
