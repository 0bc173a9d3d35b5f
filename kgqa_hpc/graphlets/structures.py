"""The structures that can be drawn directly, and the weights of their roots and slots.

A structure is a shape whose copies (not necessarily induced) can be drawn exactly uniformly: a root in
proportion to the copies it roots, the rest within the root's row (kernels.draw_rows, kernels.draw_cycles). Every
occurrence of a shape T contains the same number SUBCOPIES[T][S] of copies of S, so the draws of S that turn
out to be T are uniform on the occurrences of T with no further rejection (path sampling: Jha, Seshadhri,
Pinar 2015; the other structures, and sampling all shapes from one stream, are ours).

Weights are int64 where their sum is below 2**62, else float64; per slot and kind they take 8 bytes.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from kgqa_hpc.graphlets.count import CopyCounts
from kgqa_hpc.graphlets.kernels import choices, count_cycles, draw_rows
from kgqa_hpc.graphlets.ordered_graph import PARTS, OrderedGraph, TriangleLists, row_ranges
from kgqa_hpc.graphlets.shapes import SHAPES, Edge


@dataclass(frozen=True)
class Structure:
    """How copies of a shape are drawn.

    family: which kernel; kind: weight of a slot in kernels.draw_rows; ways: how many (root, choices) lead to
    one copy; needs: the pass of the closed forms that computes its root weights, "" for none; closing: edges
    that are not drawn; draws without them are rejected.
    """

    shape: int
    family: str
    ways: int
    kind: int = draw_rows.TAILS
    needs: str = ""
    closing: tuple[Edge, ...] = ()


STRUCTURES: dict[int, Structure] = {
    structure.shape: structure
    for structure in (
        Structure(1, "rows", 1),
        Structure(2, "rows", 6, draw_rows.TRIANGLES),
        Structure(3, "rows", 2),
        Structure(4, "rows", 1),
        Structure(5, "squares", 2, needs="codegrees"),
        Structure(6, "rows", 2, draw_rows.TRIANGLES),
        Structure(7, "rows", 2, draw_rows.PAIRS),
        Structure(8, "cliques", 24, needs="links"),
        Structure(9, "rows", 2),
        Structure(10, "rows", 1),
        Structure(11, "rows", 1),
        Structure(12, "rows", 2, draw_rows.TAILED),
        Structure(13, "rows", 2, draw_rows.TRIANGLES),
        Structure(14, "rows", 2, draw_rows.TRIANGLES),
        Structure(15, "pentagons", 1, needs="5-cycles"),
        Structure(16, "squares", 1, needs="codegrees"),
        Structure(17, "rows", 1, draw_rows.PAIRS),
        Structure(18, "rows", 8, draw_rows.TRIANGLES),
        Structure(20, "squares", 1, needs="codegrees"),
        Structure(22, "rows", 2, draw_rows.TRIPLES),
        Structure(23, "cliques", 6, needs="links"),
        Structure(26, "cliques", 4, needs="links"),
    )
}


# How a structure is drawn without the pass it needs: the copy without its `closing` edges is drawn. Each copy is
# opened at its largest label only (K2,3: the largest of its side of three), so few open copies must be drawn.
OPEN: dict[int, Structure] = {
    structure.shape: structure
    for structure in (
        Structure(5, "rows", 2, draw_rows.BELOW, closing=((2, 3),)),
        Structure(15, "rows", 2, draw_rows.BELOW, closing=((2, 3),)),
        Structure(20, "rows", 4, draw_rows.BEFORE, closing=((0, 3), (1, 4))),
    )
}
# Number of the root's neighbours in the core of a copy, and number of tails chosen among its other neighbours.
_TAILS_AT_ROOT = {3: (1, 1), 6: (2, 1), 10: (1, 2), 12: (2, 1), 14: (2, 2), 17: (3, 1)}
STARS = (1, 4, 11)  # structures that are drawn without slot weights
TABLE_PARTS = 2  # parts of the work on a table; few, because each part loops over all edges or vertices


@dataclass(frozen=True)
class Ground:
    """Data shared by all streams of one graph: graph, triangles, and root weights of the closed forms."""

    graph: OrderedGraph
    lists: TriangleLists
    counts: CopyCounts
    passes: frozenset[str]
    _made: dict[tuple[str, int], np.ndarray] = field(default_factory=dict, compare=False)

    def structures(self) -> list[int]:
        """The structures that can be drawn, grouped by equal slot weights."""
        ways = (way_of(shape, self.passes) for shape in STRUCTURES)
        return [form.shape for form in sorted(filter(None, ways), key=lambda form: form.kind)]

    def way_of(self, shape: int) -> Structure:
        """The way to draw copies of this shape."""
        form = way_of(shape, self.passes)
        assert form, f"structure {shape} cannot be drawn without {STRUCTURES[shape].needs}"
        return form


def way_of(shape: int, passes: Collection[str]) -> Structure | None:
    """The way to draw a structure after `passes` of the closed forms; None if it cannot be drawn."""
    needs = STRUCTURES[shape].needs
    return STRUCTURES[shape] if not needs or needs in passes else OPEN.get(shape)


def root_weights(ground: Ground, shape: int, dtype: type) -> np.ndarray:
    """Weight of each vertex as the root of a structure, (n,) of `dtype`, int64 or float64; read only."""
    d: np.ndarray = ground.graph.degree.astype(dtype, copy=False)
    if shape in STARS:
        return _choose(d, SHAPES[shape].k - 1)
    form = ground.way_of(shape)
    if form.family == "squares":
        column = {5: count_cycles.SQUARE, 16: count_cycles.BANNER, 20: count_cycles.K23}[shape]
        return ground.counts.squares[:, column].astype(dtype)
    if form.family == "pentagons":
        return ground.counts.cycles.astype(dtype)
    if shape in (8, 23):
        return 6 * ground.counts.cliques[:, 0].astype(dtype) * (np.maximum(d - 3, 0) if shape == 23 else 1)
    if shape == 26:
        return 2 * ground.counts.cliques[:, 1].astype(dtype)
    row = _row_sums(ground, form.kind, dtype)
    if shape == 13:
        return row * _row_sums(ground, draw_rows.TAILS, dtype)
    if shape in (9, 15, 18, 20):
        return row * row
    if shape == 5:
        return row * draw_rows.lower_neighbours(ground.graph.indptr, ground.graph.indices).astype(dtype)
    if shape not in _TAILS_AT_ROOT:
        return row
    tail_shape, tails = _TAILS_AT_ROOT[shape]
    return row * _choose(d - tail_shape, tails)


def root_copies(ground: Ground, shape: int) -> float:
    """Number N of distinct draws; a draw hits an occurrence with probability (its copies) / N."""
    return float(root_weights(ground, shape, np.float64).sum()) / ground.way_of(shape).ways


def _choose(n: np.ndarray, k: int) -> np.ndarray:
    result = np.maximum(n, 0)
    for i in range(1, k):
        result = result * np.maximum(n - i, 0) // (i + 1)
    return result


def _row_sums(ground: Ground, kind: int, dtype: type) -> np.ndarray:
    """Sum of the slots' weights in each row."""
    indptr = ground.graph.indptr
    if kind == draw_rows.TRIANGLES:
        triangles: np.ndarray = np.diff(ground.lists.starts[indptr])
        return triangles.astype(dtype, copy=False)
    if ("rows", kind) not in ground._made:
        weights = slot_weights(ground, kind)
        sums = weights[indptr[1:] - 1] if len(weights) else np.zeros(ground.graph.num_nodes, np.int64)
        sums[indptr[1:] == indptr[:-1]] = 0
        ground._made["rows", kind] = sums
    return ground._made["rows", kind].astype(dtype, copy=False)


