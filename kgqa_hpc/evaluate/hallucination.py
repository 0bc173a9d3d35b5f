"""Hallucination rates before and after cleaning, by judges that did not clean, and both ways to sum them up.

QAProt, section 4.1 and Table 3: a pair is a hallucination when it fails one criterion or more. The paper's
"13-fold" is the mean of the judges' reduction factors; the ratio of the mean rates is 9.9. Both are named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kgqa_hpc.evaluate.bootstrap import Estimate
from kgqa_hpc.evaluate.judged import wilson


@dataclass(frozen=True, slots=True)
class Reduction:
    """Rates and factor of each judge, and both summaries; a factor is None where the rate after is 0."""

    before: dict[str, float]
    after: dict[str, float]
    factors: dict[str, float | None]
    mean_before: float
    mean_after: float
    mean_of_factors: float | None
    ratio_of_means: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"hallucination rate {self.mean_before:.4g} before, {self.mean_after:.4g} after "
            f"(mean of {len(self.before)} judges); mean of the judges' factors "
            f"{_times(self.mean_of_factors)}, ratio of the mean rates {_times(self.ratio_of_means)}"
        )


def rate(flagged: int, checked: int) -> Estimate:
    """The share of checked pairs that are hallucinations, with Wilson's interval."""
    return wilson(flagged, checked)


def is_hallucination(criteria: Mapping[str, bool]) -> bool:
    """Whether a pair fails one criterion or more."""
    return not all(criteria.values())


def reduction(before: Mapping[str, float], after: Mapping[str, float]) -> Reduction:
    """Sum up rates by judge, in any unit. Raises ValueError unless both are of the same judges, not none."""
    if before.keys() != after.keys() or not before:
        raise ValueError("the rates before and after must be of the same judges")
    factors = {judge: before[judge] / after[judge] if after[judge] else None for judge in before}
    known = [factor for factor in factors.values() if factor is not None]
    mean_before, mean_after = (sum(rates.values()) / len(rates) for rates in (before, after))
    return Reduction(
        dict(before),
        {judge: after[judge] for judge in before},
        factors,
        mean_before,
        mean_after,
        sum(known) / len(known) if len(known) == len(factors) else None,
        mean_before / mean_after if mean_after else None,
    )


def _times(factor: float | None) -> str:
    return "undefined (a rate of 0)" if factor is None else f"{factor:.1f}"
