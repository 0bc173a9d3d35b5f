"""The debiased sampler: rows drawn by inverse frequency, without replacement (QAProt, Algorithm 1).

A row's weight is the product over the chosen columns of 1 / (rows with its value). Drawing one row after
another in proportion to the weights of those left is done by exponential keys: the smallest Exp(1) / weight
first (Efraimidis and Spirakis 2006), so a sample of m rows is the beginning of the sample of m + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgqa_hpc.evaluate.bootstrap import Floats


def inverse_frequency_weights(columns: Sequence[ArrayLike]) -> Floats:
    """Probabilities (n,) of each row from columns of n values each; they add up to 1.

    Raises ValueError without a column, or for columns of different lengths.
    """
    arrays = [np.asarray(column) for column in columns]
    if not arrays or len({len(one) for one in arrays}) > 1:
        raise ValueError("debiasing needs columns of one length")
    weights = np.ones(len(arrays[0]))
    for values in arrays:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        weights /= counts[place]
    return weights / weights.sum() if len(weights) else weights


def debiased_sample(columns: Sequence[ArrayLike], number: int, seed: int) -> NDArray[np.int64]:
    """Rows of a sample of `number`, in the order drawn; all rows where there are no more.

    Raises ValueError as inverse_frequency_weights, or for a negative number.
    """
    if number < 0:
        raise ValueError("a sample cannot have fewer than no rows")
    weights = inverse_frequency_weights(columns)
    keys = np.random.default_rng(seed).exponential(size=len(weights)) / weights
    return np.argsort(keys, kind="stable")[:number].astype(np.int64)
