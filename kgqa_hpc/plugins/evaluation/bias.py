"""Does a judge say the same again, and does it prefer long answers? From verdicts alone.

Ask a judge twice, or once more with something changed that should not matter (order, length): what flips is
unreliability or bias. A bias in one direction shows in McNemar's exact test (1947) of the flips.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kgqa_hpc.plugins.evaluation.agreement import MISSING
from kgqa_hpc.plugins.evaluation.bootstrap import RESAMPLES, Floats, estimate, mean_of
from kgqa_hpc.plugins.evaluation.judged import Truth, auc, kappa_statistic, wilson
from kgqa_hpc.plugins.evaluation.panel import Codes


def retest(first: Codes, second: Codes, *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Two rounds of one judge's verdicts (1, 0, -1 missing), both (items,); items without both are left out.

    `same` is a share with Wilson's interval; `to_accept` and `to_reject` count the flips by direction; `shift`
    is what they do to the share accepted; `p` is small when one direction prevails.
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
    """The chance that an accepted answer is longer than a rejected one, and a good one than a bad one.

    For one judge, over the items it has a verdict on; `lengths` (items,) are of their answers. 0.5 is no
    preference; a judge well above people accepts answers for their length.
    """
    judged = verdicts != MISSING
    sizes = lengths[judged]
    sides = {"judge": verdicts[judged] == 1, "people": truth[judged]}
    return {name: auc(sizes, side, resamples=resamples, seed=seed).to_dict() for name, side in sides.items()}
