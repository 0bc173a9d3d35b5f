"""Whole graphs as compressed rows: the simple undirected graph, its components and k-cores."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from kgqa_hpc.jit import kernel
from kgqa_hpc.kg.relations import Codes, Csr


def simple_csr(
    num_nodes: int,
    source: npt.NDArray[np.integer],
    target: npt.NDArray[np.integer],
    *,
    directed: bool = False,
) -> Csr:
    """Compressed rows of the graph of int (m,) endpoint arrays without self-loops and parallel edges; rows sorted.

    An edge is in the rows of both ends; if `directed`, in that of its source. The peak is about 25 bytes an edge.
    """
    apart = source != target
    ends = source[apart], target[apart]
    rows = coo_array((np.ones(len(ends[0]), bool), ends), (num_nodes, num_nodes)).tocsr()
    if not directed:
        rows = rows + rows.T
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32, copy=False)
    indptr.flags.writeable = indices.flags.writeable = False
    return indptr, indices


def components(indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32]) -> Codes:
    """The component of each node, int32 (n,), numbered by their first node."""
    nodes = len(indptr) - 1
    rows = csr_array((np.ones(len(indices), bool), indices, indptr), (nodes, nodes))
    component: Codes = connected_components(rows, directed=False)[1]
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
