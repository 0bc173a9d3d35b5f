"""Agreement between judges, beyond chance: Krippendorff's alpha, Fleiss' and Cohen's kappa, Gwet's AC1.

All take votes with gaps, and weighted items, which gives each a bootstrap interval over items. Where a
coefficient is 0/0 (one judge, nothing voted on twice, one category only) its value is None, never 1.
Sources: Krippendorff (2011), "Computing Krippendorff's alpha-reliability"; Fleiss (1971) and Gwet (2008), with
missing votes as in Gwet (2014), chapter 2; Cohen (1960).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd
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
        categories = np.arange(len(self.categories))
        return (self.codes[:, :, None] == categories).sum(axis=1).astype(np.float64)


def make_votes(
    table: Sequence[Sequence[Hashable | None]], judges: Sequence[str], categories: Sequence[Any] | None = None
) -> Votes:
    """Votes from rows of values: one row per item, one column per judge, None for a missing vote.

    `categories` are all possible values, in their order; by default the values that occur, sorted.
    Raises ValueError for a value that is not a category.
    """
    values = {value for row in table for value in row if value is not None}
    labels: tuple[Any, ...] = tuple(sorted(values) if categories is None else categories)
    if strange := values - set(labels):
        raise ValueError(f"{sorted(map(str, strange))[0]} is not among the categories {list(labels)}")
    position = {value: k for k, value in enumerate(labels)} | {None: MISSING}
    codes = np.array([[position[value] for value in row] for row in table], dtype=np.int64)
    return Votes(codes.reshape(len(table), len(judges)), tuple(judges), labels)


def agreement(
    votes: Votes, coefficient: str, level: Level = "nominal", *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """One of COEFFICIENTS. `level` matters to alpha alone; `interval` takes the categories as numbers."""
    rows, counts = _patterns(votes)
    alpha = coefficient == "krippendorff_alpha"
    statistic = _alpha(rows, level) if alpha else _chance_corrected(rows, coefficient)
    return estimate_counted(statistic, counts, resamples=resamples, seed=seed)


def cohen_kappa(
    votes: Votes, first: int, second: int, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Cohen's kappa of two judges (columns of `votes`) over the items that both voted on."""
    rows, counts = _patterns(votes)
    statistic = cohen_statistic(rows.codes[:, first], rows.codes[:, second], len(votes.categories))
    return estimate_counted(statistic, counts, resamples=resamples, seed=seed)


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


def _patterns(votes: Votes) -> tuple[Votes, Floats]:
    """The distinct rows of votes, in order, and how many items have each; the time depends on these alone."""
    table = pd.DataFrame(votes.codes).groupby(list(range(len(votes.judges)))).size().reset_index(name="items")
    *codes, counts = (table[column].to_numpy() for column in table)
    return Votes(np.stack(codes, axis=1), votes.judges, votes.categories), counts.astype(np.float64)


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
        # Squared distances between categories, (b, k, k) or (k, k); ordinal ones depend on the shares.
        distance = 1 - np.eye(k)
        if level != "nominal":
            numbers = votes.categories if level == "interval" else np.cumsum(shares, axis=1) - shares / 2
            scale = np.asarray(numbers, dtype=np.float64)
            distance = (scale[..., :, None] - scale[..., None, :]) ** 2
        observed = (coincidences * distance).sum(axis=(1, 2))
        expected = (shares[:, :, None] * shares[:, None, :] * distance).sum(axis=(1, 2))
        return 1 - ratio((size - 1) * observed, expected)

    return statistic


def _chance_corrected(votes: Votes, coefficient: str) -> Statistic:
    """The share of equal votes among the pairs of votes on an item, averaged over items: raw, or beyond chance."""
    counts = votes.counts
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
            # Without this, a share of exactly one would leave a rounding error in place of 0/0.
            chance = np.where(shares.max(axis=1) >= 1 - 1e-12, 1.0, (shares**2).sum(axis=1))
        else:  # Gwet's stays small when one category is rare, where kappa collapses
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
