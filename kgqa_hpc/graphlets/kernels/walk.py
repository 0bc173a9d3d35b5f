"""The walk over all occurrences (ESU, Wernicke 2006), and how many of each shape begin with each 3-prefix.

ESU visits every connected vertex set once: from a root v it grows sets by vertices above v that are new to
the neighbourhood. We stop at three vertices, the *3-prefix* (v, u, w); what follows is counted in bulk. The
occurrences of a shape are numbered in the order of (root, u, w, x, y). That order depends on the graph
alone, so drawing ranks and looking up their occurrences gives the same sample however the roots are cut into
blocks. The first functions are those that the walk here and the one of kernels.ranks share.

Vertices carry a byte of marks: 1, 2, 4 = adjacent to v, u, w; 8 = in the set or finished. A cursor per vertex
is its first slot whose neighbour lies above the root; roots must ascend. Finished vertices and vertices not
above the root are not counted.

Given (v, u, w), let E be the extension set: the fourth vertices. The *pattern* of x in E says which of v, u,
w it is adjacent to (bits 1, 2, 4). Shapes follow from three kinds of numbers by tables: the members of E with
pattern p; the adjacent pairs of patterns p and q in E (all others are not adjacent); and the fresh fifth
vertices, which are adjacent to x in E but to none of v, u, w.

None of these numbers needs a loop over E. Let the *class* of a vertex be its pattern without w. Each vertex x
has a row near[x]: its neighbours by class, kept up to date while v and u change and while vertices are
finished. `pairs` and `members` hold the same for all of E before w. Then w changes the patterns of its own
neighbours only: their rows and the triangles at w give the changes of `pairs`. So a 3-prefix costs the degree
of w and its triangles, about as much as there are paths of four vertices in the graph. Counting by patterns,
and by rows, is ours.
"""

import numpy as np

from kgqa_hpc.jit import helper, kernel

IN_SET = 8


@helper
def reach_root(root, indptr, indices, reached, cursor, near):
    """Move all cursors from the root reached[0] to above `root`, and keep near[:, 0], the neighbours above it."""
    for passed in range(reached[0] + 1, root + 1):
        for slot in range(indptr[passed], indptr[passed + 1]):
            cursor[indices[slot]] += 1
            near[indices[slot], 0] -= 1
    reached[0] = max(reached[0], root)


@helper
def extend_from_root(v, indptr, indices, cursor, marks, extension):
    """Write the neighbours above the root into the extension, give them bit 1; returns their number."""
    size = 0
    for slot in range(cursor[v], indptr[v + 1]):
        y = indices[slot]
        extension[size] = y
        marks[y] = 1
        size += 1
    return size


@helper
def extend(vertex, bit, size, indptr, indices, cursor, marks, extension):
    """Append the neighbours of `vertex` that are new to the extension; set the bit of all its neighbours."""
    for slot in range(cursor[vertex], indptr[vertex + 1]):
        y = indices[slot]
        if marks[y] == 0:
            extension[size] = y
            size += 1
        marks[y] |= bit
    return size


@helper
def unmark(vertex, bit, indptr, indices, cursor, marks):
    """Remove the bit `bit` from the neighbours of `vertex`."""
    for slot in range(cursor[vertex], indptr[vertex + 1]):
        marks[indices[slot]] &= ~np.uint8(bit)


NONE = -1  # instead of a class: the vertex is already counted


@kernel
def count_triples(roots, firsts, lasts, indptr, indices, scratch, tables):
    """Number of 3-prefixes of the units of work (as in `count_units`) by their own shape id, int64 (30,)."""
    reached, cursor, marks, extension, near = scratch
    three = tables[0]
    counts = np.zeros(30, np.int64)
    for unit in range(roots.shape[0]):
        v = roots[unit]
        reach_root(v, indptr, indices, reached, cursor, near)
        n1 = extend_from_root(v, indptr, indices, cursor, marks, extension)
        for i in range(firsts[unit], min(lasts[unit], n1)):
            u = extension[i]
            n2 = extend(u, 2, n1, indptr, indices, cursor, marks, extension)
            for j in range(i + 1, n2):
                counts[three[marks[extension[j]]]] += 1
            unmark(u, 2, indptr, indices, cursor, marks)
        for i in range(n1):
            marks[extension[i]] = 0
    return counts


