"""Exact counts of all 29 shapes without enumerating them.

Not necessarily induced copies are counted from degrees, codegrees, triangles per edge and link graphs; the
induced counts follow by back-substitution, for a copy of s in t on the same nodes is counted once per
`SUBCOPIES[t][s]` (method: ESCAPE, Pinar, Seshadhri, Vishal, WWW 2017; the 4-node identities also in ORCA,
Hocevar, Demsar 2014; the arrangement, the use of the 2-core and the exact carrying of large sums are ours).

Time O(sum of d^2 + sum of te^2 + 5-cycle term) over the 2-core, memory O(m + triangles). Inputs
int64/int32; every total is an exact Python integer: what only depends on degrees and per-vertex counts is
summed in unbounded integers, the rest in int64 pairs whose only limit is that one root's share stays below
2**63.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kgqa_hpc.graphlets.kernels import codegrees, links, pentagons, triangles
from kgqa_hpc.graphlets.order import OrderedGraph
from kgqa_hpc.graphlets.shapes import SHAPES, SUBCOPIES
from kgqa_hpc.graphlets.threads import Progress, run_parts

PARTS = 64  # of the roots, dealt round robin: neighbours in the order have similar cost
_SAFE = float(2**62)


@dataclass(frozen=True)
class TriangleLists:
    """Per slot: number of triangles te int32 (2m,), their third corners in corners[starts[slot]:starts[slot
    + 1]].
    """

    te: np.ndarray
    starts: np.ndarray
    corners: np.ndarray


def closed_form_counts(
    graph: OrderedGraph, *, threads: int | None = None, progress: Progress | None = None
) -> dict[int, int]:
    """Exact induced counts of the 29 shapes."""
    return induced_counts(copy_counts(graph, threads=threads, progress=progress))


def induced_counts(copies: dict[int, int]) -> dict[int, int]:
    """Induced counts from the numbers of not necessarily induced copies, densest shapes first."""
    induced: dict[int, int] = {}
    for shape in sorted(SHAPES.values(), key=lambda shape: -len(shape.edges)):
        hidden = sum(SUBCOPIES[denser].get(shape.id, 0) * count for denser, count in induced.items())
        induced[shape.id] = copies[shape.id] - hidden
    return dict(sorted(induced.items()))


def core_of(graph: OrderedGraph) -> OrderedGraph:
    """The 2-core under the same labels (rows of other vertices are empty)."""
    inside = triangles.two_core(graph.indptr, graph.indices)
    if inside.all():
        return graph
    source = np.repeat(inside, graph.degree)
    keep = source & inside[graph.indices]
    kept = np.concatenate([[0], np.cumsum(keep)])
    return OrderedGraph(kept[graph.indptr], graph.indices[keep], graph.original)


def list_triangles(
    graph: OrderedGraph, *, threads: int | None = None, progress: Progress | None = None
) -> TriangleLists:
    """All triangles, listed per slot; 24 bytes per triangle and 12 per slot."""
    te = np.zeros(len(graph.indices), np.int32)
    run_parts(
        lambda part: triangles.count_triangles(part, PARTS, graph.indptr, graph.indices, te),
        range(PARTS),
        threads=threads,
        progress=progress,
        label="triangles",
    )
    starts = np.zeros(len(te) + 1, np.int64)
    np.cumsum(te, out=starts[1:])
    corners = np.empty(starts[-1], np.int32)
    run_parts(
        lambda part: triangles.list_triangles(part, PARTS, graph.indptr, graph.indices, starts, corners),
        range(PARTS),
        threads=threads,
    )
    return TriangleLists(te, starts, corners)


def copy_counts(
    graph: OrderedGraph, *, threads: int | None = None, progress: Progress | None = None
) -> dict[int, int]:
    """Not necessarily induced copies of the 29 shapes. The comments name what a product counts too often."""
    core = core_of(graph)
    lists = list_triangles(core, threads=threads, progress=progress)
    t, k4 = np.zeros(graph.num_nodes, np.int64), np.zeros(graph.num_nodes, np.int64)
    slots = (core.indptr, core.indices)
    codegree = _sum_parts(
        lambda part: codegrees.codegree_sums(
            part, PARTS, *slots, graph.degree, lists.te, lists.starts, lists.corners, t
        ),
        "codegrees",
        threads,
        progress,
    )
    link = _sum_parts(
        lambda part: links.link_sums(part, PARTS, *slots, lists.starts, lists.corners, k4),
        "links",
        threads,
        progress,
    )
    cycles = run_parts(
        lambda part: int(pentagons.count_pentagons(part, PARTS, *slots)),
        range(PARTS),
        threads=threads,
        progress=progress,
        label="5-cycles",
    )
    square = codegree[codegrees.SQUARE] // 2
    copies = _from_degrees(graph, t, k4, square)
    copies[15] = sum(cycles)
    _add_sums(copies, codegree, link)
    return copies


def _sum_parts(function, label: str, threads: int | None, progress: Progress | None) -> list[int]:
    parts = run_parts(function, range(PARTS), threads=threads, progress=progress, label=label)
    width = parts[0].shape[1]
    return [sum(int(p[0, i]) + (int(p[1, i]) << codegrees.CARRY_BITS) for p in parts) for i in range(width)]


def _from_degrees(graph: OrderedGraph, t: np.ndarray, k4: np.ndarray, square: int) -> dict[int, int]:
    """Shapes whose copies follow from degrees, triangles and 4-cliques per vertex, and the number of
    4-cycles.

    Two products are left raw, to be corrected by `_add_sums`: 13 (lollipop) and 18 (butterfly).
    """
    d = graph.degree
    source = np.repeat(np.arange(graph.num_nodes, dtype=np.int32), d)
    other = d[graph.indices] - 1  # further neighbours of a slot's head
    ways = segment_sums(graph.indptr, other)  # paths of two edges that leave a vertex
    squares_of = segment_sums(graph.indptr, other * other)
    sizes, vertices = np.unique(d, return_counts=True)
    stars = {
        k: sum(int(m) * math.comb(int(s), k) for s, m in zip(sizes, vertices, strict=True)) for k in (2, 3, 4)
    }
    triangle = exact_dot(t) // 3
    corner_tails = exact_dot(t, d - 1)
    paths = (exact_dot(ways, ways) - exact_dot(squares_of)) // 2  # of four edges, by their middle
    forks = exact_dot((d - 1) * (d - 2) // 2 * (d > 0), ways)
    return {
        1: stars[2],
        2: triangle,
        3: exact_dot(d[source] - 1, other) // 2 - 3 * triangle,  # both tails end in one vertex
        4: stars[3],
        5: square,
        6: exact_dot(t, d - 2),
        8: exact_dot(k4) // 4,
        # the ends meet; an end lies on the path (a closed triangle twice)
        9: paths - 4 * square - 2 * corner_tails + 3 * triangle,
        10: forks - 2 * exact_dot(t, d - 2),  # the far end is another leaf
        11: stars[4],
        13: exact_dot(t, ways) - 2 * corner_tails,  # the tail begins in the triangle
        14: exact_dot(t, (d - 2) * (d - 3) // 2),
        18: exact_dot(t, t - 1) // 2,
        23: exact_dot(k4, d - 3),
    }


def _add_sums(copies: dict[int, int], codegree: list[int], link: list[int]) -> None:
    """Add the shapes that need codegrees, triangles per edge or links; correct the two that were left raw."""
    diamond = codegree[codegrees.DIAMOND]
    clique4 = copies[8]
    copies[7] = diamond
    copies[12] = codegree[codegrees.BULL]
    copies[13] -= 4 * diamond  # tail ends in the triangle
    copies[16] = codegree[codegrees.BANNER] - 2 * diamond  # tail ends in the opposite corner
    copies[17] = codegree[codegrees.DART]
    copies[18] -= 2 * diamond  # the two triangles share an edge
    copies[19] = codegree[codegrees.KITE] // 2 - 12 * clique4  # tail ends in the other tip
    copies[20] = codegree[codegrees.K23]
    copies[21] = codegree[codegrees.HOUSE] // 2 - 4 * diamond  # roof lies in the square
    copies[22] = codegree[codegrees.BOOK]
    copies[24] = link[links.GEM] - 12 * clique4  # path of 4 closes to a triangle
    copies[25] = codegree[codegrees.DIAMOND_PLUS]
    copies[26] = link[links.CLIQUE_TRIANGLE] // 2
    copies[27] = link[links.WHEEL] // 2
    copies[28] = link[links.CLIQUE_MINUS] // 3
    copies[29] = link[links.CLIQUE]


def segment_sums(indptr: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums of `values` int64 (2m,) over the slots of each vertex, int64 (n,); exact while each fits in
    int64.
    """
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])  # may wrap, the differences do not
    return running[indptr[1:]] - running[indptr[:-1]]


def exact_dot(a: np.ndarray, b: np.ndarray | None = None) -> int:
    """Sum of a * b (or of a) as a Python integer, for int64 arrays of one length, without overflow."""
    total = 0
    for start in range(0, len(a), 4096):
        left = a[start : start + 4096]
        right = np.ones_like(left) if b is None else b[start : start + 4096]
        bound = float(np.abs(left).max()) * float(np.abs(right).max()) * len(left)
        if bound < _SAFE:
            total += int(np.dot(left, right))
        else:
            total += sum(x * y for x, y in zip(left.tolist(), right.tolist(), strict=True))
    return total
