"""Draws of copies that are rooted in one row: stars, paths, forks and everything built on triangles of an
edge.

A copy of structure S (a shape, not necessarily induced) is drawn exactly uniformly: its root in proportion
to the copies it roots, then a neighbour in proportion to what hangs on it, and so on; a draw whose nodes
coincide is rejected, which leaves the others equally likely. Draws come sorted by root, so a root's weights
are built once. (The sampler of paths is that of Jha, Seshadhri, Pinar 2015, the rest its natural extension;
ours.)
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.kernels.jit import helper, kernel
from kgqa_hpc.graphlets.kernels.random import begin_draw, below, induced_code, other_neighbour, weighted

TAILS = 0  # weight of a slot: further neighbours of its head
TRIANGLES = 1  # te
TAILED = 2  # te * (degree of the head - 2)
PAIRS = 3  # C(te, 2)
TRIPLES = 4  # C(te, 3)


@kernel
def draw_rows(
    structure, size, known, kind, key, numbers, roots, indptr, indices, starts, corners, nodes, codes
):
    """Draw copies of `structure` (1, 2, 3, 4, 6, 7, 9-14, 17, 18 or 22), one for each of `numbers`, rooted
    at `roots`.

    Row i of nodes int32 (m, 5) and codes int64 (m,) is the draw of stream numbers[i]; code -1: rejected.
    `size` and `known` are the nodes and the adjacency code of the structure, `kind` the weight of its
    slots; roots ascend.
    """
    state = np.zeros(1, np.uint64)
    row = np.zeros(5, np.int64)
    widest = 0
    for i in range(roots.shape[0]):
        widest = max(widest, indptr[roots[i] + 1] - indptr[roots[i]])
    weights = np.zeros(widest + 1, np.int64)
    tails = np.zeros(widest + 1, np.int64)
    last = np.int64(-1)
    for i in range(numbers.shape[0]):
        v = np.int64(roots[i])
        degree = indptr[v + 1] - indptr[v]
        if v != last:
            last = v
            _weigh(kind, v, indptr, indices, starts, weights)
            if structure == 13:
                _weigh(TAILS, v, indptr, indices, starts, tails)
        begin_draw(state, key, numbers[i])
        if structure == 1 or structure == 4 or structure == 11:
            good = _star(state, v, size, indptr, indices, row)
        elif structure == 3 or structure == 9 or structure == 10:
            good = _tree(structure, state, v, degree, weights, indptr, indices, row)
        elif structure == 7 or structure == 17 or structure == 22:
            good = _on_edge(structure, state, v, degree, weights, indptr, indices, starts, corners, row)
        elif structure == 18:
            good = _butterfly(state, v, degree, weights, indptr, indices, starts, corners, row)
        else:
            good = _on_triangle(
                structure, state, v, degree, weights, tails, indptr, indices, starts, corners, row
            )
        if good:
            for j in range(size):
                nodes[i, j] = row[j]
            codes[i] = induced_code(indptr, indices, row, size, known)
        else:
            codes[i] = -1


@helper
def _weigh(kind, v, indptr, indices, starts, cumulative):
    """Running sums of the slots' weights."""
    total = np.int64(0)
    for slot in range(indptr[v], indptr[v + 1]):
        u = indices[slot]
        degree = indptr[u + 1] - indptr[u]
        te = starts[slot + 1] - starts[slot]
        if kind == TAILS:
            total += degree - 1
        elif kind == TRIANGLES:
            total += te
        elif kind == TAILED:
            total += te * (degree - 2)
        elif kind == PAIRS:
            total += te * (te - 1) // 2
        else:
            total += te * (te - 1) * (te - 2) // 6
        cumulative[slot - indptr[v]] = total


@helper
def _star(state, v, size, indptr, indices, row):
    centre = 1 if size == 3 else 0  # of the template
    row[centre] = v
    for j in range(size):
        if j == centre:
            continue
        fresh = False
        while not fresh:
            row[j] = indices[indptr[v] + below(state, indptr[v + 1] - indptr[v])]
            fresh = True
            for i in range(j):
                fresh &= i == centre or row[i] != row[j]
    return True


