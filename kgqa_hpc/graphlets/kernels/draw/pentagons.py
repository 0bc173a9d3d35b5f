"""Draws of 5-cycles, rooted at their smallest label as kernels.count.pentagons counts them.

The edge {x, y} opposite the root is drawn in proportion to the pairs of paths that lead to it, then one
path to each end; draws whose paths meet are rejected. O(edges two steps away) per root with draws,
O(degrees) per draw. Ours.
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.kernels.draw.adjacency import induced_code
from kgqa_hpc.graphlets.kernels.draw.choices import begin_draw, below, weighted
from kgqa_hpc.graphlets.kernels.draw.squares import forget, paths_above
from kgqa_hpc.jit import helper, kernel


@kernel
def draw_pentagons(known, key, first, picks, indptr, indices, table, nodes, codes):
    """Draw copies of the pentagon (15); arguments as in kernels.draw.rows.draw_rows."""
    n = indptr.shape[0] - 1
    state = np.zeros(1, np.uint64)
    row = np.zeros(5, np.int64)
    ways = np.zeros(n, np.int32)
    near = np.zeros(n, np.uint8)
    touched = np.empty(n, np.int32)
    weights = np.empty(n, np.int64)
    last = np.int64(-1)
    reached = 0
    for at in range(picks.shape[0]):
        v = picks[at] >> 32
        i = picks[at] & 0xFFFFFFFF
        if v != last:
            if last >= 0:
                forget(last, reached, touched, ways, near, indptr, indices)
            reached = paths_above(v, v, indptr, indices, ways, near, touched)
            _weigh_edges(reached, touched, ways, indptr, indices, weights)
            last = v
        begin_draw(state, key, first + i)
        x = np.int64(touched[weighted(state, weights, 0, reached)])
        y = _opposite_end(state, x, ways, indptr, indices)
        u = _step_back(state, x, np.int64(ways[x]), near, indptr, indices)
        w = _step_back(state, y, np.int64(ways[y]), near, indptr, indices)
        if u in (w, y) or w == x:
            nodes[i] = -1
            codes[i] = -1
            continue
        row[0], row[1], row[2], row[3], row[4] = v, u, x, y, w
        for j in range(5):
            nodes[i, j] = row[j]
        codes[i] = induced_code(indptr, indices, table, row, 5, known)


@helper
def _weigh_edges(reached, touched, ways, indptr, indices, weights):
    total = np.int64(0)
    for i in range(reached):
        x = touched[i]
        total += ways[x] * _ways_beyond(x, ways, indptr, indices)
        weights[i] = total


@helper
def _ways_beyond(x, ways, indptr, indices):
    beyond = np.int64(0)
    for slot in range(indptr[x + 1] - 1, indptr[x] - 1, -1):
        if indices[slot] <= x:
            break
        beyond += ways[indices[slot]]
    return beyond


@helper
def _opposite_end(state, x, ways, indptr, indices):
    """A neighbour y above x, in proportion to the paths that lead to it."""
    goal = below(state, _ways_beyond(x, ways, indptr, indices))
    slot = indptr[x + 1]
    while goal >= 0:
        slot -= 1
        goal -= ways[indices[slot]]
    return np.int64(indices[slot])


@helper
def _step_back(state, x, paths, near, indptr, indices):
    """One of the `paths` vertices between x and the root."""
    goal = below(state, paths)
    slot = indptr[x] - 1
    while goal >= 0:
        slot += 1
        goal -= near[indices[slot]]
    return np.int64(indices[slot])
