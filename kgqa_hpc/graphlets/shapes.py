"""The 29 connected shapes on 3-5 nodes (ids and edge templates as published), and occurrences of them in a graph.

`SHAPES` is the only definition of the shapes in the code (BioGraphletQA, Figure 5 and Table 1; ids and edges
as in the published template file). Everything else here is derived from it once, at import:

- an *adjacency code*: the pair (i, j), i < j, of positions 0..k-1 is bit j(j-1)/2 + i, so a set of edges on
  k positions is a number below 2**(k(k-1)/2); `SHAPE_OF[k][code]` is its shape id, 0 when it is not
  connected;
- `POSITIONS[k][code, t]`: which position holds node t of the shape's template;
- `SUBCOPIES[t][s]`: how many copies of shape s (as a not necessarily induced subgraph on all nodes) shape t
  contains.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape: published id, our name, number of nodes, published edge template over nodes 0..k-1."""

    id: int
    name: str
    k: int
    edges: tuple[Edge, ...]


def _shape(id: int, name: str, k: int, edges: str) -> Shape:
    pairs = tuple((int(pair[0]), int(pair[1])) for pair in edges.split())
    return Shape(id, name, k, pairs)


SHAPES: dict[int, Shape] = {
    shape.id: shape
    for shape in (
        _shape(1, "path-3", 3, "01 12"),
        _shape(2, "triangle", 3, "01 12 20"),
        _shape(3, "path-4", 4, "01 12 23"),
        _shape(4, "star-4", 4, "01 02 03"),
        _shape(5, "square", 4, "01 12 23 03"),
        _shape(6, "paw", 4, "01 12 23 02"),
        _shape(7, "diamond", 4, "01 12 23 30 02"),
        _shape(8, "clique-4", 4, "01 12 23 30 02 13"),
        _shape(9, "path-5", 5, "01 12 23 34"),
        _shape(10, "fork", 5, "01 02 03 34"),
        _shape(11, "star-5", 5, "01 02 03 04"),
        _shape(12, "bull", 5, "01 12 02 13 24"),
        _shape(13, "lollipop", 5, "01 12 23 34 02"),
        _shape(14, "cricket", 5, "01 02 03 04 12"),
        _shape(15, "pentagon", 5, "01 12 23 34 40"),
        _shape(16, "banner", 5, "01 12 23 34 03"),
        _shape(17, "dart", 5, "01 12 23 34 03 13"),
        _shape(18, "butterfly", 5, "01 02 03 04 12 34"),
        _shape(19, "kite", 5, "01 12 23 34 02 03"),
        _shape(20, "K2,3", 5, "01 12 23 34 03 14"),
        _shape(21, "house", 5, "01 12 02 13 24 34"),
        _shape(22, "book", 5, "01 12 23 34 03 14 31"),
        _shape(23, "clique-4 with tail", 5, "01 12 23 30 02 13 04"),
        _shape(24, "gem", 5, "01 12 23 34 02 03 04"),
        _shape(25, "diamond-plus-one", 5, "01 12 23 34 03 14 24"),
        _shape(26, "clique-4 with triangle", 5, "01 12 23 34 03 14 31 20"),
        _shape(27, "wheel", 5, "01 23 34 14 31 20 42 40"),
        _shape(28, "clique-5 minus edge", 5, "01 12 23 34 02 03 04 13 14"),
        _shape(29, "clique-5", 5, "01 12 23 34 02 03 04 13 14 24"),
    )
}
MAX_SHAPE = max(SHAPES)
SLOTS = MAX_SHAPE + 1  # arrays are indexed by shape id; index 0 stands for disconnected sets


def bit(i: int, j: int) -> int:
    """Number of the bit that stands for the pair {i, j} in an adjacency code."""
    low, high = min(i, j), max(i, j)
    return high * (high - 1) // 2 + low


def code_of(edges: Iterable[Edge], permutation: Sequence[int] | None = None) -> int:
    """Adjacency code of a set of edges; `permutation[t]` is the position of node t (default: t itself)."""
    code = 0
    for a, b in edges:
        code |= 1 << (bit(a, b) if permutation is None else bit(permutation[a], permutation[b]))
    return code