@helper
def _tree(structure, state, v, degree, weights, indptr, indices, row):
    b = np.int64(indices[indptr[v] + weighted(state, weights, degree)])
    far = other_neighbour(state, indptr, indices, b, v, v, v)
    if structure == 9:
        # Both branches at once, and the whole is rejected: redrawing one of them would favour light partners.
        c = np.int64(indices[indptr[v] + weighted(state, weights, degree)])
        if b == c:
            return False
        end = other_neighbour(state, indptr, indices, c, v, v, v)
        row[0], row[1], row[2], row[3], row[4] = far, b, v, c, end
        return far != c and end != b and far != end
    x = other_neighbour(state, indptr, indices, v, b, b, b)
    if structure == 3:
        row[0], row[1], row[2], row[3] = x, v, b, far
        return x != far
    y = other_neighbour(state, indptr, indices, v, b, x, x)
    row[0], row[1], row[2], row[3], row[4] = v, x, y, b, far
    return far != x and far != y


@helper
def _corner(state, slot, starts, corners):
    return np.int64(corners[starts[slot] + below(state, starts[slot + 1] - starts[slot])])


@helper
def _on_triangle(structure, state, v, degree, weights, tails, indptr, indices, starts, corners, row):
    """Triangle (2), paw (6), bull (12), lollipop (13), cricket (14): a triangle at v and its tails."""
    slot = indptr[v] + weighted(state, weights, degree)
    b = np.int64(indices[slot])
    c = _corner(state, slot, starts, corners)
    if structure == 2:
        row[0], row[1], row[2] = v, b, c
        return True
    if structure == 6:
        row[0], row[1], row[2] = b, c, v
        row[3] = other_neighbour(state, indptr, indices, v, b, c, c)
        return True
    if structure == 12:
        row[0], row[1], row[2] = c, v, b
        row[3] = other_neighbour(state, indptr, indices, v, b, c, c)
        row[4] = other_neighbour(state, indptr, indices, b, v, c, c)
        return row[3] != row[4]
    if structure == 13:
        x = np.int64(indices[indptr[v] + weighted(state, tails, degree)])
        end = other_neighbour(state, indptr, indices, x, v, v, v)
        row[0], row[1], row[2], row[3], row[4] = b, c, v, x, end
        return x != b and x != c and end != b and end != c
    row[0], row[1], row[2] = v, b, c
    row[3] = other_neighbour(state, indptr, indices, v, b, c, c)
    row[4] = row[3]
    while row[4] == row[3]:
        row[4] = other_neighbour(state, indptr, indices, v, b, c, c)
    return True


@helper
def _on_edge(structure, state, v, degree, weights, indptr, indices, starts, corners, row):
    """Diamond (7), dart (17), book (22): two or three third corners of one edge, and a tail."""
    slot = indptr[v] + weighted(state, weights, degree)
    u = np.int64(indices[slot])
    a = _corner(state, slot, starts, corners)
    b = a
    while b == a:
        b = _corner(state, slot, starts, corners)
    if structure == 7:
        row[0], row[1], row[2], row[3] = v, a, u, b
        return True
    row[0], row[1], row[2], row[3] = a, u, b, v
    if structure == 17:
        row[4] = other_neighbour(state, indptr, indices, v, u, a, b)
        return True
    row[4] = a
    while row[4] == a or row[4] == b:
        row[4] = _corner(state, slot, starts, corners)
    return True


@helper
def _butterfly(state, v, degree, weights, indptr, indices, starts, corners, row):
    row[0] = v
    for side in range(2):
        slot = indptr[v] + weighted(state, weights, degree)
        row[1 + 2 * side] = indices[slot]
        row[2 + 2 * side] = _corner(state, slot, starts, corners)
    return row[1] != row[3] and row[1] != row[4] and row[2] != row[3] and row[2] != row[4]
