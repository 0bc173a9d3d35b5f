"""Draws of copies that hold a 4-clique: the clique itself, with a tail, with a triangle on an edge.

The clique is found in the link of its root: an edge {a, b} of the link in proportion to the triangles on
it, then the third corner. The link is rebuilt once per root with draws, O(sum of its degrees squared).
Ours.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.count.triangles import find_slot
from kgqa_hpc.graphlets.kernels.draw.choices import begin_draw, below, induced_code, other_neighbour, weighted
from kgqa_hpc.jit import helper, kernel


@kernel
def draw_cliques(
    structure, size, full_code, key, start, picks, indptr, indices, starts, corners, table, nodes, codes
):
    """Draw copies of 4-clique (8), with tail (23) or with triangle (26); arguments as in rows.draw_rows."""
    n = indptr.shape[0] - 1
    state = np.zeros(1, np.uint64)
    row = np.zeros(5, np.int64)
    marks = np.zeros(n, np.uint8)
    heads = np.empty(1024, np.int64)  # slot of the root that each link slot leaves from
    tails = np.empty(1024, np.int32)  # vertex it leads to
    weights = np.empty(1024, np.int64)
    last = np.int64(-1)
    reached = 0
    for at in range(picks.shape[0]):
        v = picks[at] >> 32
        i = picks[at] & 0xFFFFFFFF
        if v != last:
            last = v
            reached = starts[indptr[v + 1]] - starts[indptr[v]]
            if reached > heads.shape[0]:
                heads = np.empty(2 * reached, np.int64)
                tails = np.empty(2 * reached, np.int32)
                weights = np.empty(2 * reached, np.int64)
            _weigh_link(structure, v, indptr, indices, starts, corners, marks, heads, tails, weights)
        begin_draw(state, key, start + i)
        link = weighted(state, weights, 0, reached)
        slot = heads[link]
        a = np.int64(indices[slot])
        b = np.int64(tails[link])
        z = _third(state, v, slot, b, indptr, indices, starts, corners)
        row[0], row[1], row[2], row[3] = v, a, b, z
        if structure == 23:
            row[4] = other_neighbour(state, indptr, indices, v, a, b, z)
        elif structure == 26:
            row[0], row[1], row[2], row[3] = b, v, z, a
            row[4] = b
            while row[4] == b or row[4] == z:
                row[4] = corners[starts[slot] + below(state, starts[slot + 1] - starts[slot])]
        for j in range(5):
            nodes[i, j] = row[j] if j < size else -1
        codes[i] = induced_code(indptr, indices, table, row, size, full_code)


@helper
def _weigh_link(structure, v, indptr, indices, starts, corners, marks, heads, tails, weights):
    """Running weights of the link's slots (a, b): common neighbours of v, a and b, times choices on {v, a}."""
    total = np.int64(0)
    at = 0
    for slot in range(indptr[v], indptr[v + 1]):
        te = starts[slot + 1] - starts[slot]
        for i in range(starts[slot], starts[slot + 1]):
            marks[corners[i]] = 1
        for i in range(starts[slot], starts[slot + 1]):
            b = corners[i]
            shared = np.int64(0)
            third = find_slot(indptr, indices, v, b)
            for j in range(starts[third], starts[third + 1]):
                shared += marks[corners[j]]
            total += shared * (te - 2) if structure == 26 else shared
            heads[at] = slot
            tails[at] = b
            weights[at] = total
            at += 1
        for i in range(starts[slot], starts[slot + 1]):
            marks[corners[i]] = 0


@helper
def _third(state, v, slot, b, indptr, indices, starts, corners):
    """Uniform third corner of the triangles on {a, b} in the link: a corner in the lists of both slots."""
    opposite_slot = find_slot(indptr, indices, v, b)
    shared = _common_corner(slot, opposite_slot, -1, starts, corners)
    return _common_corner(slot, opposite_slot, below(state, shared), starts, corners)


@helper
def _common_corner(slot_a, slot_b, goal, starts, corners):
    """Common corner number `goal` of two slots, whose lists ascend; for goal -1 their number."""
    i = starts[slot_a]
    j = starts[slot_b]
    passed = np.int64(0)
    while i < starts[slot_a + 1] and j < starts[slot_b + 1]:
        if corners[i] == corners[j]:
            if passed == goal:
                return np.int64(corners[i])
            passed += 1
            j += 1
            i += 1
        elif corners[i] < corners[j]:
            i += 1
        else:
            j += 1
    return passed