def slot_weights(ground: Ground, kind: int) -> np.ndarray:
    """Running sums of the slots' weights in their rows, int64 (2m,); as they are large, only the last kind is kept."""
    if ("slots", kind) in ground._made:
        return ground._made["slots", kind]
    for key in [key for key in ground._made if key[0] == "slots"]:
        del ground._made[key]
    graph = ground.graph
    weights = ground._made["slots", kind] = np.empty(len(graph.indices), np.int64)
    before = kind in (draw_rows.BEFORE, draw_rows.BELOW)

    def weigh(block: tuple[int, int]) -> None:
        if before:
            draw_rows.running_weights_before(kind, *block, graph.indptr, graph.indices, weights)
        else:
            draw_rows.running_weights(kind, *block, graph.indptr, graph.indices, ground.lists.starts, weights)

    ranges = row_ranges(graph.indptr, TABLE_PARTS if before else PARTS)
    graph.workers.run(weigh, ranges)
    return weights


def edge_table(ground: Ground) -> np.ndarray:
    """The bit table of all edges that kernels.choices searches, uint64."""
    if ("edges", 0) not in ground._made:
        graph = ground.graph
        bits = min(choices.BITS_PER_EDGE * graph.num_edges, 2**32 - 64)
        table = np.zeros(bits // 64 + 1, np.uint64)
        graph.workers.run(
            lambda part: choices.set_bits(part, TABLE_PARTS, graph.indptr, graph.indices, table),
            range(TABLE_PARTS),
        )
        ground._made["edges", 0] = table
    return ground._made["edges", 0]
