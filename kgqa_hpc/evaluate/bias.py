"""Does a judge say the same again, and does it prefer long answers? From verdicts alone.

Ask a judge twice, or once more with something changed that should not matter (order, length): what flips is
unreliability or bias. A bias in one direction shows in McNemar's exact test (1947) of the flips.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kgqa_hpc.evaluate.agreement import MISSING
from kgqa_hpc.evaluate.bootstrap import RESAMPLES, Estimate, Floats, estimate, mean_of
from kgqa_hpc.evaluate.judged import Truth, auc, kappa_statistic, wilson
from kgqa_hpc.evaluate.panel import Codes


@dataclass(frozen=True, slots=True)
class Retest:
    """The same judge on the same items twice: shares with Wilson's interval, and kappa.

    `to_accept` and `to_reject` count the flips by direction; `shift` is what that does to the share accepted; `p` is
    small when one direction prevails.
    """

    items: int
    same: Estimate
    kappa: float | None
    to_accept: int
    to_reject: int
    shift: Estimate
    p: float

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same.to_dict(), "shift": self.shift.to_dict()}


def retest(first: Codes, second: Codes, *, resamples: int = RESAMPLES, seed: int = 0) -> Retest:
    """Compare two rounds of verdicts (1, 0, -1 missing), both (items,); items without both are left out."""
    from scipy.stats import binomtest

    both = (first != MISSING) & (second != MISSING)
    a, b = first[both], second[both]
    up, down = int(((a == 0) & (b == 1)).sum()), int(((a == 1) & (b == 0)).sum())
    kappa = float(kappa_statistic(b, a == 1)(np.ones((1, len(a))))[0]) if len(a) else float("nan")
    return Retest(
        len(a),
        wilson(int((a == b).sum()), len(a)),
        None if np.isnan(kappa) else kappa,
        up,
        down,
        estimate(mean_of((b - a).astype(np.float64)), len(a), resamples=resamples, seed=seed),
        float(binomtest(up, up + down).pvalue) if up + down else 1.0,
    )


@dataclass(frozen=True, slots=True)
class LengthPreference:
    """The chance that an accepted answer is longer than a rejected one, and a good one than a bad one.

    0.5 is no preference. A judge whose value is well above people's accepts answers for their length.
    """

    judge: Estimate
    people: Estimate

    def to_dict(self) -> dict[str, Any]:
        return {"judge": self.judge.to_dict(), "people": self.people.to_dict()}


def length_preference(
    verdicts: Codes, truth: Truth, lengths: Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> LengthPreference:
    """For one judge over items with answers of these lengths (items,); over items it has a verdict on."""
    known = verdicts != MISSING
    sizes = lengths[known]
    return LengthPreference(
        auc(sizes, verdicts[known] == 1, resamples=resamples, seed=seed),
        auc(sizes, truth[known], resamples=resamples, seed=seed),
    )
