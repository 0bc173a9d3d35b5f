"""Exact counts of all 29 shapes without enumerating them.

Counts of subgraphs that need not be induced come from degrees, codegrees, triangles per edge and link graphs. The
induced counts follow by back-substitution: an induced t contains `SUBCOPIES[t][s]` copies of s on its nodes (method:
ESCAPE, Pinar, Seshadhri, Vishal, WWW 2017; the 4-node identities also in ORCA, Hocevar, Demsar 2014; the
arrangement, the use of the 2-core and the exact carrying of large sums are ours).

Time O(sum of d^2 + sum of te^2 + 5-cycle term) over the 2-core, memory O(m + triangles). Inputs int64/int32;
every total is an exact Python integer: sums over degrees and per-vertex counts use unbounded integers, other
sums pairs of int64, which are exact while one root's share stays below 2**63.

The three expensive passes can be left out; then the copies that depend on them are missing, and so are the
induced counts of all shapes that are contained in such a shape. Passes also record the number of copies of
each root, the weights with which structure sampling draws roots.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kgqa_hpc.graphlets import graph_tool
from kgqa_hpc.graphlets.kernels import count_cycles, links, triangles
from kgqa_hpc.graphlets.ordered_graph import (
    OrderedGraph,
    TriangleLists,
    csr_of_graph,
    list_triangles,
    order_graph,
    parts_of,
    restrict_to_core,
    row_ranges,
)
from kgqa_hpc.graphlets.shapes import SHAPES, SUBCOPIES
from kgqa_hpc.terminal import StageProgress
from kgqa_hpc.threads import Workers

Backend = Literal["native", "graph-tool"]

PASSES = ("links", "codegrees", "5-cycles")
_SAFE = float(2**62)


@dataclass(frozen=True)
class CopyCounts:
    """Not necessarily induced copies of the shapes that were counted, and the copies rooted at each vertex.

    squares int64 (n, 3): squares, banners and K2,3 of the pairs whose smaller label is the vertex; cliques
    int64 (n, 2): 4-cliques through it, and these with a triangle on an edge at it; cycles int64 (n,): the
    root weights of kernels.count_cycles. Rows stay zero where a pass was left out.
    """

    copies: dict[int, int]
    squares: np.ndarray
    cliques: np.ndarray
    cycles: np.ndarray


def count_graphlets(
    graph: Any,
    *,
    backend: Backend = "native",
    threads: int | None = None,
    progress: StageProgress | None = None,
) -> dict[int, int]:
    """Induced occurrences of each of the 29 shapes in a graph: {1: …, …, 29: …}, exact Python integers.

    `graph`: a networkx or igraph graph, a square scipy sparse matrix (or array), a graph of this package, or the CSR
    arrays of a simple undirected graph (`csr_of_graph`). Backend `native` uses the closed forms of this module;
    `graph-tool` enumerates and takes thousands of times longer. `threads` defaults to the usable cores and never
    changes the result. Raises InputError for anything that is no graph.
    """
    ordered = order_graph(*csr_of_graph(graph), Workers(threads, progress))
    if backend == "graph-tool":
        return graph_tool.count(ordered)
    return induced_counts(copy_counts(ordered, list_triangles(ordered)).copies)


def induced_counts(copies: dict[int, int]) -> dict[int, int]:
    """Induced counts from the numbers of copies, for each shape whose ingredients are all known."""
    induced: dict[int, int] = {}
    for shape in sorted(SHAPES.values(), key=lambda shape: -len(shape.edges)):
        denser = [t for t, inner in SUBCOPIES.items() if shape.id in inner and t != shape.id]
        if shape.id in copies and all(t in induced for t in denser):
            hidden = sum(SUBCOPIES[t][shape.id] * induced[t] for t in denser)
            induced[shape.id] = copies[shape.id] - hidden
    return dict(sorted(induced.items()))


def copy_counts(graph: OrderedGraph, lists: TriangleLists, passes: Collection[str] = PASSES) -> CopyCounts:
    """Count the copies of each shape for which `passes`, a part of PASSES, are enough."""
    all_starts = lists.starts
    core, lists = restrict_to_core(graph, lists)
    rows = (core.indptr, core.indices)
    n, parts = graph.num_nodes, parts_of(graph)
    squares, cliques = np.zeros((n, count_cycles.ROOTED), np.int64), np.zeros((n, 2), np.int64)
    pentagons = np.zeros(n, np.int64)
    corners = (lists.starts, lists.corners)

    def sums_of(function: Callable[[int], np.ndarray], label: str) -> list[int]:
        # As Python integers: the sums of all parts can exceed 64 bits.
        low, high = np.array(graph.workers.run(function, range(parts), label)).astype(object).sum(axis=0)
        sums: list[int] = (low + high * 2**triangles.CARRY_BITS).tolist()
        return sums

    edge = sums_of(lambda part: triangles.edge_sums(part, parts, *rows, graph.degree, *corners), "edges")
    copies, paths = _from_triangles(graph, all_starts, edge)
    if "links" in passes:
        link = sums_of(lambda part: links.link_sums(part, parts, *rows, *corners, cliques), "links")
        _add_cliques(copies, graph, link, cliques[:, 0], edge)
    if "codegrees" in passes:
        te = lists.per_slot()
        codegree = sums_of(
            lambda part: count_cycles.codegree_sums(part, parts, *rows, graph.degree, te, *corners, squares),
            "codegrees",
        )
        diamond = copies[7]
        copies[5] = codegree[count_cycles.SQUARE] // 2
        copies[9] = paths - 4 * copies[5]  # subtract: the ends meet
        # Subtract: the tail ends in the opposite corner.
        copies[16] = codegree[count_cycles.BANNER] - 2 * diamond
        copies[20] = codegree[count_cycles.K23]
        copies[21] = codegree[count_cycles.HOUSE] // 2 - 4 * diamond  # subtract: the roof lies in the square
        copies[25] = codegree[count_cycles.DIAMOND_PLUS]
    if "5-cycles" in passes:
        copies[15] = sum(
            graph.workers.run(
                lambda part: int(count_cycles.count_pentagons(part, parts, *rows, pentagons)),
                range(parts),
                "5-cycles",
            )
        )
    return CopyCounts(copies, squares, cliques, pentagons)


def _from_triangles(graph: OrderedGraph, starts: np.ndarray, edge: list[int]) -> tuple[dict[int, int], int]:
    """Copies that follow from degrees and triangles, and the paths of four edges with the 4-cycles.

    The comments name the cases that a product counts too often.
    """
    d = graph.degree
    # Per vertex: paths of two edges from it, sum of (degree - 1) squared over its neighbours, twice its triangles.
    ways, squares_of, t = (np.empty(graph.num_nodes, np.int64) for _ in range(3))
    graph.workers.run(
        lambda block: triangles.vertex_sums(*block, graph.indptr, graph.indices, starts, ways, squares_of, t),
        row_ranges(graph.indptr),
    )
    t //= 2
    sizes, vertices = np.unique(d, return_counts=True)
    star = {
        k: sum(int(m) * math.comb(int(s), k) for s, m in zip(sizes, vertices, strict=True)) for k in (2, 3, 4)
    }
    triangle = exact_dot(t) // 3
    diamond = edge[triangles.DIAMOND]
    corner_tails = exact_dot(t, d - 1)
    # Paths of four edges, by their middle vertex.
    paths = (exact_dot(ways, ways) - exact_dot(squares_of)) // 2
    forks = exact_dot((d - 1) * (d - 2) // 2 * (d > 0), ways)
    copies = {
        1: star[2],
        2: triangle,
        3: exact_dot(d - 1, ways) // 2 - 3 * triangle,  # subtract: both tails end in one vertex
        4: star[3],
        6: exact_dot(t, d - 2),
        7: diamond,
        10: forks - 2 * exact_dot(t, d - 2),  # subtract: the far end is another leaf
        11: star[4],
        12: edge[triangles.BULL],
        13: exact_dot(t, ways) - 2 * corner_tails - 4 * diamond,  # the tail begins, or ends, in the triangle
        14: exact_dot(t, (d - 2) * (d - 3) // 2),
        17: edge[triangles.DART],
        18: exact_dot(t, t - 1) // 2 - 2 * diamond,  # subtract: the triangles share an edge
        22: edge[triangles.BOOK],
    }
    # Subtract paths with an end on the path; a closed triangle is subtracted twice, so it is added again.
    return copies, paths - 2 * corner_tails + 3 * triangle


def _add_cliques(
    copies: dict[int, int], graph: OrderedGraph, link: list[int], k4: np.ndarray, edge: list[int]
) -> None:
    clique = exact_dot(k4) // 4
    copies[8] = clique
    copies[19] = edge[triangles.KITE] - 12 * clique  # subtract: the tail ends in the other tip
    copies[23] = exact_dot(k4, graph.degree - 3)
    copies[24] = link[links.GEM] - 12 * clique  # subtract: the path of 4 closes to a triangle
    copies[26] = link[links.CLIQUE_TRIANGLE] // 2
    copies[27] = link[links.WHEEL]
    copies[28] = link[links.CLIQUE_MINUS] // 3
    copies[29] = link[links.CLIQUE]


def exact_dot(a: np.ndarray, b: np.ndarray | None = None) -> int:
    """Sum of a * b (or of a) as a Python integer, for int64 arrays of one length, without overflow."""
    total, start = 0, 0
    while start < len(a):
        stop = start + max(4096, start)  # the largest products are at the beginning, where degrees are large
        left_part = a[start:stop]
        right = np.ones_like(left_part) if b is None else b[start:stop]
        start = stop
        bound = float(np.abs(left_part).max()) * float(np.abs(right).max()) * len(left_part)
        if bound < _SAFE:
            total += int(np.dot(left_part, right))
        else:
            total += sum(x * y for x, y in zip(left_part.tolist(), right.tolist(), strict=True))
    return total
