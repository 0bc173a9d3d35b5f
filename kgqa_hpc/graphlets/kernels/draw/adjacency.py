"""Adjacency tests: a bit table excludes most pairs at once, a search in the row decides on the others.

One bit per edge at the hash of its ends (Bloom 1970, one hash function): with 16 bits an edge the table of
ten million edges has 20 MB and stays in a cache, where rows do not. A bit that is set is checked in the row,
so answers are exact. Hashing is Fibonacci's (Knuth, TAOCP 3, 6.4): the highest bits of a product. Tables
of up to 2**32 bits.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.count.triangles import find_slot
from kgqa_hpc.jit import helper, kernel

BITS_PER_EDGE = 16  # one false positive in 16


@kernel
def set_bits(part, parts, indptr, indices, table):
    """Set the bits of all edges that lie in the given part of `table`, uint64 words, zero before.

    Parts may run in parallel: each reads all edges and writes its own words.
    """
    start = table.shape[0] * part // parts
    last = table.shape[0] * (part + 1) // parts
    for v in range(indptr.shape[0] - 1):
        for slot in range(indptr[v], indptr[v + 1]):
            if indices[slot] > v:
                break
            bit = _place(table, v, indices[slot])
            word = np.int64(bit >> np.uint64(6))
            if start <= word < last:
                table[word] |= np.uint64(1) << (bit & np.uint64(63))


@helper
def _place(table, a, b):
    """Position of a pair's bit: the highest 32 bits of the product, scaled to the size of the table."""
    key = (np.uint64(max(a, b)) << np.uint64(32)) | np.uint64(min(a, b))
    product = key * np.uint64(0x9E3779B97F4A7C15)
    return (product >> np.uint64(32)) * np.uint64(64 * table.shape[0]) >> np.uint64(32)


@helper
def may_be_adjacent(table, a, b):
    """0 if the pair is not adjacent, 1 if it may be; int64."""
    bit = _place(table, a, b)
    return np.int64((table[np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))) & np.uint64(1))


@helper
def adjacent(indptr, indices, a, b):
    """Whether {a, b} is an edge, by a search in the shorter row."""
    if indptr[a + 1] - indptr[a] > indptr[b + 1] - indptr[b]:
        a, b = b, a
    slot = find_slot(indptr, indices, a, b)
    return slot < indptr[a + 1] and indices[slot] == b


@helper
def possible_code(table, row, size):
    """Adjacency code with all pairs that may be adjacent. No branches: the loads overlap."""
    code = np.int64(0)
    for j in range(1, size):
        for i in range(j):
            code |= may_be_adjacent(table, row[i], row[j]) << (j * (j - 1) // 2 + i)
    return code


@helper
def exact_code(indptr, indices, row, size, full_code, possible):
    """Adjacency code of the nodes row[:size], given the pairs that are edges and those that may be."""
    code = full_code
    for j in range(1, size):
        for i in range(j):
            bit = np.int64(1) << (j * (j - 1) // 2 + i)
            if possible & bit & ~full_code and adjacent(indptr, indices, row[i], row[j]):
                code |= bit
    return code


@helper
def induced_code(indptr, indices, table, row, size, full_code):
    """Adjacency code of the nodes row[:size]; pairs in the code `full_code` are edges already."""
    return exact_code(indptr, indices, row, size, full_code, possible_code(table, row, size))
