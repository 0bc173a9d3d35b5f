"""Sums over codegrees: the ingredients of the closed forms of shapes that hold a 4-cycle.

The codegree W(v, x) is the number of common neighbours of v and x. It is built per root v for the x above
v in a walk over paths of two edges; paths whose middle lies in a triangle are walked once more. A whole pass
costs O(sum of d^2) (ESCAPE: Pinar, Seshadhri, Vishal 2017; the selection and arrangement of the sums is
ours). Rows hold the 2-core only, `degree` the degrees in the whole graph: every
cycle lies in the 2-core, tails may leave it.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.count.triangles import carry_over, find_slot
from kgqa_hpc.jit import helper, kernel

# Indices of the sums over pairs of vertices. The first three are also kept per root, as weights for sampling.
SQUARE = 0  # C(W, 2); each 4-cycle twice
BANNER = 1  # C(W, 2) * (tails at both)
K23 = 2  # C(W, 3)
HOUSE = 3  # over paths of two edges: (W - 1) * te of both edges; each te * 4-cycles on an edge, twice
DIAMOND_PLUS = 4  # (W - 2) * edges among the common neighbours
SUMS = 5
ROOTED = 3


@kernel
def codegree_sums(start, step, indptr, indices, degree, te, starts, corners, rooted):
    """Sums of the roots start, start + step, …; int64 (2, SUMS), low and high parts (triangles.carry_over).

    `te`, `starts` and `corners` are those of kernels.count.triangles. Fills `rooted` int64 (n, ROOTED).
    """
    n = indptr.shape[0] - 1
    sums = np.zeros((2, SUMS), np.int64)
    low = sums[0]
    walks = np.zeros(n, np.int32)
    touched = np.empty(n, np.int32)
    for v in range(start, n, step):
        reached = 0
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            for other_slot in range(indptr[u + 1] - 1, indptr[u] - 1, -1):
                x = indices[other_slot]
                if x <= v:
                    break
                touched[reached] = x  # overwritten unless x is new
                reached += walks[x] == 0
                walks[x] += 1
        low[HOUSE] += _houses(v, indptr, indices, te, starts, walks)
        _add_diamonds(v, indptr, indices, starts, corners, walks, low)
        for i in range(reached):
            x = touched[i]
            w = np.int64(walks[x])
            walks[x] = 0
            if w > 1:
                pairs = w * (w - 1) // 2
                rooted[v, SQUARE] += pairs
                rooted[v, BANNER] += pairs * (degree[v] + degree[x] - 4)
                rooted[v, K23] += pairs * (w - 2) // 3
        for i in range(ROOTED):
            low[i] += rooted[v, i]
        carry_over(low, sums[1])
    return sums


@helper
def _houses(v, indptr, indices, te, starts, walks):
    total = np.int64(0)
    for slot in range(indptr[v], indptr[v + 1]):
        u = indices[slot]
        if starts[indptr[u]] == starts[indptr[u + 1]]:  # in no triangle
            continue
        for other_slot in range(indptr[u + 1] - 1, indptr[u] - 1, -1):
            x = indices[other_slot]
            if x <= v:
                break
            total += (np.int64(walks[x]) - 1) * (te[slot] + te[other_slot])
    return total


@helper
def _add_diamonds(v, indptr, indices, starts, corners, walks, low):
    """Diamonds with tip v and chord {u, w}; their other tips are the third corners of the chord."""
    for slot in range(indptr[v], indptr[v + 1]):
        u = indices[slot]
        for i in range(starts[slot + 1] - 1, starts[slot] - 1, -1):
            w = corners[i]
            if w < u:
                break
            chord = find_slot(indptr, indices, u, w)
            for j in range(starts[chord + 1] - 1, starts[chord] - 1, -1):
                if corners[j] <= v:
                    break
                low[DIAMOND_PLUS] += walks[corners[j]] - 2
