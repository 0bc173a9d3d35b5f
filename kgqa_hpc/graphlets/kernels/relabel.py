"""Relabelling a simple undirected graph by falling degree: vertices by counting, then row by row.

Rows are written and sorted in place, so threads share no data; O(m log d) time, no further memory.
"""

import numpy as np

from kgqa_hpc.jit import helper, kernel

SHORT = 24  # rows up to here are sorted by insertion


@kernel
def by_degree(indptr):
    """Vertices by falling degree, then number: original int32 (n,), its inverse int32 (n,), indptr int64 (n+1,)."""
    n = indptr.shape[0] - 1
    largest = 0
    for v in range(n):
        largest = max(largest, indptr[v + 1] - indptr[v])
    cursor = np.zeros(largest + 2, np.int64)
    for v in range(n):
        cursor[largest - (indptr[v + 1] - indptr[v]) + 1] += 1
    for i in range(largest + 1):
        cursor[i + 1] += cursor[i]
    original = np.empty(n, np.int32)
    label = np.empty(n, np.int32)
    for v in range(n):
        at = cursor[largest - (indptr[v + 1] - indptr[v])]
        cursor[largest - (indptr[v + 1] - indptr[v])] += 1
        original[at] = v
        label[v] = at
    new_indptr = np.zeros(n + 1, np.int64)
    for at in range(n):
        new_indptr[at + 1] = new_indptr[at] + indptr[original[at] + 1] - indptr[original[at]]
    return original, label, new_indptr


@kernel
def fill_rows(begin, last, indptr, indices, original, label, new_indptr, new_indices):
    """Rows begin, …, last - 1 of the relabelled graph, ascending, into `new_indices` int32 (2m,)."""
    for row in range(begin, last):
        v = original[row]
        start = new_indptr[row]
        at = start
        for slot in range(indptr[v], indptr[v + 1]):
            new_indices[at] = label[indices[slot]]
            at += 1
        if at - start > SHORT:
            new_indices[start:at].sort()
        else:
            _sort_short(new_indices, start, at)


@helper
def _sort_short(values, start, stop):
    for i in range(start + 1, stop):
        value = values[i]
        while i > start and values[i - 1] > value:
            values[i] = values[i - 1]
            i -= 1
        values[i] = value
