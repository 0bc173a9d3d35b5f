"""The steps of ESU (Wernicke 2006) that the walk that counts and the walk that looks up ranks share.

ESU visits every connected vertex set once: from a root v it grows sets by vertices above v that are new to
the neighbourhood. We stop at three vertices, the *3-prefix* (v, u, w); what follows is counted in bulk. The
occurrences of a shape are numbered in the order of (root, u, w, x, y). That order depends on the graph
alone, so drawing ranks and looking up their occurrences gives the same sample however the roots are cut into
blocks.

Vertices carry a byte of marks: 1, 2, 4 = adjacent to v, u, w; 8 = in the set or finished. A cursor per vertex
is its first slot whose neighbour lies above the root; roots must ascend.
"""

import numpy as np

from kgqa_hpc.jit import helper

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
