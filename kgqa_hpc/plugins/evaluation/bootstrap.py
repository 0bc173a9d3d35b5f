"""Percentile bootstrap intervals for any statistic that can be computed from item weights.

A resample of n items is a row of whole weights that add up to n, so a statistic is written once, for a
matrix of weights (b, n), and gives b values; the plain value is the statistic of the row of ones.
Efron and Tibshirani (1993), section 13.3.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]

RESAMPLES = 1000
ENDS = (0.025, 0.975)  # confidence level of the interval
_CELLS = 4_000_000  # weights in memory at a time


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; None where it is undefined. `undefined` counts resamples without a value."""

    value: float | None
    low: float | None = None
    high: float | None = None
    undefined: int = 0

    def to_dict(self) -> dict[str, float | int | None]:
        return asdict(self)


def interval_text(statistic: Mapping[str, Any]) -> str:
    """An Estimate's dictionary in words: `0.500 [0.250, 0.750]`."""
    if statistic["value"] is None:
        return "undefined"
    interval = "" if statistic["low"] is None else f" [{statistic['low']:.3f}, {statistic['high']:.3f}]"
    return f"{statistic['value']:.3f}{interval}"


def estimate(statistic: Statistic, items: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The statistic of all items and its percentile interval over `resamples` seeded resamples.

    `statistic` takes weights of shape (b, items) and returns (b,), NaN where it is undefined. Resamples
    without a value are left out of the interval and counted. With fewer than two items there is no interval.
    """
    return estimate_counted(statistic, np.ones(items), resamples=resamples, seed=seed)


def estimate_counted(
    statistic: Statistic, counts: Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """As `estimate`, for rows that each represent `counts` equal items, (rows,); the time depends on the rows alone."""
    items = round(counts.sum())
    if items == 0:
        return Estimate(None)
    value = float(statistic(counts[None, :])[0])
    if np.isnan(value):
        return Estimate(None)
    if items < 2 or resamples < 1:
        return Estimate(value)
    values = _resampled(statistic, counts, resamples, seed)
    present = values[~np.isnan(values)]
    if not len(present):
        return Estimate(value, undefined=resamples)
    low, high = np.quantile(present, ENDS)
    return Estimate(value, float(low), float(high), resamples - len(present))


def _resampled(statistic: Statistic, counts: Floats, resamples: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    items, step = round(counts.sum()), max(1, _CELLS // len(counts))
    parts = []
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        if len(counts) == items:
            # Number of draws of each item, (rows, items); six times as fast as a multinomial draw.
            drawn = rng.integers(0, items, size=(rows, items)) + np.arange(rows)[:, None] * items
            weights = np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items)
        else:
            weights = rng.multinomial(items, counts / items, size=rows)
        parts.append(statistic(weights.astype(np.float64)))
    return np.concatenate(parts)


def ratio(above: Floats, below: Floats) -> Floats:
    """Elementwise `above / below`, NaN where `below` is zero."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below != 0)


def mean_of(values: Floats) -> Statistic:
    """The statistic: mean of `values` (n,); NaN among them are left out."""
    present = (~np.isnan(values)).astype(np.float64)
    filled = np.nan_to_num(values)
    return lambda weights: ratio(weights @ filled, weights @ present)
