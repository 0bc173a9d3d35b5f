"""The simple undirected graph as rows of neighbours, its components and k-cores: compiled, linear in edges."""

import numpy as np

from kgqa_hpc.jit import kernel


@kernel
def both_ways(num_nodes, pairs):
    """Sorted rows of neighbours (CSR) from distinct, sorted pairs lower << 32 | higher, int64 (m,).

    indptr int64 (n + 1,), indices int32 (2m,).
    """
    indptr = np.zeros(num_nodes + 1, np.int64)
    indices = np.empty(2 * len(pairs), np.int32)
    low_half = np.int64(0xFFFFFFFF)
    for pair in pairs:
        indptr[(pair >> 32) + 1] += 1
        indptr[(pair & low_half) + 1] += 1
    for node in range(len(indptr) - 1):
        indptr[node + 1] += indptr[node]
    cursor = indptr[:-1].copy()
    # This order sorts the rows: lower neighbours, then higher ones, both in the order of the pairs.
    for pair in pairs:
        high = pair & low_half
        indices[cursor[high]] = pair >> 32
        cursor[high] += 1
    for pair in pairs:
        low = pair >> 32
        indices[cursor[low]] = pair & low_half
        cursor[low] += 1
    return indptr, indices


@kernel
def components(indptr, indices):
    """The component of each node, int32 (n,), numbered by their first node."""
    n = len(indptr) - 1
    component = np.full(n, -1, np.int32)
    stack = np.empty(n, np.int32)
    number = 0
    for root in range(n):
        if component[root] >= 0:
            continue
        component[root] = number
        stack[0] = root
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            for at in range(indptr[node], indptr[node + 1]):
                neighbours = indices[at]
                if component[neighbours] < 0:
                    component[neighbours] = number
                    stack[top] = neighbours
                    top += 1
        number += 1
    return component


@kernel
def k_core(indptr, indices, k):
    """The nodes of the k-core, the largest subgraph in which each node has at least k neighbours; bool (n,)."""
    n = len(indptr) - 1
    degree = np.empty(n, np.int64)
    keep = np.ones(n, np.bool_)
    stack = np.empty(n, np.int32)
    top = 0
    for node in range(n):
        degree[node] = indptr[node + 1] - indptr[node]
        if degree[node] < k:
            keep[node] = False
            stack[top] = node
            top += 1
    while top > 0:
        top -= 1
        node = stack[top]
        for at in range(indptr[node], indptr[node + 1]):
            neighbours = indices[at]
            degree[neighbours] -= 1
            if keep[neighbours] and degree[neighbours] < k:
                keep[neighbours] = False
                stack[top] = neighbours
                top += 1
    return keep
