"""All triangles of a graph, listed per slot, and the part of a graph that can hold cycles at all."""

from dataclasses import dataclass

import numpy as np

from kgqa_hpc.graphlets.kernels.count import triangles
from kgqa_hpc.graphlets.ordered_graph import OrderedGraph, row_ranges

# Largest number of parts of the roots.
PARTS = 64
# Smallest number of edges of a part; each part has its own arrays.
PART_EDGES = 12_000
# Smallest share of two-edge paths that a restriction to the core must avoid.
WORTHWHILE = 0.1


@dataclass(frozen=True)
class TriangleLists:
    """Triangles of a graph, listed per slot.

    starts int64 (2m + 1,): the third corners of a slot are corners[starts[slot]:starts[slot + 1]], ascending.
    """

    starts: np.ndarray
    corners: np.ndarray

    def per_slot(self) -> np.ndarray:
        """Number of triangles of each slot, int32 (2m,); computed at each call, because it is seldom needed."""
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
    """The 2-core under the same labels (rows of other vertices are empty), and its triangles, all of the
    graph's.

    Returns the graph itself, with the same counts, if the core saves few paths of two edges: a core doubles
    the memory.
    """
    inside = triangles.two_core(graph.indptr, graph.indices)
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
    """Number of parts of the roots, dealt round robin because neighbours in the order have similar cost."""
    return min(PARTS, 1 + graph.num_edges // PART_EDGES)
