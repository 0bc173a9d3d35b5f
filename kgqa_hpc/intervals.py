"""Confidence intervals of proportions."""

from math import sqrt
from typing import NamedTuple

Z95 = 1.959963984540054  # two-sided 95 % quantile of the standard normal distribution


class Share(NamedTuple):
    """A proportion with its confidence interval; all fields are None if the denominator is zero."""

    value: float | None
    low: float | None
    high: float | None


def wilson(part: int, whole: int) -> Share:
    """The proportion `part / whole` with Wilson's 95 % score interval (Wilson 1927), clipped to [0, 1]."""
    if not whole:
        return Share(None, None, None)
    share, spread = part / whole, Z95 * Z95 / whole
    centre = (share + spread / 2) / (1 + spread)
    half = Z95 * sqrt(share * (1 - share) / whole + spread / (4 * whole)) / (1 + spread)
    return Share(share, max(centre - half, 0.0), min(centre + half, 1.0))
