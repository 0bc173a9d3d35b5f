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
    """Accept what at least `k` judges accept. `verdicts` (items, judges) → (items,)."""
    return _decided(verdicts, (verdicts == 1).sum(axis=1) >= k)


def weighted(verdicts: Codes, weights: Floats) -> Codes:
    """Accept where the `weights` (judges,) of those that accept are half of all or more, as a run decides."""
    return _decided(verdicts, (verdicts == 1) @ weights >= weights.sum() / 2)


def rules(verdicts: Codes) -> dict[str, Codes]:
    """Every rule that needs no weights, by its name; `all`, `majority` and the `k of n` that are neither."""
    n = verdicts.shape[1]
    half = n // 2 + 1  # a tie is not a majority
    needed = {"all": n, "majority": half, **{f"{k} of {n}": k for k in range(1, n) if k != half}}
    return {name: at_least(verdicts, k) for name, k in needed.items()}


def log_odds_weights(verdicts: Codes, truth: NDArray[np.bool_]) -> Floats:
    """A judge's weight: the log odds that it is right, with one success and one failure added to each.

    The optimal weights of independent judges (Nitzan and Paroush 1982). Missing verdicts are left out. A judge
    that is no better than a coin keeps LEAST.
    """
    voted = verdicts != MISSING
    right = ((verdicts == 1) == truth[:, None]) & voted
    hits, size = right.sum(axis=0) + 1.0, voted.sum(axis=0) + 2.0
    return np.maximum(np.log(hits / (size - hits)), LEAST)


def confusion(verdicts: Codes, judges: Sequence[str]) -> list[dict[str, Any]]:
    """For every pair of judges how many items both accept, one, neither, or lack a verdict."""
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
    """How often each judge is the only one to reject, and the only one to accept.

    Under `all` the lone rejections are what the judge alone removes; under `1 of n` the lone acceptances are
    what it alone keeps. Counted over items with every verdict, panels of two or more.
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
