"""Draws of copies that hold a 4-cycle, 5-cycle or 4-clique: what the draws of a root share is built once for them.

Square, banner, K2,3: two vertices and some of their common neighbours. The pair is drawn in proportion to its
copies from the codegrees of its smaller label, as in kernels.count_cycles; O(sum of the neighbours'
degrees) per root with draws, O(degree) per draw.

Pentagon, rooted at its smallest label as kernels.count_cycles counts it: the edge {x, y} opposite the root
is drawn in proportion to the pairs of paths that lead to it, then one path to each end; draws whose paths
meet are rejected. O(edges two steps away) per root with draws, O(degrees) per draw.

4-clique, alone, with a tail, or with a triangle on an edge: found in the link of its root, an edge {a, b} of the link
in proportion to the triangles on it, then the third corner; O(sum of the link's squared degrees) per root with draws.
All ours.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.choices import begin_draw, below, induced_code, other_neighbour, weighted
from kgqa_hpc.graphlets.kernels.triangles import find_slot
from kgqa_hpc.jit import helper, kernel


@kernel
def draw_cycles(structure, size, full_code, key, start, picks, indptr, indices, table, nodes, codes):
    """Draw copies of square (5), pentagon (15), banner (16) or K2,3 (20); arguments as in draw_rows."""
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
                _forget(last, reached, touched, ways, near, indptr, indices)
            if structure == 15:
                reached = _paths_above(v, v, indptr, indices, ways, near, touched)
                _weigh_edges(reached, touched, ways, indptr, indices, weights)
            else:
                reached = _paths_above(v, 0, indptr, indices, ways, near, touched)
                _weigh_pairs(structure, v, reached, touched, ways, indptr, weights)
            last = v
        begin_draw(state, key, start + i)
        x = np.int64(touched[weighted(state, weights, 0, reached)])
        if structure == 15:
            good = _draw_pentagon(state, v, x, ways, near, indptr, indices, row)
        else:
            good = _draw_on_pair(structure, state, v, x, ways, near, indptr, indices, row)
        if good:
            for j in range(5):
                nodes[i, j] = row[j] if j < size else -1
            if size == 5:  # a constant size lets the compiler unroll the loops
                codes[i] = induced_code(indptr, indices, table, row, 5, full_code)
            else:
                codes[i] = induced_code(indptr, indices, table, row, 4, full_code)
        else:
            nodes[i] = -1
            codes[i] = -1


@helper
def _paths_above(v, lowest, indptr, indices, ways, near, touched):
    """Count in ways[x] the common neighbours (from `lowest` on) of v and each vertex x above v; mark them in `near`.

    Both arrays must be zero at the call. Returns the number of vertices x reached, which are listed in `touched`.
    """
    reached = 0
    for slot in range(indptr[v], indptr[v + 1]):
        u = indices[slot]
        if u < lowest:
            continue
        near[u] = 1
        for other_slot in range(indptr[u + 1] - 1, indptr[u] - 1, -1):
            x = indices[other_slot]
            if x <= v:
                break
            if ways[x] == 0:
                touched[reached] = x
                reached += 1
            ways[x] += 1
    return reached


@helper
def _forget(v, reached, touched, ways, near, indptr, indices):
    """Make `ways` and `near` zero again after `_paths_above`."""
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
    """Draw two or three common neighbours of v and x, and for a banner a tail at either of them."""
    w = np.int64(common[x])
    chosen = below(state, w)
    second = chosen
    while second == chosen:
        second = below(state, w)
    third = np.int64(-1)
    if structure == 20:
        third = chosen
        while third in (chosen, second):
            third = below(state, w)
    a = b = c = np.int64(-1)
    at = 0
    for slot in range(indptr[x], indptr[x + 1]):
        u = np.int64(indices[slot])
        if near[u]:
            if at == chosen:
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


@helper
def _draw_pentagon(state, v, x, ways, near, indptr, indices, row):
    """Draw another end y, and a path from the root to each end; the paths must not meet."""
    y = _opposite_end(state, x, ways, indptr, indices)
    u = _step_back(state, x, np.int64(ways[x]), near, indptr, indices)
    w = _step_back(state, y, np.int64(ways[y]), near, indptr, indices)
    row[0], row[1], row[2], row[3], row[4] = v, u, x, y, w
    return u != w and u != y and w != x


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
    """Draw a neighbour y above x, in proportion to the paths that lead to it."""
    goal = below(state, _ways_beyond(x, ways, indptr, indices))
    slot = indptr[x + 1]
    while goal >= 0:
        slot -= 1
        goal -= ways[indices[slot]]
    return np.int64(indices[slot])


@helper
def _step_back(state, x, paths, near, indptr, indices):
    """Draw one of the `paths` vertices between x and the root."""
    goal = below(state, paths)
    slot = indptr[x] - 1
    while goal >= 0:
        slot += 1
        goal -= near[indices[slot]]
    return np.int64(indices[slot])


@kernel
def draw_cliques(
    structure, size, full_code, key, start, picks, indptr, indices, starts, corners, table, nodes, codes
):
    """Draw copies of 4-clique (8), with tail (23) or with triangle (26); arguments as in draw_rows."""
    n = indptr.shape[0] - 1
    state = np.zeros(1, np.uint64)
    row = np.zeros(5, np.int64)
    marks = np.zeros(n, np.uint8)
    heads = np.empty(1024, np.int64)  # for each link slot, the root's slot it starts from
    tails = np.empty(1024, np.int32)  # for each link slot, the vertex it leads to
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
    """The common corner number `goal` of two slots with ascending lists of corners; for goal -1 how many they share."""
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
