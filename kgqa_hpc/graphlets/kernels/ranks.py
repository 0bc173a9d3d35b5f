"""Looking up the occurrences with given ranks: a second walk, only through prefixes that hold requested
ranks.

The trail of kernels.walk tells how many occurrences begin with each 3-prefix, so most prefixes
are skipped in one step. In the others only the requested shapes are enumerated: the fourth vertices x that
can begin them, and the fifth vertices only where a rank falls. Marks beyond those of kernels.walk: 16 =
adjacent to x, 32 = x or before it.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.walk import IN_SET, extend, extend_from_root, reach_root, unmark
from kgqa_hpc.jit import helper, kernel

NEVER = np.iinfo(np.int64).max
NEAR_X = 16
PASSED = 32


@kernel
def emit_units(
    roots, firsts, lasts, largest, indptr, indices, scratch, tables, trail, ranks, targets, ends, nodes, codes
):
    """Look up ranked occurrences in units of work, with the `trail` that `count_units` left there.

    ranks[targets[s]:ends[s]] int64 are the requested ranks of shape s, ascending, counted from the first of
    these units; each is written to the same row of nodes int32 (m, 5) and codes int64 (m,). `targets` is
    changed.
    """
    reached, cursor, marks, extension, near = scratch
    rows = (indptr, indices, cursor)
    three = tables[0]
    counts, after = np.zeros(30, np.int64), np.zeros(30, np.int64)
    prefix = np.zeros(5, np.int64)
    due = np.full(30, NEVER)
    for shape in range(1, 30):
        if targets[shape] < ends[shape]:
            due[shape] = ranks[targets[shape]]
    goal = (due, targets, ranks, ends, nodes, codes)
    step = 0
    for unit in range(roots.shape[0]):
        v = roots[unit]
        reach_root(v, indptr, indices, reached, cursor, near)
        prefix[0] = v
        n1 = extend_from_root(v, indptr, indices, cursor, marks, extension)
        for i in range(min(firsts[unit], n1)):
            marks[extension[i]] |= IN_SET
        for i in range(firsts[unit], min(lasts[unit], n1)):
            u = extension[i]
            prefix[1] = u
            marks[u] |= IN_SET
            n2 = extend(u, 2, n1, indptr, indices, cursor, marks, extension)
            for j in range(i + 1, n2):
                w = extension[j]
                prefix[2] = w
                side = np.int64(marks[w])
                shape = three[side]
                if due[shape] == counts[shape]:
                    _emit(shape, 3, 1 | (side << 1), prefix, goal)
                counts[shape] += 1
                marks[w] |= IN_SET
                if largest > 3:
                    if _any_due(counts, trail, step, due, after):
                        n3 = extend(w, 4, n2, indptr, indices, cursor, marks, extension)
                        _follow(j + 1, n3, side, rows, marks, extension, tables, prefix, counts, after, goal)
                        unmark(w, 4, indptr, indices, cursor, marks)
                    for shape in range(30):
                        counts[shape] = after[shape]
                    step += 1
            for j in range(i + 1, n2):
                marks[extension[j]] &= ~np.uint8(IN_SET)
            unmark(u, 2, indptr, indices, cursor, marks)
        for i in range(n1):
            marks[extension[i]] = 0


@helper
def _emit(shape, size, code, prefix, goal):
    """Write the occurrence with the next drawn rank of its shape, and go on to the following drawn rank."""
    due, targets, ranks, ends, nodes, codes = goal
    at = targets[shape]
    for i in range(size):
        nodes[at, i] = prefix[i]
    codes[at] = code
    targets[shape] = at + 1
    due[shape] = ranks[at + 1] if at + 1 < ends[shape] else NEVER


@helper
def _any_due(counts, trail, step, due, after):
    """Compute the counts `after` a 3-prefix; returns whether they exceed a rank that is due."""
    hit = False
    for shape in range(30):
        after[shape] = counts[shape] + trail[step, shape]
        hit |= due[shape] < after[shape]
    return hit


@helper
def _follow(begin, end, side, rows, marks, extension, tables, prefix, counts, after, goal):
    """Enumerate a 3-prefix: each x of E, the y after x in E, x's fresh neighbours; counts due shapes only."""
    indptr, indices, cursor = rows
    four, larger = tables[1], tables[5]
    due = goal[0]
    shapes_due = np.int64(0)
    for shape in range(30):
        shapes_due |= np.int64(due[shape] < after[shape]) << shape
    beyond = np.zeros(8, np.int64)  # vertices of E after x by pattern
    for i in range(begin, end):
        beyond[marks[extension[i]]] += 1
    beside, sums = np.zeros(8, np.int64), np.zeros(30, np.int64)
    for i in range(begin, end):
        x = extension[i]
        prefix[3] = x
        p = np.int64(marks[x])
        marks[x] |= PASSED
        beyond[p] -= 1
        code = 1 | (side << 1) | (p << 3)
        shape = four[side, p]
        if due[shape] == counts[shape]:
            _emit(shape, 4, code, prefix, goal)
        counts[shape] += 1
        if shapes_due & larger[side, p] == 0:
            continue
        for q in range(8):
            beside[q] = 0
        for slot in range(cursor[x], indptr[x + 1]):
            mark = marks[indices[slot]]
            if mark < IN_SET:
                beside[mark] += 1
        if _comes_due(shapes_due & larger[side, p], side, p, beside, beyond, tables, counts, due, sums):
            _list_fifths(i + 1, end, x, code, side, p, rows, marks, extension, tables, prefix, counts, goal)
    for i in range(begin, end):
        marks[extension[i]] &= ~np.uint8(PASSED)


