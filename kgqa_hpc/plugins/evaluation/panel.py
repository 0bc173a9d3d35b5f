"""A panel of several judges: decision rules, confusion between judges, and lone dissenters.

A verdict is 1 (holds), 0 (does not) or -1 (missing). A rule decides only items that every judge of the panel
has voted on; an item with a missing verdict stays -1 and is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc.plugins.evaluation.agreement import MISSING
from kgqa_hpc.plugins.evaluation.bootstrap import Floats

Codes = NDArray[np.int64]

# The weight of a judge that is no better than chance: a run's weights must be positive.
LEAST = 0.01


def at_least(verdicts: Codes, k: int) -> Codes:
    """Decisions of a rule that accepts an item if at least `k` judges do. `verdicts` (items, judges) → (items,)."""
    return _decided(verdicts, (verdicts == 1).sum(axis=1) >= k)


def weighted(verdicts: Codes, weights: Floats) -> Codes:
    """Accept where the `weights` (judges,) of those that accept are half of all or more, as a run decides."""
    return _decided(verdicts, (verdicts == 1) @ weights >= weights.sum() / 2)


def rules(verdicts: Codes) -> dict[str, Codes]:
    """Decisions of all rules without weights, by name: `all`, `majority` and every other `k of n`."""
    n = verdicts.shape[1]
    half = n // 2 + 1  # a tie is not a majority
    needed = {"all": n, "majority": half, **{f"{k} of {n}": k for k in range(1, n) if k != half}}
    return {name: at_least(verdicts, k) for name, k in needed.items()}


def log_odds_weights(verdicts: Codes, truth: NDArray[np.bool_]) -> Floats:
    """Weight of each judge: the log odds that it is right, with one success and one failure added.

    The optimal weights of independent judges (Nitzan and Paroush 1982). Missing verdicts are left out. A judge
    that is no better than chance gets LEAST.
    """
    voted = verdicts != MISSING
    right = ((verdicts == 1) == truth[:, None]) & voted
    hits, size = right.sum(axis=0) + 1.0, voted.sum(axis=0) + 2.0
    return np.maximum(np.log(hits / (size - hits)), LEAST)


def confusion(verdicts: Codes, judges: Sequence[str]) -> list[dict[str, Any]]:
    """For every pair of judges the number of items that both, one or neither accepts, or that lack a verdict."""
    rows = []
    for a, b in combinations(range(len(judges)), 2):
        first_verdicts, right = verdicts[:, a], verdicts[:, b]
        rows.append(
            {
                "judges": [judges[a], judges[b]],
                "both": int(((first_verdicts == 1) & (right == 1)).sum()),
                "only_first": int(((first_verdicts == 1) & (right == 0)).sum()),
                "only_second": int(((first_verdicts == 0) & (right == 1)).sum()),
                "neither": int(((first_verdicts == 0) & (right == 0)).sum()),
                "missing": int(((first_verdicts == MISSING) | (right == MISSING)).sum()),
            }
        )
    return rows


def decides_alone(verdicts: Codes, judges: Sequence[str]) -> dict[str, dict[str, int]]:
    """Number of items that each judge alone rejects, and that it alone accepts.

    Under the rule `all` a judge's lone rejections are the items that it alone removes; under `1 of n` its lone
    acceptances are those that it alone keeps. Counted over items with all verdicts, in panels of two or more.
    """
    full = (verdicts != MISSING).all(axis=1)
    accepted = (verdicts == 1).sum(axis=1)
    n = len(judges)
    several = full & (n > 1)
    return {
        name: {
            "rejects_alone": int((several & (verdicts[:, j] == 0) & (accepted == n - 1)).sum()),
            "accepts_alone": int((several & (verdicts[:, j] == 1) & (accepted == 1)).sum()),
        }
        for j, name in enumerate(judges)
    }


def _decided(verdicts: Codes, accepted: NDArray[np.bool_]) -> Codes:
    full = (verdicts != MISSING).all(axis=1)
    return np.where(full, accepted.astype(np.int64), MISSING)
