"""Agreement between judges, beyond chance: Krippendorff's alpha, Fleiss' and Cohen's kappa, Gwet's AC1.

All take votes with gaps, and weighted items, which gives each a bootstrap interval over items. Where a
coefficient is 0/0 (one judge, nothing voted on twice, one category only) its value is None, never 1.
Sources: Krippendorff (2011), "Computing Krippendorff's alpha-reliability"; Fleiss (1971) and Gwet (2008), with
missing votes as in Gwet (2014), chapter 2; Cohen (1960).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc.plugins.evaluation.bootstrap import (
    RESAMPLES,
    Estimate,
    Floats,
    Statistic,
    estimate_counted,
    ratio,
)

Level = Literal["nominal", "ordinal", "interval"]
Codes = NDArray[np.int64]
MISSING = -1  # the code of a missing vote
# Names of the coefficients over all judges.
COEFFICIENTS = {
    "raw": "raw agreement",
    "krippendorff_alpha": "Krippendorff's alpha",
    "fleiss_kappa": "Fleiss' kappa",
    "gwet_ac1": "Gwet's AC1",
}


@dataclass(frozen=True, slots=True)
class Votes:
    """The judges' votes: `codes` (items, judges) are positions in `categories`; -1 is a missing vote."""

    codes: Codes
    judges: tuple[str, ...]
    categories: tuple[Any, ...]

    @property
    def counts(self) -> Floats:
        """Number of judges who put each item in each category, (items, categories)."""
        per_category = [(self.codes == k).sum(axis=1) for k in range(len(self.categories))]
        return np.stack(per_category, axis=1).astype(np.float64)


def make_votes(
    table: Sequence[Sequence[Hashable | None]],
    judges: Sequence[str],
    categories: Sequence[Any] | None = None,
) -> Votes:
    """Votes from rows of values: one row per item, one column per judge, None for a missing vote.

    `categories` are all possible values, in their order; by default the values that occur, sorted.
    Raises ValueError for a value that is not a category.
    """
    values = {value for row in table for value in row if value is not None}
    labels: tuple[Any, ...] = tuple(sorted(values) if categories is None else categories)
    if strange := values - set(labels):
        raise ValueError(f"{sorted(map(str, strange))[0]} is not among the categories {list(labels)}")
    position = {value: k for k, value in enumerate(labels)}
    codes = np.full((len(table), len(judges)), MISSING, dtype=np.int64)
    for i, row in enumerate(table):
        codes[i] = [MISSING if value is None else position[value] for value in row]
    return Votes(codes, tuple(judges), labels)


