"""Finding the roots of draws: who holds a number among running sums of weights.

A guide (Chen, Asau 1974) cuts the numbers into equal buckets and knows between which vertices each of them
lies, so few steps of a search are left.
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.kernels.jit import kernel


@kernel
def pick_roots(cumulative, guide, goals, offset, picks):
    """picks[i] = root << 32 | (offset + i), int64: the first root with cumulative[root] > goals[i].

    `cumulative` (n,) and `goals` are int64 or float64, goals below the last sum. `guide` int64 (buckets + 1,)
    holds what a search for the buckets' bounds finds; these are rounded, so a bucket more on either side is
    looked at.
    """
    buckets = guide.shape[0] - 1
    scale = buckets / np.float64(cumulative[-1])
    for i in range(goals.shape[0]):
        bucket = np.int64(goals[i] * scale)
        low = guide[max(bucket - 1, 0)]
        high = min(guide[min(bucket + 2, buckets)], cumulative.shape[0] - 1)
        while low < high:
            middle = (low + high) >> 1
            if cumulative[middle] > goals[i]:
                high = middle
            else:
                low = middle + 1
        picks[i] = low << 32 | (offset + i)