@helper
def _comes_due(shapes_due, side, p, beside, beyond, tables, counts, due, sums):
    """Whether a requested rank falls among the fifth vertices of a 4-prefix; if none does, add them to
    `counts`.
    """
    _, _, fresh, apart, joined, _ = tables
    hit = False
    for shape in range(30):
        if (shapes_due >> shape) & 1:
            sums[shape] = counts[shape]
            if fresh[side, p] == shape:
                sums[shape] += beside[0]
            for q in range(1, 8):
                if joined[side, p, q] == shape:
                    sums[shape] += beside[q]
                if apart[side, p, q] == shape:
                    sums[shape] += beyond[q] - beside[q]
            hit |= due[shape] < sums[shape]
    if not hit:
        for shape in range(30):
            if (shapes_due >> shape) & 1:
                counts[shape] = sums[shape]
    return hit


@helper
def _list_fifths(begin, end, x, code, side, p, rows, marks, extension, tables, prefix, counts, goal):
    """Enumerate all fifth vertices of one 4-prefix, in the order of their ranks."""
    indptr, indices, cursor = rows
    _, _, fresh, apart, joined, _ = tables
    due = goal[0]
    for slot in range(cursor[x], indptr[x + 1]):
        marks[indices[slot]] |= NEAR_X
    for i in range(begin, end):
        y = extension[i]
        mark = np.int64(marks[y])
        q = mark & 7
        shape = joined[side, p, q] if mark & NEAR_X else apart[side, p, q]
        if due[shape] == counts[shape]:
            prefix[4] = y
            _emit(shape, 5, code | ((q | ((mark >> 1) & 8)) << 6), prefix, goal)
        counts[shape] += 1
    shape = fresh[side, p]
    for slot in range(cursor[x], indptr[x + 1]):
        y = indices[slot]
        if marks[y] == NEAR_X:
            if due[shape] == counts[shape]:
                prefix[4] = y
                _emit(shape, 5, code | (8 << 6), prefix, goal)
            counts[shape] += 1
    for slot in range(cursor[x], indptr[x + 1]):
        marks[indices[slot]] &= ~np.uint8(NEAR_X)