@kernel
def count_units(roots, firsts, lasts, five, indptr, indices, starts, corners, scratch, tables, trail):
    """Induced occurrences of four nodes (`five`: also of five) in the units of work, int64 (30,) by shape id.

    Unit i is root roots[i] with its second vertices of extension positions firsts[i] <= position <
    lasts[i]; roots ascend. `starts` and `corners` list the triangles (kernels.triangles), `scratch` is
    lent by units.Scratches. `trail` int64 (3-prefixes of these units, 30) gets how many larger occurrences
    begin with each.
    """
    reached, cursor, marks, extension, near = scratch
    rows = (indptr, indices, cursor)
    members, pairs = np.zeros(4, np.int64), np.zeros((4, 4), np.int64)
    size, around = np.zeros(4, np.int64), np.zeros((4, 4), np.int64)
    inside = np.zeros((4, 4), np.int64)
    patterns = (np.zeros(8, np.int64), np.zeros((8, 8), np.int64))
    present, begun = np.zeros(8, np.int64), np.zeros(30, np.int64)
    counts = np.zeros(30, np.int64)
    step = 0
    for unit in range(roots.shape[0]):
        v = roots[unit]
        reach_root(v, indptr, indices, reached, cursor, near)
        n1 = extend_from_root(v, indptr, indices, cursor, marks, extension)
        lowest = min(firsts[unit], n1)
        for i in range(n1):
            if i < lowest:
                marks[extension[i]] |= IN_SET
                _change(extension[i], 0, NONE, rows, near)
            else:
                _change(extension[i], 0, 1, rows, near)
        for i in range(lowest, min(lasts[unit], n1)):
            u = extension[i]
            marks[u] |= IN_SET
            _change(u, 1, NONE, rows, near)
            n2 = extend(u, 2, n1, indptr, indices, cursor, marks, extension)
            _join_second(u, rows, marks, near)
            _sum_extension(i + 1, n2, extension, marks, near, members, pairs)
            for j in range(i + 1, n2):
                w = extension[j]
                side = np.int64(marks[w])
                marks[w] |= IN_SET
                _take_out(w, side, near, members, pairs)
                _move(w, side, rows, marks, near, size, around)
                _count_inside(w, rows, starts, corners, marks, inside)
                _split_by_third(members, pairs, size, around, inside, patterns)
                for shape in range(30):
                    begun[shape] = 0
                _add_shapes(side, five, patterns, present, tables, begun)
                for shape in range(30):
                    trail[step, shape] = begun[shape]
                    counts[shape] += begun[shape]
                step += 1
            _undo_second(i + 1, n2, extension, rows, marks, near)
            unmark(u, 2, indptr, indices, cursor, marks)
        for i in range(n1):
            _forget(extension[i], rows, near)
            marks[extension[i]] = 0
    return counts


@helper
def _change(vertex, old, new, rows, near):
    """Move the vertex, in the rows of its neighbours, from class `old` to class `new` (or none)."""
    indptr, indices, cursor = rows
    for slot in range(cursor[vertex], indptr[vertex + 1]):
        near[indices[slot], old] -= 1
        if new != NONE:
            near[indices[slot], new] += 1


@helper
def _join_second(u, rows, marks, near):
    """Move the neighbours of u, already marked with its bit, to their new class."""
    indptr, indices, cursor = rows
    for slot in range(cursor[u], indptr[u + 1]):
        y = indices[slot]
        mark = np.int64(marks[y])
        if mark < IN_SET:
            _change(y, mark - 2, mark, rows, near)


@helper
def _sum_extension(begin, end, extension, marks, near, members, pairs):
    """members[a]: vertices of E of class a; pairs[a, b]: slots from them to vertices of class b (0: fresh ones)."""
    for a in range(4):
        members[a] = 0
        for b in range(4):
            pairs[a, b] = 0
    for i in range(begin, end):
        x = extension[i]
        a = marks[x]
        members[a] += 1
        for b in range(4):
            pairs[a, b] += near[x, b]


