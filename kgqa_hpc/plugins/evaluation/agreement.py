"""Agreement of judges beyond chance and with the truth, bootstrap intervals of any statistic, a test of two samples.

Krippendorff's alpha (2011), Fleiss' kappa (1971) and Gwet's AC1 (2008), with missing votes as in Gwet (2014), chapter
2; Cohen's kappa (1960). Where a coefficient is 0/0 (one judge, nothing voted on twice, one category only), its value is
None, never 1.

Measures of decisions against the truth are precision, recall, kappa and AUC. Shares have Wilson's (1927) interval, all
other statistics the bootstrap's over items; `sampling` of a function is the bootstrap's `resamples` and `seed`.

A resample of n items is a row of whole weights that add up to n. A statistic is therefore a function of weights (b, n)
that gives b values; its plain value is that of the row of ones. Intervals are percentiles (Efron and Tibshirani 1993,
section 13.3).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from math import ceil, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from kgqa_hpc import intervals
from kgqa_hpc.intervals import Z95

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]  # verdicts: 1 holds, 0 does not, -1 is missing
Truth = NDArray[np.bool_]
Statistic = Callable[[Floats], Floats]
Level = Literal["nominal", "ordinal", "interval"]

MISSING = -1  # the code of a missing vote
RESAMPLES = 1000
ENDS = (0.025, 0.975)  # confidence level of the interval
_CELLS = 4_000_000  # maximum number of weights in memory
# Names of the coefficients over all judges.
COEFFICIENTS = {
    "raw": "raw agreement",
    "krippendorff_alpha": "Krippendorff's alpha",
    "fleiss_kappa": "Fleiss' kappa",
    "gwet_ac1": "Gwet's AC1",
}


def interval(
    value: float | None, low: float | None = None, high: float | None = None, undefined: int = 0
) -> dict[str, Any]:
    """A value with its interval; None where it is undefined. `undefined` counts resamples without a value."""
    return {"value": value, "low": low, "high": high, "undefined": undefined}


def interval_text(statistic: Mapping[str, Any]) -> str:
    """An interval in words: `0.500 [0.250, 0.750]`."""
    if statistic["value"] is None:
        return "undefined"
    ends = "" if statistic["low"] is None else f" [{statistic['low']:.3f}, {statistic['high']:.3f}]"
    return f"{statistic['value']:.3f}{ends}"


def estimate(
    statistic: Statistic, items: int | Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The statistic of all items with its interval over seeded resamples.

    `statistic` takes weights (b, rows) and returns (b,), NaN where it is undefined. `items` is the number of items, or
    the number of equal items that each row represents. Fewer than two items have no interval.
    """
    counts = np.ones(items) if isinstance(items, int) else items
    size = round(counts.sum())
    value = float(statistic(counts[None, :])[0]) if size else np.nan
    if np.isnan(value):
        return interval(None)
    if size < 2 or resamples < 1:
        return interval(value)
    rng, step = np.random.default_rng(seed), max(1, _CELLS // len(counts))
    drawn = (_weights(counts, min(step, resamples - done), rng) for done in range(0, resamples, step))
    values = np.concatenate([statistic(weights.astype(np.float64)) for weights in drawn])
    present = values[~np.isnan(values)]
    low, high = np.quantile(present, ENDS).tolist() if len(present) else (None, None)
    return interval(value, low, high, resamples - len(present))


def _weights(counts: Floats, resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each row is drawn, (resamples, rows)."""
    size = round(counts.sum())
    if len(counts) != size:
        return rng.multinomial(size, counts / size, size=resamples)
    # Each row stands for one item: draws of positions are six times as fast as a multinomial draw.
    drawn = rng.integers(0, size, size=(resamples, size)) + np.arange(resamples)[:, None] * size
    return np.bincount(drawn.ravel(), minlength=resamples * size).reshape(resamples, size)


def ratio(above: Floats, below: Floats) -> Floats:
    """Elementwise `above / below`, NaN where `below` is zero."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below != 0)


def mean_of(values: Floats) -> Statistic:
    """The weighted mean of `values` (n,) as a statistic; NaN values are left out."""
    present = (~np.isnan(values)).astype(np.float64)
    filled = np.nan_to_num(values)
    return lambda weights: ratio(weights @ filled, weights @ present)


class Votes(NamedTuple):
    """The judges' votes: `codes` (items, judges) are positions in `categories`; -1 is a missing vote."""

    codes: Codes
    judges: tuple[str, ...]
    categories: tuple[Any, ...]


def make_votes(
    table: Sequence[Sequence[Hashable | None]], judges: Sequence[str], categories: Sequence[Any] | None = None
) -> Votes:
    """Votes from rows of values: one row per item, one column per judge, None for a missing vote.

    `categories` are all possible values, in their order; by default the values that occur, sorted.
    """
    values = {value for row in table for value in row if value is not None}
    labels: tuple[Any, ...] = tuple(sorted(values) if categories is None else categories)
    position = {value: k for k, value in enumerate(labels)} | {None: MISSING}
    codes = np.array([[position[value] for value in row] for row in table], dtype=np.int64)
    return Votes(codes.reshape(len(table), len(judges)), tuple(judges), labels)


def agreement_table(votes: Votes, level: Level = "nominal", **sampling: int) -> dict[str, Any]:
    """All coefficients with intervals, and Cohen's kappa for each pair of judges.

    `level` is Krippendorff's level of measurement and changes alpha only; for `interval` the categories are numbers.
    `sampling`: `resamples` and `seed`.
    """
    codes, judges, categories = votes
    # The time depends on the distinct rows of votes alone.
    patterns = pd.DataFrame(codes).groupby(list(range(len(judges))), as_index=False).size().to_numpy()
    rows, items = patterns[:, :-1], patterns[:, -1].astype(np.float64)
    # Number of judges that put each item in each category, (rows, categories).
    counts = (rows[:, :, None] == np.arange(len(categories))).sum(axis=1).astype(np.float64)
    statistics = {name: _chance_corrected(counts, name) for name in COEFFICIENTS}
    statistics["krippendorff_alpha"] = _alpha(counts, categories, level)
    cohen = []
    for a, b in combinations(range(len(judges)), 2):
        statistic = cohen_statistic(rows[:, a], rows[:, b], len(categories))
        cohen.append({"judges": [judges[a], judges[b]], **estimate(statistic, items, **sampling)})
    return {
        "judges": list(judges),
        "items": len(codes),
        "voted_twice": int(((codes != MISSING).sum(axis=1) >= 2).sum()),
        "level": level,
        **{name: estimate(statistic, items, **sampling) for name, statistic in statistics.items()},
        "cohen_kappa": cohen,
    }


def _alpha(counts: Floats, categories: Sequence[Any], level: Level) -> Statistic:
    """Krippendorff's alpha: 1 - observed / expected disagreement."""
    total = counts.sum(axis=1)
    k = counts.shape[1]
    pairs = counts[:, :, None] * counts[:, None, :] - np.eye(k) * counts[:, :, None]
    pairs = np.where(total[:, None, None] >= 2, pairs / np.maximum(total - 1, 1)[:, None, None], 0.0)
    flat = pairs.reshape(len(counts), k * k)

    def statistic(weights: Floats) -> Floats:
        coincidences = (weights @ flat).reshape(-1, k, k)
        shares = coincidences.sum(axis=2)
        size = shares.sum(axis=1)
        # Squared distances between categories, (b, k, k) or (k, k); ordinal ones depend on the shares.
        distance = 1 - np.eye(k)
        if level != "nominal":
            numbers = categories if level == "interval" else np.cumsum(shares, axis=1) - shares / 2
            scale = np.asarray(numbers, dtype=np.float64)
            distance = (scale[..., :, None] - scale[..., None, :]) ** 2
        observed = (coincidences * distance).sum(axis=(1, 2))
        expected = (shares[:, :, None] * shares[:, None, :] * distance).sum(axis=(1, 2))
        return 1 - ratio((size - 1) * observed, expected)

    return statistic


def _chance_corrected(counts: Floats, coefficient: str) -> Statistic:
    """The share of equal votes among the pairs of votes on an item, averaged over items: raw, or beyond chance."""
    total, k = counts.sum(axis=1), counts.shape[1]
    twice, voted = (total >= 2).astype(np.float64), (total >= 1).astype(np.float64)
    agreed = (counts * (counts - 1)).sum(axis=1) * twice / np.maximum(total * (total - 1), 1)
    share_of_item = counts / np.maximum(total, 1)[:, None]

    def statistic(weights: Floats) -> Floats:
        observed = ratio(weights @ agreed, weights @ twice)
        if coefficient == "raw":
            return observed
        shares = ratio(weights @ share_of_item, (weights @ voted)[:, None])
        if coefficient == "fleiss_kappa":
            # If all votes are equal, chance must be exactly 1, so that kappa is 0/0 and no rounding error.
            chance = np.where(shares.max(axis=1) >= 1 - 1e-12, 1.0, (shares**2).sum(axis=1))
        else:  # Gwet's chance agreement stays small for a rare category; Fleiss' nears 1, so kappa collapses
            chance = (shares * (1 - shares)).sum(axis=1) / (k - 1) if k > 1 else np.ones(len(shares))
        return ratio(observed - chance, 1 - chance)

    return statistic


def cohen_statistic(a: Codes, b: Codes, k: int) -> Statistic:
    """Cohen's kappa of two judges' codes (items,) of `k` categories, over weighted items that both voted on."""
    both = (a != MISSING) & (b != MISSING)
    cells = np.zeros((len(a), k * k))
    cells[np.flatnonzero(both), a[both] * k + b[both]] = 1.0

    def statistic(weights: Floats) -> Floats:
        table = (weights @ cells).reshape(-1, k, k)
        size = table.sum(axis=(1, 2))
        observed = np.trace(table, axis1=1, axis2=2) * size
        expected = (table.sum(axis=1) * table.sum(axis=2)).sum(axis=1)
        return ratio(observed - expected, size**2 - expected)

    return statistic


def measure(decision: Codes, truth: Truth, **sampling: int) -> dict[str, Any]:
    """All measures of decisions (1, 0, -1) against the truth, both (items,), as plain data."""
    yes, no = decision == 1, decision == 0
    cells = {
        "true_accept": int((yes & truth).sum()),
        "false_accept": int((yes & ~truth).sum()),
        "false_reject": int((no & truth).sum()),
        "true_reject": int((no & ~truth).sum()),
    }
    right, wrong, missed, refused = cells.values()
    items, good, accepted = sum(cells.values()), right + missed, right + wrong
    chance = (good * accepted + (items - good) * (items - accepted)) / items**2 if items else 1.0
    return {
        "items": items,
        "undecided": int((decision == MISSING).sum()),
        "confusion": cells,
        "precision": wilson(right, accepted),
        "recall": wilson(right, good),
        "specificity": wilson(refused, refused + wrong),
        "accuracy": wilson(right + refused, items),
        "kappa": estimate(kappa_statistic(decision, truth), len(truth), **sampling),
        "kappa_error": kappa_error((right + refused) / items, chance) if chance < 1 else None,
    }


def wilson(part: int, whole: int) -> dict[str, Any]:
    """A share with Wilson's score interval; undefined for 0 of 0."""
    return interval(*intervals.wilson(part, whole))


def kappa_statistic(decision: Codes, truth: Truth) -> Statistic:
    """Cohen's kappa of decisions and truth over weighted items."""
    return cohen_statistic(decision, truth.astype(np.int64), 2)


def kappa_error(observed: float, chance: float) -> float:
    """The standard error of kappa for one rating; divide by the root of the number of ratings (Cohen 1960). `chance` <
    1.
    """
    return sqrt(observed * (1 - observed)) / (1 - chance)


# Two balanced judges that agree by chance only: the widest interval to plan for with shares near 1/2.
WORST_KAPPA_ERROR = kappa_error(0.5, 0.5)


def kappa_half_width(ratings: int, error: float = WORST_KAPPA_ERROR) -> float:
    """Half of kappa's 95 % interval from so many ratings."""
    return Z95 * error / sqrt(ratings) if ratings else float("inf")


def ratings_for_kappa(half_width: float, error: float = WORST_KAPPA_ERROR) -> int:
    """Ratings needed so that kappa's 95 % interval is at most ± `half_width`."""
    return ceil((Z95 * error / half_width) ** 2)


def auc(scores: Floats, truth: Truth, **sampling: int) -> dict[str, Any]:
    """Probability that a good item has a higher score than a bad one, ties counted half; NaN scores are left out.

    Undefined when all known items are good or all are bad.
    """
    rows = np.flatnonzero(~np.isnan(scores))
    levels, ranks = np.unique(scores[rows], return_inverse=True)
    good, bad = np.zeros((2, len(scores), len(levels)))
    good[rows, ranks] = truth[rows]
    bad[rows, ranks] = ~truth[rows]

    def statistic(weights: Floats) -> Floats:
        above, below = weights @ good, weights @ bad
        wins = (above * (np.cumsum(below, axis=1) - below / 2)).sum(axis=1)
        return ratio(wins, above.sum(axis=1) * below.sum(axis=1))

    return estimate(statistic, len(scores), **sampling)


def length_preference(verdicts: Codes, truth: Truth, lengths: Floats, **sampling: int) -> dict[str, Any]:
    """Probability that an accepted answer is longer than a rejected one, and that a good one is longer than a bad one.

    For one judge, over the items with its verdict; `lengths` (items,) are those of the answers. 0.5 is no preference; a
    judge whose value is well above that of people accepts answers for their length.
    """
    judged = verdicts != MISSING
    sides = {"judge": verdicts[judged] == 1, "people": truth[judged]}
    return {name: auc(lengths[judged], side, **sampling) for name, side in sides.items()}


def rank_test(first: ArrayLike, second: ArrayLike) -> tuple[float, float, float]:
    """Mann-Whitney's U of the first sample, its two-sided p, and Cliff's delta.

    p is the normal approximation with ties and continuity. Delta is P(first > second) - P(first < second) for one value
    drawn from each sample; it follows from U, in which a tie counts 1/2.
    """
    from scipy.stats import mannwhitneyu

    result = mannwhitneyu(first, second, alternative="two-sided", method="asymptotic")
    u, pairs = float(result.statistic), np.size(first) * np.size(second)
    # If all values are equal, the test is undefined.
    return u, 1.0 if np.isnan(result.pvalue) else float(result.pvalue), (2 * u - pairs) / pairs
