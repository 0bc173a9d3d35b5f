"""Ratings of known quality, and judges of known error rates."""

from __future__ import annotations

import numpy as np

from kgqa_hpc.plugins.evaluation.ratings import CRITERIA, Rating, Ratings
from kgqa_hpc.plugins.evaluation.records import Verdicts


def rated(minimums: list[float | None], annotators: tuple[str, ...] = ("p",)) -> Ratings:
    rows = [
        Rating(f"i{i}", f"q {i}", f"a {i}", who, {} if low is None else dict.fromkeys(CRITERIA, float(low)))
        for who in annotators
        for i, low in enumerate(minimums)
    ]
    return Ratings(CRITERIA, tuple(rows))


def planted(truth: np.ndarray, right: tuple[float, ...], rng: np.random.Generator) -> Verdicts:
    """Judges that are right with the given probabilities, independently."""
    hits = rng.random((len(truth), len(right))) < np.array(right)
    votes = np.where(hits, truth[:, None], ~truth[:, None]).astype(np.int64)
    items = tuple(f"i{i}" for i in range(len(truth)))
    names = tuple(f"j{k}" for k in range(len(right)))
    return Verdicts(items, names, votes, votes.astype(float), votes[:, 0], len(truth), 0, 0)
