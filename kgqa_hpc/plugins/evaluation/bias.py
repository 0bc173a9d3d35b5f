"""Reliability and length bias of a judge, computed from its verdicts alone.

A judge is asked twice, or again after a change that should not matter (order, length). Verdicts that flip show
unreliability or bias; McNemar's exact test (1947) of the flips shows a bias in one direction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kgqa_hpc.plugins.evaluation.agreement import MISSING
from kgqa_hpc.plugins.evaluation.bootstrap import RESAMPLES, Floats, estimate, mean_of
from kgqa_hpc.plugins.evaluation.judged import Truth, auc, kappa_statistic, wilson
from kgqa_hpc.plugins.evaluation.panel import Codes


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
