"""Sums over codegrees and over triangles of edges: the ingredients of most closed forms.

The codegree W(v, x) is the number of common neighbours of v and x. It is built per root v for the x above
v, in the same walk over paths of two edges as Z(v, x), the triangles on the edges of those paths; a whole
pass costs O(sum of d^2) (ESCAPE: Pinar, Seshadhri, Vishal 2017; the selection and arrangement of the sums
and the single walk are ours). Rows hold the 2-core only, `degree` the degrees in the whole graph: every
cycle lies in the 2-core, tails may leave it.

Sums are int64 pairs (low, high) that stand for low + high * 2**CARRY_BITS; low is brought below
2**CARRY_BITS after each root, so only what a single root adds must stay below 2**63.
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.kernels.jit import helper, kernel
from kgqa_hpc.graphlets.kernels.triangles import find_slot

CARRY_BITS = 40

# Names of the sums. pair: two vertices, W their codegree; slot: edge with a direction, te: triangles on it.
SQUARE = 0  # over pairs: C(W, 2); each 4-cycle twice
BANNER = 1  # over pairs: C(W, 2) * (tails at both)
K23 = 2  # over pairs: C(W, 3)
HOUSE = 3  # over pairs: (W - 1) * Z, that is over edges: te * 4-cycles on the edge, twice
DIAMOND_PLUS = 4  # over pairs: (W - 2) * edges among the common neighbours
DIAMOND = 5  # over edges: C(te, 2)
BOOK = 6  # over edges: C(te, 3)
DART = 7  # over edges: C(te, 2) * (tails at both ends)
BULL = 8  # over edges: triangles with one tail at each end
KITE = 9  # over slots and third corners: (te - 1) * (tails at the corner)
SUMS = 10


@helper
def carry_over(low, high):
    for i in range(low.shape[0]):
        carry = low[i] >> 40
        high[i] += carry
        low[i] -= carry << 40


@kernel
def codegree_sums(first, step, indptr, indices, degree, te, starts, corners, triangles):
    """Sums of the roots first, first + step, …; int64 (2, SUMS): low and high parts.

    Fills `triangles` int64 (n,): triangles at each vertex. `te`, `starts` and `corners` are those of
    kernels.triangles.
    """
    n = indptr.shape[0] - 1
    sums = np.zeros((2, SUMS), np.int64)
    low = sums[0]
    walks = np.zeros((n, 2), np.int64)  # W and Z side by side: one cache line
    touched = np.empty(n, np.int32)
    for v in range(first, n, step):
        reached = 0
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            for other in range(indptr[u + 1] - 1, indptr[u] - 1, -1):
                x = indices[other]
                if x <= v:
                    break
                if walks[x, 0] == 0:
                    touched[reached] = x
                    reached += 1
                walks[x, 0] += 1
                walks[x, 1] += te[slot] + te[other]
        triangles[v] = _triangle_sums(v, indptr, indices, degree, te, starts, corners, walks, low)
        for i in range(reached):
            x = touched[i]
            w = walks[x, 0]
            pairs = w * (w - 1) // 2
            low[SQUARE] += pairs
            low[BANNER] += pairs * (degree[v] + degree[x] - 4)
            low[K23] += pairs * (w - 2) // 3
            low[HOUSE] += (w - 1) * walks[x, 1]
            walks[x, 0] = 0
            walks[x, 1] = 0
        carry_over(low, sums[1])
    return sums


@helper
def _triangle_sums(v, indptr, indices, degree, te, starts, corners, walks, low):
    """Adds the sums over the slots of v that lie in triangles; returns the triangles at v."""
    twice = np.int64(0)
    for slot in range(indptr[v], indptr[v + 1]):
        t = np.int64(te[slot])
        if t == 0:
            continue
        twice += t
        u = indices[slot]
        if v < u:
            pairs = t * (t - 1) // 2
            low[DIAMOND] += pairs
            low[BOOK] += pairs * (t - 2) // 3
            low[DART] += pairs * (degree[v] + degree[u] - 6)
            low[BULL] += t * (degree[v] - 2) * (degree[u] - 2) - t * (t - 1)
        for i in range(starts[slot], starts[slot + 1]):
            w = corners[i]
            low[KITE] += (t - 1) * (degree[w] - 2)
            if (
                w > u
            ):  # {u, w} is the chord of diamonds with tip v; their other tips are the chord's third corners
                chord = find_slot(indptr, indices, u, w)
                for j in range(starts[chord + 1] - 1, starts[chord] - 1, -1):
                    if corners[j] <= v:
                        break
                    low[DIAMOND_PLUS] += walks[corners[j], 0] - 2
    return twice // 2
