"""Sums over codegrees, for the closed forms of shapes that hold a 4-cycle, and the number of 5-cycles.

Both as in ESCAPE (Pinar, Seshadhri, Vishal 2017). The codegree W(v, x) is the number of common neighbours of v and x.
It is built per root v for the x above v in a walk over paths of two edges; paths whose middle lies in a triangle
are walked once more. A whole pass costs O(sum of d^2) (the selection and arrangement of the sums is ours). Rows
hold the 2-core only, `degree` the degrees in the whole graph: every cycle lies in the 2-core, tails may leave it.

5-cycles are counted at their smallest label (the highest degree), so that no other root walks through a hub; the
correction for triangles is folded into the same loop (ours). O(sum over roots of the edges among the vertices two
steps away) time.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.triangles import carry_over, find_slot
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

    `te`, `starts` and `corners` are those of kernels.triangles. Fills `rooted` int64 (n, ROOTED).
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


@kernel
def count_pentagons(first_row, step, indptr, indices, rooted):
    """Not necessarily induced 5-cycles whose smallest label is one of first_row, first_row + step, …; int64.

    Fills `rooted` int64 (n,): W(x) * W(y) over the edges {x, y}, the weight of each root in
    kernels.draw_cycles.

    A cycle v-u-x-y-w is two paths v-u-x and v-w-y and the edge {x, y}. With W(x) the number of such u
    (labels above v only), an edge gives W(x) * W(y) choices, less those with u = y, w = x or u = w; the
    last are triangles {u, x, y} beside v, counted at their own smallest label through the number of
    neighbours below it.
    """
    n = indptr.shape[0] - 1
    ways = np.zeros(n, np.int32)  # ways[x]: 2 * W(x), plus 1 if x is a neighbour of the root
    touched = np.empty(n, np.int32)
    below = np.zeros(n, np.int64)
    total = np.int64(0)
    for v in range(first_row, n, step):
        start = indptr[v]
        while start < indptr[v + 1] and indices[start] < v:
            start += 1
        below_v = start - indptr[v]
        weight = np.int64(0)
        reached = 0
        for slot in range(start, indptr[v + 1]):
            u = indices[slot]
            last = indptr[u + 1] - 1
            while indices[last] > v:
                x = indices[last]
                touched[reached] = x  # overwritten unless x is new
                reached += ways[x] == 0
                ways[x] += 2
                last -= 1
            below[u] = last - indptr[u]
        for slot in range(start, indptr[v + 1]):  # neighbours that no path leads to are never met
            ways[indices[slot]] |= 1
        for i in range(reached):
            x = touched[i]
            wx = np.int64(ways[x] >> 1)
            x_near = np.int64(ways[x] & 1)
            for slot in range(indptr[x + 1] - 1, indptr[x] - 1, -1):
                y = indices[slot]
                if y <= x:
                    break
                wy = np.int64(ways[y] >> 1)
                if wy == 0:
                    continue
                if ways[y] & 1:
                    total -= wy
                    if x_near:
                        total += 1 - below_v - below[x] - below[y]
                total += wx * (wy - x_near)
                weight += wx * wy
        rooted[v] = weight
        for i in range(reached):
            ways[touched[i]] = 0
        for slot in range(start, indptr[v + 1]):
            ways[indices[slot]] = 0
    return total


@kernel
def pentagon_steps(roots, indptr, indices):
    """Inner steps that `count_pentagons` takes for each of `roots`; float64 (len(roots),)."""
    n = indptr.shape[0] - 1
    seen = np.full(n, -1, np.int32)
    steps = np.zeros(roots.shape[0])
    for i in range(roots.shape[0]):
        v = roots[i]
        for slot in range(indptr[v + 1] - 1, indptr[v] - 1, -1):
            u = indices[slot]
            if u < v:
                break
            for other_slot in range(indptr[u + 1] - 1, indptr[u] - 1, -1):
                x = indices[other_slot]
                if x <= v:
                    break
                steps[i] += 1
                if seen[x] != i:
                    seen[x] = i
                    steps[i] += (indptr[x + 1] - indptr[x]) // 2
    return steps