@helper
def _take_out(w, side, near, members, pairs):
    """Remove w, of class `side`, from the sums over E."""
    members[side] -= 1
    pairs[side, 0] -= near[w, 0]
    for b in range(1, 4):
        pairs[side, b] -= near[w, b]
        pairs[b, side] -= near[w, b]


@helper
def _move(w, side, rows, marks, near, size, around):
    """Count w's neighbours by class in `size`, and their slots from class to class in `around`.

    w is finished, so the rows of its neighbours lose it, in class `side`.
    """
    indptr, indices, cursor = rows
    for c in range(4):
        size[c] = 0
        for b in range(4):
            around[c, b] = 0
    for slot in range(cursor[w], indptr[w + 1]):
        x = indices[slot]
        near[x, side] -= 1
        a = np.int64(marks[x])
        if a < IN_SET:
            size[a] += 1
            for b in range(4):
                around[a, b] += near[x, b]


@helper
def _count_inside(w, rows, starts, corners, marks, inside):
    """Fill inside[a, b]: adjacent pairs of w's neighbours, the smaller label of class a, the larger of class
    b.
    """
    indptr, indices, cursor = rows
    for c in range(4):
        for b in range(4):
            inside[c, b] = 0
    begin, last = cursor[w], indptr[w + 1]
    if starts[begin] == starts[last]:
        return
    for slot in range(begin, last):
        x = indices[slot]
        a = np.int64(marks[x])
        if a >= IN_SET:
            continue
        for i in range(starts[slot + 1] - 1, starts[slot] - 1, -1):
            y = corners[i]
            if y < x:
                break
            if marks[y] < IN_SET:
                inside[a, np.int64(marks[y])] += 1


@helper
def _split_by_third(members, pairs, size, around, inside, patterns):
    """Divide the numbers by class (`members`, `pairs`) by whether a vertex is a neighbour of w: numbers by pattern.

    `count[p]`: vertices of E with pattern p; `slots[p, q]`: slots from them to vertices of pattern q (0: fresh ones).
    """
    count, slots = patterns
    for a in range(4):
        count[a] = members[a] - size[a]
        count[a | 4] = size[a]
        for b in range(4):
            both = inside[a, b] + inside[b, a]
            around[a, b] -= both
            slots[a | 4, b | 4] = both
    for a in range(4):
        slots[a | 4, 0] = around[a, 0]
    for a in range(1, 4):
        for b in range(4):
            both = slots[a | 4, b | 4]
            slots[a, b] = pairs[a, b] - both - around[a, b] - around[b, a]
            slots[a, b | 4] = around[b, a]


@helper
def _add_shapes(side, five, patterns, present, tables, counts):
    """Add the shapes of four and five nodes that begin with a 3-prefix whose w has the given class."""
    _, four, fresh, apart, joined, _ = tables
    count, slots = patterns
    size = 0
    for p in range(1, 8):
        if count[p] > 0:
            counts[four[side, p]] += count[p]
            present[size] = p
            size += 1
    if not five:
        return
    for i in range(size):
        p = present[i]
        counts[fresh[side, p]] += slots[p, 0]
        pairs = slots[p, p] >> 1
        counts[joined[side, p, p]] += pairs
        counts[apart[side, p, p]] += count[p] * (count[p] - 1) // 2 - pairs
        for j in range(i + 1, size):
            q = present[j]
            pairs = slots[p, q]
            counts[joined[side, p, q]] += pairs
            counts[apart[side, p, q]] += count[p] * count[q] - pairs


@helper
def _undo_second(begin, end, extension, rows, marks, near):
    """Give all of E, in the rows of its neighbours, the classes it had before u."""
    indptr, indices, cursor = rows
    for i in range(begin, end):
        y = extension[i]
        marks[y] &= ~np.uint8(IN_SET)
        old = marks[y] & 1
        for slot in range(cursor[y], indptr[y + 1]):
            near[indices[slot], old] += 1


@helper
def _forget(vertex, rows, near):
    """Reset near[x] for each neighbour x of the vertex: all neighbours of x above the root count as class 0."""
    indptr, indices, cursor = rows
    for slot in range(cursor[vertex], indptr[vertex + 1]):
        x = indices[slot]
        near[x] = 0
        near[x, 0] = indptr[x + 1] - cursor[x]