def _code_tables() -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    shape_of = {k: np.zeros(1 << (k * (k - 1) // 2), np.int64) for k in (3, 4, 5)}
    positions = {k: np.zeros((1 << (k * (k - 1) // 2), k), np.int64) for k in (3, 4, 5)}
    for shape in SHAPES.values():
        for permutation in itertools.permutations(range(shape.k)):
            code = code_of(shape.edges, permutation)
            if shape_of[shape.k][code] == 0:
                shape_of[shape.k][code] = shape.id
                positions[shape.k][code] = permutation
    return shape_of, positions


SHAPE_OF, POSITIONS = _code_tables()


def _subcopies(shape: Shape) -> dict[int, int]:
    """Copies of every shape on the same nodes, by brute force over the subsets of edges (at most 2**10)."""
    copies: dict[int, int] = {}
    for size in range(shape.k - 1, len(shape.edges) + 1):
        for subset in itertools.combinations(shape.edges, size):
            inner = int(SHAPE_OF[shape.k][code_of(subset)])
            if inner:
                copies[inner] = copies.get(inner, 0) + 1
    return copies


SUBCOPIES: dict[int, dict[int, int]] = {shape.id: _subcopies(shape) for shape in SHAPES.values()}


AUTOMORPHISMS: dict[int, np.ndarray] = {
    shape.id: np.array(
        [
            permutation
            for permutation in itertools.permutations(range(shape.k))
            if code_of(shape.edges, permutation) == code_of(shape.edges)
        ],
        np.int64,
    )
    for shape in SHAPES.values()
}


def template_order(shape: int, nodes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Bring occurrences of one shape into the labelling of its template.

    `nodes` (m, 5) integer holds the nodes in any order, -1 padded; `codes` (m,) their adjacency codes. Of the
    labellings that fit the template (one per automorphism) the lexicographically smallest is returned, so the
    labelling depends on the occurrence alone, not on the sampling method or its order.
    """
    k = SHAPES[shape].k
    placed = np.take_along_axis(nodes[:, :k], POSITIONS[k][codes], axis=1)
    out = np.full((len(nodes), 5), -1, nodes.dtype)
    symmetric = AUTOMORPHISMS[shape]
    alive = np.ones((len(nodes), len(symmetric)), bool)
    top = np.iinfo(nodes.dtype).max
    for t in range(k):
        candidates = np.where(alive, placed[:, symmetric[:, t]], top)
        out[:, t] = candidates.min(axis=1)
        alive &= candidates == out[:, t, None]
    return out


@dataclass(frozen=True)
class Occurrences:
    """Occurrences of shapes as a sampler gives them.

    shape int64 (m,); nodes int32 (m, 5) in the labels of the ordered graph, -1 padded; codes int64 (m,):
    adjacency codes of these nodes in this order; position int64 (m,): samples with per_shape > position
    contain the occurrence.
    """

    shape: np.ndarray
    nodes: np.ndarray
    codes: np.ndarray
    position: np.ndarray

    @classmethod
    def join(cls, parts: Sequence[Occurrences]) -> Occurrences:
        """Concatenate `parts`."""
        parts = [cls.empty(), *parts]
        columns = ("shape", "nodes", "codes", "position")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))

    @classmethod
    def empty(cls, size: int = 0) -> Occurrences:
        """Arrays for `size` occurrences, to be filled."""
        shape, codes, position = (np.zeros(size, np.int64) for _ in range(3))
        return cls(shape, np.full((size, 5), -1, np.int32), codes, position)

    def arranged(self, original: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The occurrences labelled by template, sorted by shape and nodes; `original` int32 (n,) is each label's node.

        Returns shape int16 (m,), nodes int32 (m, 5), position int64 (m,).
        """
        original = np.append(original, np.int32(-1))  # so that the padding -1 is mapped to -1
        shapes, rows = [np.zeros(0, np.int16)], [np.zeros((0, 5), np.int32)]
        positions = [np.zeros(0, np.int64)]
        for shape in SHAPES:
            which = self.shape == shape
            if not which.any():
                continue
            nodes = template_order(shape, original[self.nodes[which]], self.codes[which])
            order = np.lexsort(nodes.T[::-1])
            shapes.append(np.full(len(order), shape, np.int16))
            rows.append(nodes[order])
            positions.append(self.position[which][order])
        return np.concatenate(shapes), np.concatenate(rows), np.concatenate(positions)