def agreement(
    votes: Votes, coefficient: str, level: Level = "nominal", *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """One of COEFFICIENTS. `level` matters to alpha alone; `interval` takes the categories as numbers."""
    if coefficient == "krippendorff_alpha":
        return _estimated(votes, lambda rows: _alpha(rows, level), resamples, seed)
    return _estimated(votes, _STATISTICS[coefficient], resamples, seed)


def cohen_kappa(
    votes: Votes, first: int, second: int, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Cohen's kappa of two judges (columns of `votes`) over the items that both voted on."""
    return _estimated(votes, lambda rows: _cohen(rows, first, second), resamples, seed)


def agreement_table(
    votes: Votes, level: Level = "nominal", *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """All coefficients with intervals, Cohen's kappa for each pair of judges."""
    common: dict[str, Any] = {"resamples": resamples, "seed": seed}
    pairs = combinations(range(len(votes.judges)), 2)
    return {
        "judges": list(votes.judges),
        "items": len(votes.codes),
        "voted_twice": int((votes.counts.sum(axis=1) >= 2).sum()),
        "level": level,
        **{name: agreement(votes, name, level, **common).to_dict() for name in COEFFICIENTS},
        "cohen_kappa": [
            {"judges": [votes.judges[a], votes.judges[b]], **cohen_kappa(votes, a, b, **common).to_dict()}
            for a, b in pairs
        ],
    }


def _estimated(votes: Votes, statistic: Callable[[Votes], Statistic], resamples: int, seed: int) -> Estimate:
    """The statistic over the distinct rows of votes, each weighted by its number of occurrences."""
    rows, counts = _patterns(votes)
    return estimate_counted(statistic(rows), counts.astype(np.float64), resamples=resamples, seed=seed)


def _patterns(votes: Votes) -> tuple[Votes, NDArray[np.int64]]:
    """The distinct rows of votes and their counts; computed column by column, because sorting whole rows is slow."""
    key = np.zeros(len(votes.codes), dtype=np.int64)
    for column in votes.codes.T:
        key = np.unique(key * (len(votes.categories) + 1) + column + 1, return_inverse=True)[1]
    _, positions, counts = np.unique(key, return_index=True, return_counts=True)
    return Votes(votes.codes[positions], votes.judges, votes.categories), counts


def _raw(votes: Votes) -> Statistic:
    """The share of equal votes among the pairs of votes on an item, averaged over items."""
    agreed, twice = _item_agreement(votes.counts)
    return lambda weights: ratio(weights @ agreed, weights @ twice)


def _alpha(votes: Votes, level: Level) -> Statistic:
    """1 - observed / expected disagreement."""
    counts = votes.counts
    total = counts.sum(axis=1)
    k = counts.shape[1]
    pairs = counts[:, :, None] * counts[:, None, :] - np.eye(k) * counts[:, :, None]
    pairs = np.where(total[:, None, None] >= 2, pairs / np.maximum(total - 1, 1)[:, None, None], 0.0)
    flat = pairs.reshape(len(counts), k * k)

    def statistic(weights: Floats) -> Floats:
        coincidences = (weights @ flat).reshape(-1, k, k)
        shares = coincidences.sum(axis=2)
        size = shares.sum(axis=1)
        distance = _distances(votes.categories, shares, level)
        observed = (coincidences * distance).sum(axis=(1, 2))
        expected = (shares[:, :, None] * shares[:, None, :] * distance).sum(axis=(1, 2))
        return 1 - ratio((size - 1) * observed, expected)

    return statistic


def _distances(categories: tuple[Any, ...], shares: Floats, level: Level) -> Floats:
    """Squared distances between categories, (b, k, k); ordinal ones depend on the shares (b, k)."""
    k = len(categories)
    if level == "nominal":
        return np.broadcast_to(1 - np.eye(k), (len(shares), k, k))
    if level == "interval":
        values = np.asarray(categories, dtype=np.float64)
        return np.broadcast_to((values[:, None] - values[None, :]) ** 2, (len(shares), k, k))
    middle = np.cumsum(shares, axis=1) - shares / 2
    return (middle[:, :, None] - middle[:, None, :]) ** 2


def _item_agreement(counts: Floats) -> tuple[Floats, Floats]:
    """For each item the share of its pairs of votes that agree, and 1.0 if it has at least two votes, else 0.0."""
    total = counts.sum(axis=1)
    twice = (total >= 2).astype(np.float64)
    return ratio((counts * (counts - 1)).sum(axis=1) * twice, np.maximum(total * (total - 1), 1)), twice


def _chance_corrected(votes: Votes, chance: Callable[[Floats], Floats]) -> Statistic:
    counts = votes.counts
    total = counts.sum(axis=1)
    voted = (total >= 1).astype(np.float64)
    share_of_item = counts / np.maximum(total, 1)[:, None]
    agreed, twice = _item_agreement(counts)

    def statistic(weights: Floats) -> Floats:
        observed = ratio(weights @ agreed, weights @ twice)
        voters = weights @ voted
        shares = ratio(weights @ share_of_item, np.repeat(voters[:, None], counts.shape[1], axis=1))
        by_chance = chance(shares)
        return ratio(observed - by_chance, 1 - by_chance)

    return statistic


def _fleiss_chance(shares: Floats) -> Floats:
    """Chance agreement from the judges' pooled shares of the categories."""
    # Without this, a share of exactly one would leave a rounding error in place of 0/0.
    return np.where(shares.max(axis=1) >= 1 - 1e-12, 1.0, (shares**2).sum(axis=1))


def _gwet_chance(shares: Floats) -> Floats:
    """Chance agreement that stays small when one category is rare, where kappa collapses."""
    k = shares.shape[1]
    return (shares * (1 - shares)).sum(axis=1) / (k - 1) if k > 1 else np.ones(len(shares))


_STATISTICS: dict[str, Callable[[Votes], Statistic]] = {
    "raw": _raw,
    "fleiss_kappa": lambda rows: _chance_corrected(rows, _fleiss_chance),
    "gwet_ac1": lambda rows: _chance_corrected(rows, _gwet_chance),
}


def _cohen(votes: Votes, first: int, second: int) -> Statistic:
    a, b, k = votes.codes[:, first], votes.codes[:, second], len(votes.categories)
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
