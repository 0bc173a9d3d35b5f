"""Draws of copies that are rooted in one row: stars, paths, forks, and shapes built on an edge's triangles.

A copy of structure S (a shape, not necessarily induced) is drawn exactly uniformly: its root in proportion to
the copies it roots, then a neighbour in proportion to the choices that follow, and so on; a draw whose nodes
coincide is rejected, which leaves the others equally likely. Draws come sorted by root, so that they read
nearby memory. (The sampler of paths is that of Jha, Seshadhri, Pinar 2015, the rest its natural extension;
ours.)
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.choices import (
    begin_draw,
    below,
    exact_code,
    first_above,
    other_neighbour,
    possible_code,
    weighted,
)
from kgqa_hpc.graphlets.kernels.triangles import find_slot
from kgqa_hpc.jit import helper, kernel

# Kinds of slot weights; te is the number of triangles on a slot's edge, its head the vertex it leads to.
TAILS = 0  # further neighbours of the head
TRIANGLES = 1  # te; its running sums are TriangleLists.starts
TAILED = 2  # te * (degree of the head - 2)
PAIRS = 3  # C(te, 2)
TRIPLES = 4  # C(te, 3)
BEFORE = 5  # neighbours of the head with a label below the root's
BELOW = 6  # as BEFORE, only for heads below the root

BLOCK = 64  # draws that are looked up in the table of adjacency together; few enough for the fastest cache


@kernel
def draw_rows(
    structure, size, drawn, full_code, key, start, picks, weights,
    indptr, indices, starts, corners, table, nodes, codes,
):  # fmt: skip
    """Draw copies of `structure` (1-7, 9-15, 17, 18, 20 or 22).

    Each of `picks`, int64, is root << 32 | i: draw number start + i of the stream goes to row i of nodes
    int32 (m, 5) and codes int16 (m,); code -1: rejected. `size` and `full_code` are the nodes and the
    adjacency code of the structure, `drawn` the code of the edges that the draw guarantees; `weights` int64
    (2m,) are the `running_weights` of the structure's kind (TAILS for 13), empty if it needs none.
    """
    state = np.zeros(1, np.uint64)
    row = np.zeros(5, np.int64)
    possible = np.empty(BLOCK, np.int64)
    for block in range(0, picks.shape[0], BLOCK):
        stop = min(block + BLOCK, picks.shape[0])
        for at in range(block, stop):
            v = picks[at] >> 32
            i = picks[at] & 0xFFFFFFFF
            begin_draw(state, key, start + i)
            good = _draw(structure, state, v, size, weights, indptr, indices, starts, corners, row)
            for j in range(5):
                nodes[i, j] = row[j] if good and j < size else -1
            codes[i] = drawn if good else -1
        for at in range(block, stop):
            possible[at - block] = possible_code(table, nodes[picks[at] & 0xFFFFFFFF], size)
        for at in range(block, stop):
            i = picks[at] & 0xFFFFFFFF
            if codes[i] >= 0 and possible[at - block] & full_code == full_code:
                codes[i] = exact_code(indptr, indices, nodes[i], size, drawn, possible[at - block])
            if codes[i] & full_code != full_code or codes[i] < 0:
                nodes[i] = -1
                codes[i] = -1


@helper
def _draw(structure, state, v, size, weights, indptr, indices, starts, corners, row):
    if structure == 1 or structure == 4 or structure == 11:
        return _star(state, v, size, indptr, indices, row)
    if structure == 3 or structure == 9 or structure == 10:
        return _tree(structure, state, v, weights, indptr, indices, row)
    if structure == 7 or structure == 17 or structure == 22:
        return _on_edge(structure, state, v, weights, indptr, indices, starts, corners, row)
    if structure == 5 or structure == 15 or structure == 20:
        return _open_cycle(structure, state, v, weights, indptr, indices, row)
    if structure == 18:
        return _butterfly(state, v, indptr, indices, starts, corners, row)
    return _on_triangle(structure, state, v, weights, indptr, indices, starts, corners, row)


@kernel
def running_weights(kind, start, last, indptr, indices, starts, cumulative):
    """Running sums of the slots' weights in each of the rows start, …, last - 1, into `cumulative` int64
    (2m,).
    """
    for v in range(start, last):
        total = np.int64(0)
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            te = starts[slot + 1] - starts[slot]
            if kind == TAILS:
                total += indptr[u + 1] - indptr[u] - 1
            elif kind == TAILED:
                total += te * (indptr[u + 1] - indptr[u] - 2)
            elif kind == PAIRS:
                total += te * (te - 1) // 2
            else:
                total += te * (te - 1) * (te - 2) // 6
            cumulative[slot] = total


@kernel
def running_weights_before(kind, start, last, indptr, indices, cumulative):
    """Running weights for BEFORE and BELOW; a cursor per vertex skips the neighbours that come first."""
    n = indptr.shape[0] - 1
    passed = np.empty(n, np.int32)
    for u in range(n):
        passed[u] = find_slot(indptr, indices, u, start) - indptr[u]
    for v in range(start, last):
        total = np.int64(0)
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            if kind == BEFORE or u < v:
                total += passed[u]
            passed[u] += 1
            cumulative[slot] = total


@kernel
def lower_neighbours(indptr, indices):
    """Neighbours of each vertex with a label below its own, int64 (n,)."""
    n = indptr.shape[0] - 1
    lower = np.empty(n, np.int64)
    for v in range(n):
        lower[v] = find_slot(indptr, indices, v, v) - indptr[v]
    return lower


@helper
def _slot(state, v, weights, indptr):
    """Draw a slot of v's row in proportion to its weight."""
    return indptr[v] + weighted(state, weights, indptr[v], indptr[v + 1] - indptr[v])


