"""The graph that all kernels walk through: relabelled by falling degree, its triangles, and its 2-core.

Vertices are relabelled by counting, then row by row; rows are written and sorted in place, so threads share no
data; O(m log d) time, no further memory. As rows are sorted and labels fall with degree, an edge's triangles
are found from its lower-degree end: O(sum over edges of the smaller degree) time (Chiba, Nishizeki 1985).
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


@helper
def find_slot(indptr, indices, row, value):
    """Position of `value` in a sorted row (or where it would stand)."""
    low = indptr[row]
    high = indptr[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


CARRY_BITS = 40


@helper
def carry_over(low, high):
    """Keep sums as low + high * 2**CARRY_BITS, so that only what one root adds must stay below 2**63."""
    for i in range(low.shape[0]):
        carry = low[i] >> 40
        high[i] += carry
        low[i] -= carry << 40


@kernel
def inner_degrees(start, last, indptr, indices, inside, degree):
    """Fill `degree` int64 (n,) for start, …, last - 1: the core neighbours of each vertex of the core."""
    for v in range(start, last):
        degree[v] = 0
        if inside[v]:
            for slot in range(indptr[v], indptr[v + 1]):
                degree[v] += inside[indices[slot]]


@kernel
def inner_rows(start, last, indptr, indices, inside, starts, new_indptr, new_indices, new_starts):
    """Write rows start, …, last - 1 of the core, with the `starts` of their slots."""
    for v in range(start, last):
        at = new_indptr[v]
        if inside[v]:
            for slot in range(indptr[v], indptr[v + 1]):
                if inside[indices[slot]]:
                    new_indices[at] = indices[slot]
                    new_starts[at] = starts[slot]
                    at += 1


@kernel
def vertex_sums(start, last, indptr, indices, starts, ways, squares, corners):
    """Sums over the slots of each vertex start, …, last - 1: the number of the head's further neighbours, its square,
    and the number of triangles.
    """
    for v in range(start, last):
        further = np.int64(0)
        squared = np.int64(0)
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            other_slot = indptr[u + 1] - indptr[u] - 1
            further += other_slot
            squared += other_slot * other_slot
        ways[v], squares[v] = further, squared
        corners[v] = starts[indptr[v + 1]] - starts[indptr[v]]


@kernel
def count_triangles(start, step, indptr, indices, per_slot):
    """Fill per_slot int32 (2m,): triangles on each slot's edge, for the roots start, start + step, …"""
    n = indptr.shape[0] - 1
    near = np.zeros(n, np.uint8)
    for v in range(start, n, step):
        for slot in range(indptr[v], indptr[v + 1]):
            near[indices[slot]] = 1
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            if u < v:  # this edge is counted from its other end
                continue
            count = 0
            for other_slot in range(indptr[u], indptr[u + 1]):
                count += near[indices[other_slot]]
            per_slot[slot] = count
            per_slot[find_slot(indptr, indices, u, v)] = count
        for slot in range(indptr[v], indptr[v + 1]):
            near[indices[slot]] = 0


@kernel
def list_triangles(start, step, indptr, indices, starts, corners):
    """Third corners of each slot's triangles, ascending int32, into corners[starts[slot]:starts[slot + 1]]."""
    n = indptr.shape[0] - 1
    near = np.zeros(n, np.uint8)
    for v in range(start, n, step):
        for slot in range(indptr[v], indptr[v + 1]):
            near[indices[slot]] = 1
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            if u < v or starts[slot] == starts[slot + 1]:
                continue
            cursor = starts[slot]
            there = starts[find_slot(indptr, indices, u, v)]
            for other_slot in range(indptr[u], indptr[u + 1]):
                w = indices[other_slot]
                if near[w]:
                    corners[cursor] = w
                    corners[there] = w
                    cursor += 1
                    there += 1
        for slot in range(indptr[v], indptr[v + 1]):
            near[indices[slot]] = 0


# Indices of the sums over edges; te is the number of triangles on an edge.
DIAMOND = 0  # C(te, 2)
BOOK = 1  # C(te, 3)
DART = 2  # C(te, 2) * (tails at both ends)
BULL = 3  # triangles with one tail at each end
KITE = 4  # over edges and third corners: (te - 1) * (tails at the corner)
EDGE_SUMS = 5


@kernel
def edge_sums(start, step, indptr, indices, degree, starts, corners):
    """Sums over the edges below the roots start, start + step, …; int64 (2, EDGE_SUMS), in two parts
    (`carry_over`).
    """
    n = indptr.shape[0] - 1
    sums = np.zeros((2, EDGE_SUMS), np.int64)
    low = sums[0]
    for v in range(start, n, step):
        if starts[indptr[v]] == starts[indptr[v + 1]]:
            continue
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            t = starts[slot + 1] - starts[slot]
            if u < v or t == 0:
                continue
            pairs = t * (t - 1) // 2
            low[DIAMOND] += pairs
            low[BOOK] += pairs * (t - 2) // 3
            low[DART] += pairs * (degree[v] + degree[u] - 6)
            low[BULL] += t * (degree[v] - 2) * (degree[u] - 2) - t * (t - 1)
            tails = np.int64(0)
            for i in range(starts[slot], starts[slot + 1]):
                tails += degree[corners[i]] - 2
            low[KITE] += (t - 1) * tails
        carry_over(low, sums[1])
    return sums
