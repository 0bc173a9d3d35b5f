"""The graph in the form the kernels need: simple, undirected, relabelled by falling degree.

With hubs first a vertex has at most about sqrt(2m) neighbours before it, so that few walks from other
vertices pass through a hub; and no result depends on the order of the input's edges. The module also makes the
list of its triangles per slot (a slot is a position in `indices`: an edge seen from one of its ends), and its
2-core, the only part that can contain cycles.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets.kernels import triangles
from kgqa_hpc.kg.graph import simple_csr
from kgqa_hpc.kg.kernels import k_core
from kgqa_hpc.kg.relations import Csr
from kgqa_hpc.threads import Workers

# Default: all usable cores, without progress.
ALONE = Workers()
PARTS = 16  # largest number of parts of the rows
PART_ENTRIES = 100_000  # smallest number of entries per part
TRIANGLE_PARTS = 64  # largest number of parts of the roots
PART_EDGES = 12_000  # smallest number of edges of a part; each part has its own arrays
WORTHWHILE = 0.1  # smallest share of two-edge paths that a restriction to the core must avoid


def csr_of_graph(graph: Any) -> Csr:
    """indptr (n+1,) and indices (2m,) of a simple undirected graph, without directions, parallel edges and loops.

    `graph`: a networkx or igraph graph, a square scipy sparse matrix (or array), a graph of this package, or these two
    arrays. No library is imported; a graph is recognised by its methods. Raises InputError for anything else.
    """
    if isinstance(graph, tuple) and len(graph) == 2:
        return np.asarray(graph[0]), np.asarray(graph[1])
    if hasattr(graph, "csr"):  # kg.graph.KnowledgeGraph
        indptr, indices = graph.csr()
        return indptr, indices
    if hasattr(graph, "tocoo"):  # scipy.sparse
        matrix = graph.tocoo()
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"the matrix has the shape {matrix.shape}", "an adjacency matrix is square")
        there = np.asarray(matrix.data) != 0
        return simple_csr(matrix.shape[0], np.asarray(matrix.row)[there], np.asarray(matrix.col)[there])
    if hasattr(graph, "get_edgelist"):  # igraph
        pairs = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
        return simple_csr(graph.vcount(), pairs[:, 0], pairs[:, 1])
    if hasattr(graph, "number_of_nodes"):  # networkx
        number = {node: i for i, node in enumerate(graph)}
        ends = (number[node] for edge in graph.edges() for node in edge[:2])
        pairs = np.fromiter(ends, np.int64).reshape(-1, 2)
        return simple_csr(len(number), pairs[:, 0], pairs[:, 1])
    raise InputError(
        f"{type(graph).__name__} is not a graph that can be counted",
        "give one of networkx or igraph, or a square scipy sparse matrix",
    )


@dataclass(frozen=True)
class OrderedGraph:
    """CSR of a simple undirected graph: vertices by falling degree, then original id; neighbours ascending.

    indptr int64 (n+1,), indices int32 (2m,), original int32 (n,): original id of each vertex; workers: the
    threads that work on it.
    """

    indptr: np.ndarray
    indices: np.ndarray
    original: np.ndarray
    workers: Workers = ALONE

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices) // 2

    @property
    def degree(self) -> np.ndarray:
        return np.diff(self.indptr)


def order_graph(indptr: np.ndarray, indices: np.ndarray, workers: Workers = ALONE) -> OrderedGraph:
    """Relabel a CSR graph by falling degree.

    `indptr` (n+1,) and `indices` (2m,) are integers: a simple undirected graph, as `KnowledgeGraph.csr` and
    `csr_of_graph` make it (every edge in both rows, no loops, rows in any order). O(m log d) time
    and 8 bytes per entry. Raises InputError when the arrays do not fit together.
    """
    n = len(indptr) - 1
    if n < 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise InputError(
            "indptr is not that of a CSR graph",
            "it rises from 0 to len(indices), one entry per node and one more",
        )
    if n >= 2**31:
        raise InputError(f"{n:,} nodes are more than 32-bit labels can hold", "reduce the graph first")
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        raise InputError(f"a neighbour lies outside 0..{n - 1}", "indices are node numbers")
    # Copies, because numba treats read-only arrays as another type, and kernels are compiled for writable ones.
    indptr, indices = np.array(indptr, np.int64), np.array(indices, np.int32)
    original, label, new_indptr = triangles.by_degree(indptr)
    new_indices = np.empty(len(indices), np.int32)
    workers.run(
        lambda rows: triangles.fill_rows(*rows, indptr, indices, original, label, new_indptr, new_indices),
        row_ranges(new_indptr),
    )
    return OrderedGraph(new_indptr, new_indices, original, workers)


def row_ranges(indptr: np.ndarray, most: int = PARTS) -> list[tuple[int, int]]:
    """Ranges of rows with about as many entries each, for kernels that go row by row."""
    parts = min(most, 1 + int(indptr[-1]) // PART_ENTRIES)
    cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], parts + 1)[1:-1]).tolist()
    return list(pairwise([0, *cuts, len(indptr) - 1]))


@dataclass(frozen=True)
class TriangleLists:
    """Triangles of a graph, listed per slot.

    starts int64 (2m + 1,): the third corners of a slot are corners[starts[slot]:starts[slot + 1]], ascending.
    """

    starts: np.ndarray
    corners: np.ndarray

    def per_slot(self) -> np.ndarray:
        """Number of triangles of each slot, int32 (2m,); not cached, because it is seldom needed."""
        number = np.empty(len(self.starts) - 1, np.int32)
        np.subtract(self.starts[1:], self.starts[:-1], out=number, casting="unsafe")
        return number


def list_triangles(graph: OrderedGraph) -> TriangleLists:
    """All triangles, listed per slot; memory: 24 bytes per triangle and 8 per slot (12 at the peak)."""
    parts = parts_of(graph)
    per_slot = np.zeros(len(graph.indices), np.int32)
    graph.workers.run(
        lambda part: triangles.count_triangles(part, parts, graph.indptr, graph.indices, per_slot),
        range(parts),
        "triangles",
    )
    starts = np.zeros(len(per_slot) + 1, np.int64)
    np.cumsum(per_slot, out=starts[1:])
    corners = np.empty(starts[-1], np.int32)
    graph.workers.run(
        lambda part: triangles.list_triangles(part, parts, graph.indptr, graph.indices, starts, corners),
        range(parts),
    )
    return TriangleLists(starts, corners)


def restrict_to_core(graph: OrderedGraph, lists: TriangleLists) -> tuple[OrderedGraph, TriangleLists]:
    """The 2-core under the same labels (rows of other vertices are empty), and its triangles, which are all triangles
    of the graph.

    Returns the graph itself, which has the same counts, if the core saves few paths of two edges: a core doubles the
    memory.
    """
    inside = k_core(graph.indptr, graph.indices, 2)
    rows, n = (graph.indptr, graph.indices, inside), graph.num_nodes
    ranges = row_ranges(graph.indptr)
    indptr = np.zeros(n + 1, np.int64)
    graph.workers.run(lambda block: triangles.inner_degrees(*block, *rows, indptr[1:]), ranges)
    if _paths(indptr[1:]) > (1 - WORTHWHILE) * _paths(graph.degree):
        return graph, lists
    np.cumsum(indptr, out=indptr)
    indices = np.empty(indptr[-1], np.int32)
    starts = np.empty(indptr[-1] + 1, np.int64)
    starts[-1] = lists.starts[-1]
    new = (indptr, indices, starts)
    graph.workers.run(lambda block: triangles.inner_rows(*block, *rows, lists.starts, *new), ranges)
    core = OrderedGraph(indptr, indices, graph.original, graph.workers)
    return core, TriangleLists(starts, lists.corners)


def _paths(degree: np.ndarray) -> float:
    return float((degree * (degree - 1.0)).sum()) / 2


def parts_of(graph: OrderedGraph) -> int:
    """Number of parts to which roots are dealt round robin, because roots with close labels have similar cost."""
    return min(TRIANGLE_PARTS, 1 + graph.num_edges // PART_EDGES)
