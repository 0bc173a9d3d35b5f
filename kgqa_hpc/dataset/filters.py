"""The filters of merge, applied after staging in this order.

length        pairs far longer or shorter than the others, whatever the judges said
duplicate     accepted questions that repeat an earlier accepted question (duplicates.py)
contaminated  accepted records that contain a test item (contamination.py)
not drawn     records that a balanced sample leaves out (sampling.py)

A filter only marks rows: rejected records are written to rejected.jsonl with their reason, and a merge
without the filter accepts them again. `accounting.filters` holds the settings of each filter and the number
of rows it rejected.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from pathlib import Path
from typing import Any

from kgqa_hpc.config.dataset import DatasetConfig, Duplicates
from kgqa_hpc.dataset.accounting import LENGTH, Accounting
from kgqa_hpc.dataset.candidates import Candidates

EXACT, NEAR = "duplicate", "near duplicate"
CONTAMINATED = "contaminated"
NOT_DRAWN = "not drawn"
FIELDS = ("question", "answer")


def apply_filters(
    candidates: Candidates, settings: DatasetConfig, seed: int, scratch: Path, accounting: Accounting
) -> None:
    """Apply all filters and record their settings and counts in the accounting.

    `scratch` is a folder for temporary files. Raises InputError for a test set that cannot be read or a column that no
    record has.
    """
    limits = length_limits(candidates, settings.z_score)
    accounting.lengths = limits.to_dict()
    candidates.reject_where(limits.outside(), LENGTH)
    if settings.duplicates is not None:
        accounting.filters["duplicates"] = _duplicates(candidates, settings.duplicates, scratch)
    if settings.decontaminate:
        accounting.filters["decontaminate"] = _contaminated(candidates, settings)
    if settings.debias is not None:
        from kgqa_hpc.dataset.sampling import left_out

        out, before, after = left_out(candidates, settings.debias, seed)
        drawn = {NOT_DRAWN: candidates.reject(out, NOT_DRAWN), "before": before, "after": after}
        accounting.filters["debias"] = {"settings": settings.debias.model_dump(), **drawn}


def _duplicates(candidates: Candidates, duplicates: Duplicates, scratch: Path) -> dict[str, Any]:
    from kgqa_hpc.dataset.duplicates import REPEATED, near_duplicates

    counts: dict[str, Any] = {"settings": duplicates.model_dump()}
    if not duplicates.exact and duplicates.near is None:
        return counts
    reason = EXACT if duplicates.exact else NEAR
    # Runs before the search for near duplicates, which takes longer.
    counts[reason] = candidates.reject_where(REPEATED, reason)
    if duplicates.near is not None:
        near = candidates.reject(near_duplicates(candidates, duplicates.near, scratch), NEAR)
        counts[NEAR] = counts.get(NEAR, 0) + near
    return counts


def _contaminated(candidates: Candidates, settings: DatasetConfig) -> dict[str, Any]:
    from kgqa_hpc.dataset.contamination import contaminated, read_test_sets

    tests = read_test_sets(settings.decontaminate)
    hits = contaminated(candidates, tests, settings.window)
    return {
        "window": settings.window,
        "test_sets": [
            {
                "file": test.name,
                "question": test.question,
                "answer": test.answer,
                "items": len(test.texts),
                "left_aside": test.left_aside(settings.window),
            }
            for test in tests
        ],
        CONTAMINATED: candidates.reject(hits, CONTAMINATED),
    }


@dataclass(slots=True)
class LengthSum:
    """Count, sum and sum of squares of lengths in characters, from which mean and standard deviation follow.

    BioGraphletQA, section 3.2.2: a pair is an outlier when the length of its question or of its answer lies more than
    three standard deviations from the mean over all parsed pairs. Sums are exact integers and the test is exact integer
    arithmetic, so the outcome depends on no order, no machine and no rounding. The standard deviation is that of the
    population: the pairs are the whole dataset, not a sample of it.
    """

    count: int = 0
    total: int = 0
    squares: int = 0

    @property
    def mean(self) -> float:
        """The arithmetic mean; 0 without any length."""
        return self.total / self.count if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The population standard deviation; 0 without any length."""
        return sqrt(Fraction(self._spread, self.count**2)) if self.count else 0.0

    @property
    def _spread(self) -> int:
        # Spread: count^2 times the population variance, an integer that is never negative.
        return self.count * self.squares - self.total * self.total

    def bounds(self, z: float) -> tuple[int, int] | None:
        """The smallest and the largest length within `z` standard deviations of the mean, both included.

        Exactly the integers x with |x - mean| <= z * deviation. None without any length.
        """
        if not self.count:
            return None
        ratio = Fraction(z)
        p, q = ratio.numerator, ratio.denominator
        # |x - total/count| <= (p/q) sqrt(spread)/count  <=>  |q (count x - total)| <= floor(sqrt(p^2 spread))
        reach = isqrt(p * p * self._spread)
        step = q * self.count
        low = -((reach - q * self.total) // step)  # ceiling of (q total - reach) / step
        return max(low, 0), (q * self.total + reach) // step


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """The lengths of questions and answers in characters, and the limits at `z_score` (None: no limits)."""

    sums: dict[str, LengthSum]
    z_score: float | None

    @property
    def bounds(self) -> dict[str, tuple[int, int] | None]:
        """The interval of accepted lengths of each field; None without a limit."""
        z = self.z_score
        return {field: None if z is None else sums.bounds(z) for field, sums in self.sums.items()}

    def outside(self) -> str:
        """The SQL condition of pairs with a text that is too long or too short."""
        bounds = [(field, *limits) for field, limits in self.bounds.items() if limits is not None]
        return " OR ".join(f"{f}_length NOT BETWEEN {low} AND {high}" for f, low, high in bounds) or "false"

    def to_dict(self) -> dict[str, Any]:
        """The entry of accounting.json: the limits, and the mean and deviation they follow from."""
        fields: dict[str, Any] = {}
        for field, limits in self.bounds.items():
            low, high = limits or (None, None)
            sums = self.sums[field]
            fields[field] = {"mean": sums.mean, "deviation": sums.deviation, "minimum": low, "maximum": high}
        return {
            "z_score": self.z_score,
            "unit": "characters",
            "standard_deviation": "population",
            "pairs": self.sums["question"].count,
            **fields,
        }


def length_limits(candidates: Candidates, z_score: float | None) -> LengthLimits:
    """The limits from the lengths of all pairs, accepted or not; DuckDB adds integers in 128 bits."""
    sums = {}
    for field in FIELDS:
        length = f"{field}_length"
        query = f"SELECT count({length}), sum({length}), sum({length}::HUGEINT * {length}) FROM candidate"
        count, total, squares = candidates.database.execute(query).fetchall()[0]
        sums[field] = LengthSum(count, int(total or 0), int(squares or 0))
    return LengthLimits(sums, z_score)
