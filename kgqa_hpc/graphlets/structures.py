"""The structures that can be drawn directly, and streams of their draws.

A structure is a shape whose copies (not necessarily induced) can be drawn exactly uniformly: a root in
proportion to the copies it roots, the rest within the root's row (kernels.rows, squares, pentagon_draws,
cliques). Every occurrence of a shape T contains the same number SUBCOPIES[T][S] of copies of S, so the
draws of S that turn out to be T are uniform on the occurrences of T with no further rejection (path
sampling: Jha, Seshadhri, Pinar 2015; the other structures and the reading of one stream for all shapes are
ours).

Draw number i of a stream depends on (graph, seed, structure, i) alone: any part of a stream can be drawn at
any time by any number of threads. Draws are made in batches sorted by root, so that what a root needs is
built once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kgqa_hpc.graphlets.closed_form import CopyCounts, TriangleLists, segment_sums
from kgqa_hpc.graphlets.kernels import codegrees, rows
from kgqa_hpc.graphlets.kernels.cliques import draw_cliques
from kgqa_hpc.graphlets.kernels.pentagon_draws import draw_pentagons
from kgqa_hpc.graphlets.kernels.squares import draw_squares
from kgqa_hpc.graphlets.order import OrderedGraph
from kgqa_hpc.graphlets.shapes import SHAPES, code_of
from kgqa_hpc.graphlets.splitmix import MAX_TOTAL, key_of, scaled
from kgqa_hpc.graphlets.threads import Progress, run_parts

SEGMENTS = 32  # of a batch at most, drawn in parallel
SEGMENT = 4096  # draws at least


@dataclass(frozen=True)
class Structure:
    """How copies of a shape are drawn.

    family: which kernel; kind: weight of a slot in kernels.rows; ways: how many (root, choices) lead to one
    copy; needs: the pass of the closed forms that leaves its roots' weights behind, "" for none.
    """

    shape: int
    family: str
    ways: int
    kind: int = rows.TAILS
    needs: str = ""


STRUCTURES: dict[int, Structure] = {
    structure.shape: structure
    for structure in (
        Structure(1, "rows", 1),
        Structure(2, "rows", 6, rows.TRIANGLES),
        Structure(3, "rows", 2),
        Structure(4, "rows", 1),
        Structure(5, "squares", 2, needs="codegrees"),
        Structure(6, "rows", 2, rows.TRIANGLES),
        Structure(7, "rows", 2, rows.PAIRS),
        Structure(8, "cliques", 24, needs="links"),
        Structure(9, "rows", 2),
        Structure(10, "rows", 1),
        Structure(11, "rows", 1),
        Structure(12, "rows", 2, rows.TAILED),
        Structure(13, "rows", 2, rows.TRIANGLES),
        Structure(14, "rows", 2, rows.TRIANGLES),
        Structure(15, "pentagons", 1, needs="5-cycles"),
        Structure(16, "squares", 1, needs="codegrees"),
        Structure(17, "rows", 1, rows.PAIRS),
        Structure(18, "rows", 8, rows.TRIANGLES),
        Structure(20, "squares", 1, needs="codegrees"),
        Structure(22, "rows", 2, rows.TRIPLES),
        Structure(23, "cliques", 6, needs="links"),
        Structure(26, "cliques", 4, needs="links"),
    )
}


@dataclass(frozen=True)
class Ground:
    """What all streams of one graph share: the graph, its triangles, and the roots' weights from the closed
    forms.
    """

    graph: OrderedGraph
    lists: TriangleLists
    counts: CopyCounts
    passes: frozenset[str]
    _sums: dict[int, np.ndarray] = field(default_factory=dict, compare=False)  # of `_row_sums`, once made

    def structures(self) -> list[int]:
        """The structures whose roots can be weighed."""
        return [
            s for s, structure in STRUCTURES.items() if not structure.needs or structure.needs in self.passes
        ]


def root_weights(ground: Ground, shape: int, dtype: type) -> np.ndarray:
    """Weight of each vertex as the root of a structure, (n,) of `dtype` (int64, or float64 to see how large
    it is).
    """
    d: np.ndarray = ground.graph.degree.astype(dtype)
    if shape in (1, 4, 11):
        return _choose(d, {1: 2, 4: 3, 11: 4}[shape])
    if shape in (5, 16, 20):
        return ground.counts.squares[
            :, {5: codegrees.SQUARE, 16: codegrees.BANNER, 20: codegrees.K23}[shape]
        ].astype(dtype)
    if shape == 15:
        return ground.counts.cycles.astype(dtype)
    if shape in (8, 23):
        return 6 * ground.counts.cliques[:, 0].astype(dtype) * (np.maximum(d - 3, 0) if shape == 23 else 1)
    if shape == 26:
        return 2 * ground.counts.cliques[:, 1].astype(dtype)
    row = _row_sums(ground, STRUCTURES[shape].kind, dtype)
    if shape == 13:
        return row * _row_sums(ground, rows.TAILS, dtype)
    if shape in (9, 18):
        return row * row
    factor = {3: d - 1, 6: d - 2, 10: _choose(d - 1, 2), 12: d - 2, 14: _choose(d - 2, 2), 17: d - 3}
    return row * np.maximum(factor[shape], 0) if shape in factor else row


def root_copies(ground: Ground, shape: int) -> float:
    """What one draw of a structure chooses from: an occurrence that holds c copies is hit with chance c /
    this.
    """
    return float(root_weights(ground, shape, np.float64).sum()) / STRUCTURES[shape].ways


def _choose(n: np.ndarray, k: int) -> np.ndarray:
    result = np.maximum(n, 0)
    for i in range(1, k):
        result = result * np.maximum(n - i, 0) // (i + 1)
    return result


def _row_sums(ground: Ground, kind: int, dtype: type) -> np.ndarray:
    """Sum of the slots' weights in each row, as kernels.rows weighs them."""
    if kind not in ground._sums:
        ground._sums[kind] = segment_sums(ground.graph.indptr, _slot_weights(ground, kind))
    return ground._sums[kind].astype(dtype)


