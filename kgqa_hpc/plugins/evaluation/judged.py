"""Measures of decisions against the truth (precision, recall, kappa, AUC); a judge's reliability and length bias.

Shares have Wilson's (1927) interval, kappa and AUC the bootstrap's over items. An item without a decision is left out
and counted as undecided. A judge that is asked twice, or again after a change that should not matter (order, length),
shows its unreliability or bias by the verdicts that flip; McNemar's exact test (1947) tells a bias in one direction.
`sampling` of a function is the bootstrap's `resamples` and `seed`.
"""

from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc import intervals
from kgqa_hpc.intervals import Z95
from kgqa_hpc.plugins.evaluation.agreement import (
    MISSING,
    Codes,
    Floats,
    Statistic,
    cohen_statistic,
    estimate,
    interval,
    mean_of,
    ratio,
)

Truth = NDArray[np.bool_]


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


def kappa_error(agreement: float, chance: float) -> float:
    """The standard error of kappa for one rating; divide by the root of their number (Cohen 1960). `chance` < 1."""
    return sqrt(agreement * (1 - agreement)) / (1 - chance)


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

    For one judge, over the items it has a verdict on; `lengths` (items,) are of their answers. 0.5 is no
    preference; a judge well above people accepts answers for their length.
    """
    judged = verdicts != MISSING
    sides = {"judge": verdicts[judged] == 1, "people": truth[judged]}
    return {name: auc(lengths[judged], side, **sampling) for name, side in sides.items()}


def retest(first: Codes, second: Codes, **sampling: int) -> dict[str, Any]:
    """Compare two rounds of one judge's verdicts (1, 0, -1 missing), both (items,); items that lack one are left out.

    `same` is the share of unchanged verdicts with Wilson's interval; `to_accept` and `to_reject` count the flips by
    direction; `shift` is the change of the accepted share; `p` is small when one direction prevails.
    """
    from scipy.stats import binomtest

    both = (first != MISSING) & (second != MISSING)
    a, b = first[both], second[both]
    up, down = int((b > a).sum()), int((b < a).sum())
    return {
        "items": len(a),
        "same": wilson(int((a == b).sum()), len(a)),
        "kappa": estimate(kappa_statistic(b, a == 1), len(a), resamples=0)["value"],
        "to_accept": up,
        "to_reject": down,
        "shift": estimate(mean_of((b - a).astype(np.float64)), len(a), **sampling),
        "p": float(binomtest(up, up + down).pvalue) if up + down else 1.0,
    }
