"""Random choices inside kernels: SplitMix64 with one stream per draw, exact choices from it, and roots.

The stream of draw i of a key does not depend on which other draws are made, where, or in what order. All
choices are exact (numbers beyond the last full multiple are skipped), so no rounding enters a probability.
"""

import numpy as np

from kgqa_hpc.jit import helper, kernel

_STRIDE = np.uint64(0xD1342543DE82EF95)  # the same as in graphlets.splitmix


@helper
def next_word(state):
    """The next 64 random bits; state is uint64 (1,)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    x = state[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@helper
def begin_draw(state, key, number):
    """Set the state to the start of stream `number` of `key`."""
    state[0] = np.uint64(key) ^ (np.uint64(number) * _STRIDE)
    state[0] = next_word(state)


@helper
def below(state, n):
    """Uniform integer of [0, n), int64; n > 0."""
    size = np.uint64(n)
    while True:
        word = next_word(state)
        remainder = word % size
        if word - remainder <= np.uint64(0) - size:  # the last, incomplete multiple is skipped
            return np.int64(remainder)


@helper
def weighted(state, cumulative, start, size):
    """Index i < size in proportion to weight start + i; `cumulative` int64: running sums from start, the last > 0."""
    goal = below(state, cumulative[start + size - 1])
    return first_above(cumulative, start, start + size - 1, goal) - start


@helper
def first_above(cumulative, low, high, goal):
    """First index of low, …, high with cumulative[index] > goal; the caller ensures that it exists."""
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > goal:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def other_neighbour(state, indptr, indices, vertex, a, b, c):
    """Uniform neighbour of `vertex` other than a, b and c; the caller ensures that it exists."""
    start = indptr[vertex]
    degree = indptr[vertex + 1] - start
    while True:
        x = np.int64(indices[start + below(state, degree)])
        if x != a and x != b and x != c:
            return x


@kernel
def pick_roots(cumulative, guide, goals, offset, picks):
    """picks[i] = root << 32 | (offset + i), int64: the first root with cumulative[root] > goals[i].

    `cumulative` (n,) and `goals` are int64 or float64, goals below the last sum. `guide` int64 (buckets + 1,)
    (Chen, Asau 1974) holds the search results for the bounds of equal buckets, which shortens each search to
    few steps; bounds are rounded, so the search includes one more bucket on either side.
    """
    buckets = guide.shape[0] - 1
    scale = buckets / np.float64(cumulative[-1])
    for i in range(goals.shape[0]):
        bucket = np.int64(goals[i] * scale)
        low = guide[max(bucket - 1, 0)]
        high = min(guide[min(bucket + 2, buckets)], cumulative.shape[0] - 1)
        picks[i] = first_above(cumulative, low, high, goals[i]) << 32 | (offset + i)
