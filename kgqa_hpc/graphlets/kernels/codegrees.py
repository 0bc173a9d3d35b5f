"""Sums over codegrees and over triangles of edges: the ingredients of most closed forms.

The codegree W(v, x) is the number of common neighbours of v and x; it is built per root v in O(sum of the
neighbours' degrees), so a whole pass costs O(sum of d^2) (ESCAPE: Pinar, Seshadhri, Vishal 2017; the
selection and arrangement of the sums is ours). Rows hold the 2-core only, `degree` the degrees in the whole
graph: every cycle lies in the 2-core, tails may leave it.

Sums are int64 pairs (low, high) that stand for low + high * 2**CARRY_BITS; low is brought below
2**CARRY_BITS after each root, so only what a single root adds must stay below 2**63.
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.kernels.jit import helper, kernel
from kgqa_hpc.graphlets.kernels.triangles import find_slot

CARRY_BITS = 40

# Names of the sums. "slot" = edge with a direction, te = triangles on its edge, c4 = 4-cycles on it.
K23 = 0  # over x: C(W, 3); each K2,3 twice
DIAMOND = 1  # over slots: C(te, 2); each diamond twice
BOOK = 2  # over slots: C(te, 3); each twice
DART = 3  # over slots: C(te, 2) * (tails at both ends); each twice
BULL = 4  # over slots: triangles with one tail at each end; each twice
KITE = 5  # over slots and third corners: (te - 1) * (tails at the corner)
HOUSE = 6  # over slots: te * c4
DIAMOND_PLUS = 7  # over diamonds rooted at a tip: common neighbours of the tips off the chord
SUMS = 8


@helper
def carry_over(low, high):
    for i in range(low.shape[0]):
        carry = low[i] >> 40
        high[i] += carry
        low[i] -= carry << 40


@kernel
def codegree_sums(first, step, indptr, indices, degree, te, starts, corners, triangles, squares):
    """Sums of the roots first, first + step, …; int64 (2, SUMS): low and high parts.

    Fills per vertex `triangles` and `squares` (4-cycles through it), int64 (n,). `te`, `starts` and
    `corners` are those of kernels.triangles.
    """
    n = indptr.shape[0] - 1
    sums = np.zeros((2, SUMS), np.int64)
    low = sums[0]
    common = np.zeros(n, np.int32)
    touched = np.empty(n, np.int32)
    for v in range(first, n, step):
        reached = 0
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            for other in range(indptr[u], indptr[u + 1]):
                x = indices[other]
                if common[x] == 0:
                    touched[reached] = x
                    reached += 1
                common[x] += 1
        through = np.int64(0)
        for i in range(reached):
            if touched[i] != v:
                w = np.int64(common[touched[i]])
                through += w * (w - 1) // 2
                low[K23] += w * (w - 1) * (w - 2) // 6
        squares[v] = through
        triangles[v] = _triangle_sums(v, indptr, indices, degree, te, starts, corners, common, low)
        for i in range(reached):
            common[touched[i]] = 0
        carry_over(low, sums[1])
    return sums


@helper
def _triangle_sums(v, indptr, indices, degree, te, starts, corners, common, low):
    """Adds the sums over the slots of v that lie in triangles; returns the triangles at v."""
    twice = np.int64(0)
    for slot in range(indptr[v], indptr[v + 1]):
        t = np.int64(te[slot])
        if t == 0:
            continue
        twice += t
        u = indices[slot]
        pairs = t * (t - 1) // 2
        low[DIAMOND] += pairs
        low[BOOK] += pairs * (t - 2) // 3
        low[DART] += pairs * (degree[v] + degree[u] - 6)
        low[BULL] += t * (degree[v] - 2) * (degree[u] - 2) - t * (t - 1)
        squares_on_edge = -(np.int64(common[v]) - 1)  # v itself is among u's neighbours
        for other in range(indptr[u], indptr[u + 1]):
            squares_on_edge += common[indices[other]] - 1
        low[HOUSE] += t * squares_on_edge
        for i in range(starts[slot], starts[slot + 1]):
            w = corners[i]
            low[KITE] += (t - 1) * (degree[w] - 2)
            if w > u:  # the chord {u, w} of diamonds with tip v
                chord = find_slot(indptr, indices, u, w)
                beyond = -(np.int64(common[v]) - 2)  # v itself is a tip over its own chord
                for j in range(starts[chord], starts[chord + 1]):
                    beyond += common[corners[j]] - 2
                low[DIAMOND_PLUS] += beyond
    return twice // 2
