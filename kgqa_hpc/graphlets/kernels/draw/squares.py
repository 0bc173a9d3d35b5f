"""Draws of copies that are two vertices and some of their common neighbours: square, banner, K2,3.

The pair is drawn in proportion to its copies from the codegrees of its smaller label, which are rebuilt
once per root, as in kernels.count.codegrees; O(sum of the neighbours' degrees) per root with draws, O(degree)
per draw. Ours.
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.kernels.draw.adjacency import induced_code
from kgqa_hpc.graphlets.kernels.draw.choices import begin_draw, below, other_neighbour, weighted
from kgqa_hpc.jit import helper, kernel


@kernel
def draw_squares(structure, size, known, key, first, picks, indptr, indices, table, nodes, codes):
    """Draw copies of square (5), banner (16) or K2,3 (20); arguments as in kernels.draw.rows.draw_rows."""
    n = indptr.shape[0] - 1
    state = np.zeros(1, np.uint64)
    row = np.zeros(5, np.int64)
    common = np.zeros(n, np.int32)
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
                forget(last, reached, touched, common, near, indptr, indices)
            reached = paths_above(v, 0, indptr, indices, common, near, touched)
            _weigh_pairs(structure, v, reached, touched, common, indptr, weights)
            last = v
        begin_draw(state, key, first + i)
        x = np.int64(touched[weighted(state, weights, 0, reached)])
        if _draw_on_pair(structure, state, v, x, common, near, indptr, indices, row):
            for j in range(5):
                nodes[i, j] = row[j] if j < size else -1
            codes[i] = induced_code(indptr, indices, table, row, size, known)
        else:
            nodes[i] = -1
            codes[i] = -1


@helper
def paths_above(v, lowest, indptr, indices, ways, near, touched):
    """ways[x]: common neighbours from `lowest` on of v and each x above v; near: these neighbours of v.

    Both are zero before. Returns how many x were reached; they are listed in `touched`.
    """
    reached = 0
    for slot in range(indptr[v], indptr[v + 1]):
        u = indices[slot]
        if u < lowest:
            continue
        near[u] = 1
        for other in range(indptr[u + 1] - 1, indptr[u] - 1, -1):
            x = indices[other]
            if x <= v:
                break
            if ways[x] == 0:
                touched[reached] = x
                reached += 1
            ways[x] += 1
    return reached


@helper
def forget(v, reached, touched, ways, near, indptr, indices):
    """Make `ways` and `near` zero again after `paths_above`."""
    for i in range(reached):
        ways[touched[i]] = 0
    for slot in range(indptr[v], indptr[v + 1]):
        near[indices[slot]] = 0


@helper
def _weigh_pairs(structure, v, reached, touched, common, indptr, weights):
    total = np.int64(0)
    for i in range(reached):
        x = touched[i]
        w = np.int64(common[x])
        if structure == 20:
            total += w * (w - 1) * (w - 2) // 6
        elif structure == 5:
            total += w * (w - 1) // 2
        else:
            total += w * (w - 1) // 2 * (indptr[v + 1] - indptr[v] + indptr[x + 1] - indptr[x] - 4)
        weights[i] = total


@helper
def _draw_on_pair(structure, state, v, x, common, near, indptr, indices, row):
    """Two or three common neighbours of v and x, and for a banner a tail at either of them."""
    w = np.int64(common[x])
    first = below(state, w)
    second = first
    while second == first:
        second = below(state, w)
    third = np.int64(-1)
    if structure == 20:
        third = first
        while third in (first, second):
            third = below(state, w)
    a = b = c = np.int64(-1)
    at = 0
    for slot in range(indptr[x], indptr[x + 1]):
        u = np.int64(indices[slot])
        if near[u]:
            if at == first:
                a = u
            elif at == second:
                b = u
            elif at == third:
                c = u
            at += 1
    if structure == 5:
        row[0], row[1], row[2], row[3] = v, a, x, b
        return True
    if structure == 20:
        row[0], row[1], row[2], row[3], row[4] = a, v, b, x, c
        return True
    tails_v = indptr[v + 1] - indptr[v] - 2
    tails_x = indptr[x + 1] - indptr[x] - 2
    tip, opposite = v, x
    if below(state, tails_v + tails_x) >= tails_v:
        tip, opposite = x, v
    row[0], row[1], row[2], row[3] = a, opposite, b, tip
    row[4] = other_neighbour(state, indptr, indices, tip, a, b, b)
    return row[4] != opposite
