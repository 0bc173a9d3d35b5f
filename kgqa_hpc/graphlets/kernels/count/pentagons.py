"""5-cycles, counted at their smallest label (the highest degree), so that no other root walks through a hub.

Method as in ESCAPE (Pinar, Seshadhri, Vishal 2017), the correction for triangles folded into the same loop
(ours). O(sum over roots of the edges among the vertices two steps away) time.
"""

import numpy as np

from kgqa_hpc.jit import kernel


@kernel
def count_pentagons(first_row, step, indptr, indices, rooted):
    """Not necessarily induced 5-cycles whose smallest label is one of first_row, first_row + step, …; int64.

    Fills `rooted` int64 (n,): W(x) * W(y) over the edges {x, y}, the weight of each root in
    kernels.draw.cycles.

    A cycle v-u-x-y-w is two paths v-u-x and v-w-y and the edge {x, y}. With W(x) the number of such u
    (labels above v only), an edge gives W(x) * W(y) choices, less those with u = y, w = x or u = w; the
    last are triangles {u, x, y} beside v, counted at their own smallest label through the number of
    neighbours below it.
    """
    n = indptr.shape[0] - 1
    ways = np.zeros(n, np.int32)  # 2 * W, and 1 for neighbours of the root
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