def _slot_weights(ground: Ground, kind: int) -> np.ndarray:
    te = ground.lists.te.astype(np.int64)
    if kind == rows.TRIANGLES:
        return te
    if kind == rows.PAIRS:
        return te * (te - 1) // 2
    if kind == rows.TRIPLES:
        return te * (te - 1) * (te - 2) // 6
    degree = ground.graph.degree[ground.graph.indices]
    return degree - 1 if kind == rows.TAILS else te * (degree - 2)


class Stream:
    """The endless sequence of draws of one structure. `copies` is what one draw chooses from, see
    `root_copies`.
    """

    def __init__(self, ground: Ground, shape: int, seed: int) -> None:
        self.structure = STRUCTURES[shape]
        self._ground = ground
        self._key = key_of(seed, shape, 1)
        self._root_key = key_of(seed, shape, 2)
        total = float(root_weights(ground, shape, np.float64).sum())
        # Beyond 2**62 weights are float64: a root's probability is then off by some parts in 2**52.
        self._dtype: type = np.int64 if total < MAX_TOTAL else np.float64
        self._cumulative: np.ndarray = np.cumsum(root_weights(ground, shape, self._dtype))
        self._total: int | float = self._cumulative[-1].item() if len(self._cumulative) else 0
        self.copies = float(self._total) / self.structure.ways

    def draw(
        self, first: int, count: int, *, threads: int | None = None, progress: Progress | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws first, …, first + count - 1: nodes int32 (count, 5) -1 padded, adjacency codes int64; -1:
        rejected.
        """
        numbers = np.arange(first, first + count, dtype=np.int64)
        goals: np.ndarray = scaled(self._root_key, numbers, self._total)
        roots = np.searchsorted(self._cumulative, goals, side="right")
        order = np.argsort(roots, kind="stable")
        numbers, roots = numbers[order], roots[order].astype(np.int32)
        nodes, codes = np.full((count, 5), -1, np.int32), np.empty(count, np.int64)
        segments = max(1, min(SEGMENTS, count // SEGMENT))
        cuts = np.linspace(0, count, segments + 1).astype(int)
        kernel = self._kernel()

        def part(i: int) -> None:
            here = slice(cuts[i], cuts[i + 1])
            kernel(numbers[here], roots[here], nodes[here], codes[here])

        run_parts(part, range(segments), threads=threads, progress=progress, label="drawing")
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        return nodes[back], codes[back]

    def _kernel(self) -> Callable[..., None]:
        shape, graph, lists = self.structure.shape, self._ground.graph, self._ground.lists
        size, known = SHAPES[shape].k, code_of(SHAPES[shape].edges)
        slots, corners = (graph.indptr, graph.indices), (lists.starts, lists.corners)
        key = np.uint64(self._key)
        kind = self.structure.kind
        families: dict[str, Callable[..., None]] = {
            "rows": lambda i, r, n, c: rows.draw_rows(
                shape, size, known, kind, key, i, r, *slots, *corners, n, c
            ),
            "squares": lambda i, r, n, c: draw_squares(shape, size, known, key, i, r, *slots, n, c),
            "pentagons": lambda i, r, n, c: draw_pentagons(known, key, i, r, *slots, n, c),
            "cliques": lambda i, r, n, c: draw_cliques(shape, size, known, key, i, r, *slots, *corners, n, c),
        }
        return families[self.structure.family]
