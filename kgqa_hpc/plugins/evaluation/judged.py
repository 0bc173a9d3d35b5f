"""Measures of a decision rule against the truth: precision, recall, kappa and AUC, each with its interval.

Shares have Wilson's (1927) interval, kappa and AUC the bootstrap's over items. An item without a decision is
left out and counted as undecided.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc import intervals
from kgqa_hpc.plugins.evaluation.agreement import MISSING
from kgqa_hpc.plugins.evaluation.bootstrap import RESAMPLES, Estimate, Floats, Statistic, estimate, ratio
from kgqa_hpc.plugins.evaluation.panel import Codes
from kgqa_hpc.plugins.evaluation.power import kappa_error

Truth = NDArray[np.bool_]


def measure(decision: Codes, truth: Truth, *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """All measures of decisions (1, 0, -1) against the truth, both (items,), as plain data."""
    yes, no = decision == 1, decision == 0
    cells = {
        "true_accept": int((yes & truth).sum()),
        "false_accept": int((yes & ~truth).sum()),
        "false_reject": int((no & truth).sum()),
        "true_reject": int((no & ~truth).sum()),
    }
    right, wrong, missed, refused = cells.values()
    kappa = estimate(kappa_statistic(decision, truth), len(truth), resamples=resamples, seed=seed)
    return {
        "items": sum(cells.values()),
        "undecided": int((decision == MISSING).sum()),
        "confusion": cells,
        "precision": wilson(right, right + wrong).to_dict(),
        "recall": wilson(right, right + missed).to_dict(),
        "specificity": wilson(refused, refused + wrong).to_dict(),
        "accuracy": wilson(right + refused, sum(cells.values())).to_dict(),
        "kappa": kappa.to_dict(),
        "kappa_error": _kappa_error(right, wrong, missed, refused),
    }


def _kappa_error(right: int, wrong: int, missed: int, refused: int) -> float | None:
    """The standard error of kappa for one rating, at the agreement that was seen."""
    n, good, accepted = right + wrong + missed + refused, right + missed, right + wrong
    chance = (good * accepted + (n - good) * (n - accepted)) / n**2 if n else 1.0
    return kappa_error((right + refused) / n, chance) if chance < 1 else None


def wilson(part: int, whole: int) -> Estimate:
    """A share with Wilson's score interval; undefined for 0 of 0."""
    return Estimate(*intervals.wilson(part, whole))


def kappa_statistic(decision: Codes, truth: Truth) -> Statistic:
    """Cohen's kappa of decisions and truth over weighted items."""
    judged = (decision != MISSING).astype(np.float64)
    yes, good = (decision == 1) * judged, truth * judged
    right = ((decision == 1) == truth) * judged

    def statistic(weights: Floats) -> Floats:
        size = weights @ judged
        accepted, positive = weights @ yes, weights @ good
        chance = accepted * positive + (size - accepted) * (size - positive)
        return ratio((weights @ right) * size - chance, size**2 - chance)

    return statistic


def kappa_gap(
    first: Codes, second: Codes, truth: Truth, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """How much higher the first decision's kappa is than the second's, on the same resamples."""
    a, b = kappa_statistic(first, truth), kappa_statistic(second, truth)
    return estimate(lambda weights: a(weights) - b(weights), len(truth), resamples=resamples, seed=seed)


def auc(scores: Floats, truth: Truth, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Probability that a good item has a higher score than a bad one, ties counted half; NaN scores are left out.

    Undefined when all known items are good or all are bad.
    """
    present = ~np.isnan(scores)
    levels, ranks = np.unique(scores[present], return_inverse=True)
    good = np.zeros((len(scores), len(levels)))
    bad = good.copy()
    rows = np.flatnonzero(present)
    good[rows, ranks] = truth[present]
    bad[rows, ranks] = ~truth[present]

    def statistic(weights: Floats) -> Floats:
        above, below = weights @ good, weights @ bad
        wins = (above * (np.cumsum(below, axis=1) - below / 2)).sum(axis=1)
        return ratio(wins, above.sum(axis=1) * below.sum(axis=1))

    return estimate(statistic, len(scores), resamples=resamples, seed=seed)