@helper
def _triangle_slot(state, v, indptr, starts):
    """Draw a slot of v's row in proportion to its triangles."""
    goal = starts[indptr[v]] + below(state, starts[indptr[v + 1]] - starts[indptr[v]])
    return first_above(starts, indptr[v] + 1, indptr[v + 1], goal) - 1


@helper
def _star(state, v, size, indptr, indices, row):
    centre = 1 if size == 3 else 0  # position of the centre in the shape's template
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
def _tree(structure, state, v, weights, indptr, indices, row):
    b = np.int64(indices[_slot(state, v, weights, indptr)])
    far = other_neighbour(state, indptr, indices, b, v, v, v)
    if structure == 9:
        # Both branches are drawn together and rejected together: redrawing one of them would favour light partners.
        c = np.int64(indices[_slot(state, v, weights, indptr)])
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
def _on_triangle(structure, state, v, weights, indptr, indices, starts, corners, row):
    """Triangle (2), paw (6), bull (12), lollipop (13), cricket (14): a triangle at v and its tails."""
    slot = _slot(state, v, weights, indptr) if structure == 12 else _triangle_slot(state, v, indptr, starts)
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
        x = np.int64(indices[_slot(state, v, weights, indptr)])
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
def _on_edge(structure, state, v, weights, indptr, indices, starts, corners, row):
    """Diamond (7), dart (17), book (22): two or three third corners of one edge, and a tail."""
    slot = _slot(state, v, weights, indptr)
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
def _butterfly(state, v, indptr, indices, starts, corners, row):
    row[0] = v
    for side in range(2):
        slot = _triangle_slot(state, v, indptr, starts)
        row[1 + 2 * side] = indices[slot]
        row[2 + 2 * side] = _corner(state, slot, starts, corners)
    return row[1] != row[3] and row[1] != row[4] and row[2] != row[3] and row[2] != row[4]


@helper
def _open_cycle(structure, state, v, weights, indptr, indices, row):
    """Square (5), pentagon (15), K2,3 (20) less the edges that close them (`structures.OPEN`).

    Two paths of two edges leave the root, which has the largest label of all, or for K2,3 of its side of
    three: with hubs in the middle of such a path there are far fewer of them than others.
    """
    slot = _slot(state, v, weights, indptr)
    u = np.int64(indices[slot])
    x = _one_before(state, v, slot, weights, indptr, indices)
    if structure == 5:
        w = np.int64(indices[indptr[v] + below(state, find_slot(indptr, indices, v, v) - indptr[v])])
        row[0], row[1], row[2], row[3] = v, u, x, w
        return u != w and x != w
    slot = _slot(state, v, weights, indptr)
    w = np.int64(indices[slot])
    y = _one_before(state, v, slot, weights, indptr, indices)
    if structure == 15:
        row[0], row[1], row[2], row[3], row[4] = v, u, x, y, w
    else:
        row[0], row[1], row[2], row[3], row[4] = x, u, v, w, y
    return u != w and x != w and y != u and x != y


@helper
def _one_before(state, v, slot, weights, indptr, indices):
    """Neighbour of the slot's head with a label below v; the slot's weight is their number."""
    u = indices[slot]
    before = weights[slot] - (weights[slot - 1] if slot > indptr[v] else 0)
    return np.int64(indices[indptr[u] + below(state, before)])
