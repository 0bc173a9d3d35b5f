"""Measures of decisions against the truth (precision, recall, kappa, AUC); a judge's reliability and length bias.

Shares have Wilson's (1927) interval, kappa and AUC the bootstrap's over items. An item without a decision is left out
and counted as undecided. A judge that is asked twice, or again after a change that should not matter (order, length),
shows its unreliability or bias by the verdicts that flip; McNemar's exact test (1947) tells a bias in one direction.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc import intervals
from kgqa_hpc.plugins.evaluation.agreement import MISSING, Codes, cohen_statistic
from kgqa_hpc.plugins.evaluation.bootstrap import (
    RESAMPLES,
    Estimate,
    Floats,
    Statistic,
    estimate,
    mean_of,
    ratio,
)
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
    items, good, accepted = sum(cells.values()), right + missed, right + wrong
    chance = (good * accepted + (items - good) * (items - accepted)) / items**2 if items else 1.0
    kappa = estimate(kappa_statistic(decision, truth), len(truth), resamples=resamples, seed=seed)
    return {
        "items": items,
        "undecided": int((decision == MISSING).sum()),
        "confusion": cells,
        "precision": wilson(right, accepted).to_dict(),
        "recall": wilson(right, good).to_dict(),
        "specificity": wilson(refused, refused + wrong).to_dict(),
        "accuracy": wilson(right + refused, items).to_dict(),
        "kappa": kappa.to_dict(),
        "kappa_error": kappa_error((right + refused) / items, chance) if chance < 1 else None,
    }


def wilson(part: int, whole: int) -> Estimate:
    """A share with Wilson's score interval; undefined for 0 of 0."""
    return Estimate(*intervals.wilson(part, whole))


def kappa_statistic(decision: Codes, truth: Truth) -> Statistic:
    """Cohen's kappa of decisions and truth over weighted items."""
    return cohen_statistic(decision, truth.astype(np.int64), 2)


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


def retest(first: Codes, second: Codes, *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Compare two rounds of one judge's verdicts (1, 0, -1 missing), both (items,); items that lack one are left out.

    `same` is the share of unchanged verdicts with Wilson's interval; `to_accept` and `to_reject` count the flips by
    direction; `shift` is the change of the accepted share; `p` is small when one direction prevails.
    """
    from scipy.stats import binomtest

    both = (first != MISSING) & (second != MISSING)
    a, b = first[both], second[both]
    up, down = int(((a == 0) & (b == 1)).sum()), int(((a == 1) & (b == 0)).sum())
    kappa = float(kappa_statistic(b, a == 1)(np.ones((1, len(a))))[0]) if len(a) else float("nan")
    shift = estimate(mean_of((b - a).astype(np.float64)), len(a), resamples=resamples, seed=seed)
    return {
        "items": len(a),
        "same": wilson(int((a == b).sum()), len(a)).to_dict(),
        "kappa": None if np.isnan(kappa) else kappa,
        "to_accept": up,
        "to_reject": down,
        "shift": shift.to_dict(),
        "p": float(binomtest(up, up + down).pvalue) if up + down else 1.0,
    }


def length_preference(
    verdicts: Codes, truth: Truth, lengths: Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """Probability that an accepted answer is longer than a rejected one, and that a good one is longer than a bad one.

    For one judge, over the items it has a verdict on; `lengths` (items,) are of their answers. 0.5 is no
    preference; a judge well above people accepts answers for their length.
    """
    judged = verdicts != MISSING
    sizes = lengths[judged]
    sides = {"judge": verdicts[judged] == 1, "people": truth[judged]}
    return {name: auc(sizes, side, resamples=resamples, seed=seed).to_dict() for name, side in sides.items()}
