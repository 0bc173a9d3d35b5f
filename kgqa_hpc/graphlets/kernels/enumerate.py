"""ESU to the third vertex, everything beyond in bulk; occurrences addressed by rank.

ESU (Wernicke 2006) visits every connected vertex set once: from a root v it grows sets by vertices above v
that are new to the neighbourhood. We stop at three vertices (v, u, w). With the extension set E and, for
each x in E, its *pattern* (which of v, u, w it is adjacent to: bits 1, 2, 4), the fourth and fifth vertices
follow in bulk: one scan over the neighbours of every x gives A[p][q], the adjacent pairs of patterns p and
q in E, and X[p], the fifth vertices that hang on x alone; all other pairs are non-adjacent. The shapes come
from tables. This bulk step is ours.

The occurrences of a shape are numbered in the order of (root, u, w, x, y). That order depends on the graph
alone, so drawing ranks and looking up who has them gives the same sample however the roots are cut into
blocks.

Vertices carry a byte of marks: 1, 2, 4 = adjacent to v, u, w; 8 = in the set or done with; while a prefix
is refined, 16 = adjacent to x and 32 = x or before it. A cursor per vertex skips neighbours below the root;
roots must ascend.
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.kernels.jit import helper, kernel

NEVER = np.iinfo(np.int64).max
IN_SET = 8
NEAR_X = 16
PASSED = 32


@helper
def _advance(cursor, indptr, indices, vertex, root):
    """First slot of `vertex` whose neighbour lies above the root."""
    slot = cursor[vertex]
    end = indptr[vertex + 1]
    while slot < end and indices[slot] <= root:
        slot += 1
    cursor[vertex] = slot
    return slot


@helper
def _extend_from_root(v, indptr, indices, cursor, marks, extension):
    size = 0
    for slot in range(_advance(cursor, indptr, indices, v, v), indptr[v + 1]):
        y = indices[slot]
        extension[size] = y
        marks[y] = 1
        size += 1
    return size


@helper
def _extend(vertex, bit, root, size, indptr, indices, cursor, marks, extension):
    """Append the neighbours of `vertex` that are new to the neighbourhood; give all its neighbours its
    bit.
    """
    for slot in range(_advance(cursor, indptr, indices, vertex, root), indptr[vertex + 1]):
        y = indices[slot]
        if marks[y] == 0:
            extension[size] = y
            size += 1
        marks[y] |= bit
    return size


@helper
def _unmark(vertex, bit, indptr, indices, cursor, marks):
    for slot in range(cursor[vertex], indptr[vertex + 1]):
        marks[indices[slot]] &= ~np.uint8(bit)


@helper
def _scan_extension(begin, end, root, five, indptr, indices, cursor, marks, extension, members, meetings):
    """members[p]: vertices of E with pattern p; meetings[16 p + q]: slots from pattern p to pattern q (0:
    fresh).
    """
    for p in range(8):
        members[p] = 0
    for i in range(128):
        meetings[i] = 0
    for i in range(begin, end):
        x = extension[i]
        pattern = np.int64(marks[x])
        members[pattern] += 1
        if five:
            row = pattern << 4
            for slot in range(_advance(cursor, indptr, indices, x, root), indptr[x + 1]):
                meetings[row | marks[indices[slot]]] += 1


@helper
def _add_bulk(pattern, five, members, meetings, four, fresh, apart, joined, counts):
    """Add the 4- and 5-node shapes of one 3-prefix to counts."""
    for p in range(1, 8):
        if members[p] == 0:
            continue
        counts[four[pattern, p]] += members[p]
        if not five:
            continue
        counts[fresh[pattern, p]] += meetings[p << 4]
        pairs = meetings[(p << 4) | p] >> 1
        counts[joined[pattern, p, p]] += pairs
        counts[apart[pattern, p, p]] += members[p] * (members[p] - 1) // 2 - pairs
        for q in range(p + 1, 8):
            if members[q] == 0:
                continue
            pairs = meetings[(p << 4) | q]
            counts[joined[pattern, p, q]] += pairs
            counts[apart[pattern, p, q]] += members[p] * members[q] - pairs


@kernel
def count_units(roots, firsts, lasts, largest, indptr, indices, scratch, tables, trail):
    """Induced occurrences in the given units of work; int64 (30,) by shape id.

    Unit i is root roots[i] with its second vertices of extension positions firsts[i] <= position <
    lasts[i]; roots ascend. `largest` (3, 4 or 5) bounds the nodes of a shape. `scratch` = (cursor int64
    (n,) at or before each vertex's first neighbour above the first root, marks uint8 (n,) zero, extension
    int32 (n + 1,)). Beyond three nodes, `trail` int64 (3-prefixes of these units, 30) takes down how many
    larger occurrences begin with each.
    """
    cursor, marks, extension = scratch
    three, four, fresh, apart, joined = tables
    members = np.zeros(8, np.int64)
    meetings = np.zeros(128, np.int64)
    counts = np.zeros(30, np.int64)
    step = 0
    for unit in range(roots.shape[0]):
        v = roots[unit]
        n1 = _extend_from_root(v, indptr, indices, cursor, marks, extension)
        for i in range(min(firsts[unit], n1)):
            marks[extension[i]] |= IN_SET
        for i in range(firsts[unit], min(lasts[unit], n1)):
            u = extension[i]
            marks[u] |= IN_SET
            n2 = _extend(u, 2, v, n1, indptr, indices, cursor, marks, extension)
            for j in range(i + 1, n2):
                w = extension[j]
                pattern = marks[w] & 3
                counts[three[pattern]] += 1
                marks[w] |= IN_SET
                if largest > 3:
                    n3 = _extend(w, 4, v, n2, indptr, indices, cursor, marks, extension)
                    _scan_extension(
                        j + 1, n3, v, largest == 5, indptr, indices, cursor, marks, extension,
                        members, meetings,
                    )  # fmt: skip
                    begun = trail[step]
                    begun[:] = 0
                    _add_bulk(pattern, largest == 5, members, meetings, four, fresh, apart, joined, begun)
                    counts += begun
                    step += 1
                    _unmark(w, 4, indptr, indices, cursor, marks)
            for j in range(i + 1, n2):
                marks[extension[j]] &= ~np.uint8(IN_SET)
            _unmark(u, 2, indptr, indices, cursor, marks)
        for i in range(n1):
            marks[extension[i]] = 0
    return counts


@helper
def _emit(shape, size, code, prefix, due, targets, ranks, ends, out_nodes, out_codes):
    """Write the occurrence that has the due rank of its shape, and make the next rank due."""
    at = targets[shape]
    for i in range(size):
        out_nodes[at, i] = prefix[i]
    out_codes[at] = code
    targets[shape] = at + 1
    due[shape] = ranks[at + 1] if at + 1 < ends[shape] else NEVER


@helper
def _any_due(counts, delta, due):
    hit = False
    for shape in range(30):
        hit |= due[shape] < counts[shape] + delta[shape]
    return hit


@kernel
def emit_units(
    roots,
    firsts,
    lasts,
    largest,
    indptr,
    indices,
    scratch,
    tables,
    trail,
    ranks,
    targets,
    ends,
    out_nodes,
    out_codes,
):
    """Look up ranked occurrences in units of work, with the `trail` that `count_units` left there.

    ranks[targets[s]:ends[s]] int64 are the wanted ranks of shape s, ascending, counted from the first of
    these units; each is written to the same row of out_nodes int32 (m, 5) and out_codes int64 (m,).
    `targets` is used up.
    """
    cursor, marks, extension = scratch
    three = tables[0]
    members = np.zeros(8, np.int64)
    counts = np.zeros(30, np.int64)
    delta = np.zeros(30, np.int64)
    prefix = np.zeros(5, np.int64)
    due = np.full(30, NEVER)
    for shape in range(1, 30):
        if targets[shape] < ends[shape]:
            due[shape] = ranks[targets[shape]]
    goal = (due, targets, ranks, ends, out_nodes, out_codes)
    step = 0
    for unit in range(roots.shape[0]):
        v = roots[unit]
        prefix[0] = v
        n1 = _extend_from_root(v, indptr, indices, cursor, marks, extension)
        for i in range(min(firsts[unit], n1)):
            marks[extension[i]] |= IN_SET
        for i in range(firsts[unit], min(lasts[unit], n1)):
            u = extension[i]
            prefix[1] = u
            marks[u] |= IN_SET
            n2 = _extend(u, 2, v, n1, indptr, indices, cursor, marks, extension)
            for j in range(i + 1, n2):
                w = extension[j]
                prefix[2] = w
                pattern = np.int64(marks[w] & 3)
                shape = three[pattern]
                if due[shape] == counts[shape]:
                    _emit(shape, 3, 1 | (pattern << 1), prefix, *goal)
                counts[shape] += 1
                marks[w] |= IN_SET
                if largest > 3:
                    begun = trail[step]
                    step += 1
                    if _any_due(counts, begun, due):
                        n3 = _extend(w, 4, v, n2, indptr, indices, cursor, marks, extension)
                        _count_members(j + 1, n3, v, indptr, indices, cursor, marks, extension, members)
                        _refine(
                            j + 1, n3, pattern, largest == 5, indptr, indices, cursor, marks, extension,
                            tables, members, prefix, counts, delta, goal,
                        )  # fmt: skip
                        _unmark(w, 4, indptr, indices, cursor, marks)
                    else:
                        counts += begun
            for j in range(i + 1, n2):
                marks[extension[j]] &= ~np.uint8(IN_SET)
            _unmark(u, 2, indptr, indices, cursor, marks)
        for i in range(n1):
            marks[extension[i]] = 0


@helper
def _count_members(begin, end, root, indptr, indices, cursor, marks, extension, members):
    """members[p]: vertices of E with pattern p; their cursors are brought beyond the root."""
    members[:] = 0
    for i in range(begin, end):
        x = extension[i]
        members[marks[x]] += 1
        _advance(cursor, indptr, indices, x, root)


@helper
def _refine(
    begin,
    end,
    pattern,
    five,
    indptr,
    indices,
    cursor,
    marks,
    extension,
    tables,
    members,
    prefix,
    counts,
    delta,
    goal,
):
    """One 3-prefix vertex by vertex: x ascending in E; for each x the y after it in E, then its fresh
    neighbours.

    `members` is used up: it holds, for each pattern, the vertices of E after x.
    """
    _, four, fresh, apart, joined = tables
    due = goal[0]
    beside = np.zeros(8, np.int64)
    for i in range(begin, end):
        x = extension[i]
        prefix[3] = x
        p = np.int64(marks[x])
        members[p] -= 1
        code = 1 | (pattern << 1) | (p << 3)
        shape = four[pattern, p]
        if due[shape] == counts[shape]:
            _emit(shape, 4, code, prefix, *goal)
        counts[shape] += 1
        if not five:
            continue
        marks[x] |= PASSED
        beside[:] = 0
        for slot in range(cursor[x], indptr[x + 1]):
            mark = marks[indices[slot]]
            if mark < IN_SET:
                beside[mark] += 1
        delta[:] = 0
        delta[fresh[pattern, p]] += beside[0]
        for q in range(1, 8):
            delta[joined[pattern, p, q]] += beside[q]
            delta[apart[pattern, p, q]] += members[q] - beside[q]
        if _any_due(counts, delta, due):
            _list_fifths(
                i + 1,
                end,
                x,
                code,
                pattern,
                p,
                indptr,
                indices,
                cursor,
                marks,
                extension,
                tables,
                prefix,
                counts,
                goal,
            )
        else:
            counts += delta
    for i in range(begin, end):
        marks[extension[i]] &= ~np.uint8(PASSED)


@helper
def _list_fifths(
    begin, end, x, code, pattern, p, indptr, indices, cursor, marks, extension, tables, prefix, counts, goal
):
    """All fifth vertices of one 4-prefix, in the order of their ranks."""
    _, _, fresh, apart, joined = tables
    due = goal[0]
    for slot in range(cursor[x], indptr[x + 1]):
        marks[indices[slot]] |= NEAR_X
    for i in range(begin, end):
        y = extension[i]
        mark = np.int64(marks[y])
        q = mark & 7
        shape = joined[pattern, p, q] if mark & NEAR_X else apart[pattern, p, q]
        if due[shape] == counts[shape]:
            prefix[4] = y
            _emit(shape, 5, code | ((q | ((mark >> 1) & 8)) << 6), prefix, *goal)
        counts[shape] += 1
    shape = fresh[pattern, p]
    for slot in range(cursor[x], indptr[x + 1]):
        y = indices[slot]
        if marks[y] == NEAR_X:
            if due[shape] == counts[shape]:
                prefix[4] = y
                _emit(shape, 5, code | (8 << 6), prefix, *goal)
            counts[shape] += 1
    for slot in range(cursor[x], indptr[x + 1]):
        marks[indices[slot]] &= ~np.uint8(NEAR_X)
