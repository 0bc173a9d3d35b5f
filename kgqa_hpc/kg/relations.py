"""Nodes and relations as anchors store them, their IRIs in RDF, and the index of the typed edges between nodes.

Edges are sorted by their pair of endpoints (lower, higher), so that the edges of a pair are one slice, found
by binary search. The index is queried for every graphlet of a run, up to a million times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Csr = tuple[Int64, Codes]  # compressed rows: indptr (n + 1,), indices


class Node(NamedTuple):  # a NamedTuple is created three times as fast as a frozen dataclass
    """A node of the knowledge graph: id, name and type."""

    id: str
    name: str
    type: str


class Relation(NamedTuple):
    """A typed, directed edge of the graph. `source` and `target` are positions in a list of nodes."""

    source: int
    target: int
    type: str


LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
RELATIONS = "urn:kgqa:relation:"  # prefix of the IRI of every relation


def iri(space: Literal["node", "relation", "type", "property"], name: str) -> str:
    """`<urn:kgqa:SPACE:…>` of a node's id, or of the name of a relation, type or property, percent-encoded."""
    return f"<urn:kgqa:{space}:{quote(name, safe='')}>"


@dataclass(frozen=True, eq=False, repr=False)
class RelationIndex:
    """Index of distinct typed edges by their pair of nodes.

    `pairs`: int64 (p + 1,), keys `lower << 32 | higher`, sorted and unique, followed by a sentinel larger than all
    keys. A padding node -1 gives a negative key, which matches no pair. The edges of pair i are
    `edges[starts[i]:starts[i+1]]`; `starts`: int64 (p + 1,). `edges`: int32 (r,), 2 * type code, plus 1 if the
    edge points from the higher to the lower node.
    """

    pairs: Int64
    starts: Int64
    edges: Codes
    types: tuple[str, ...]

    @classmethod
    def build(cls, source: Codes, target: Codes, kind: Codes, types: tuple[str, ...]) -> RelationIndex:
        """Sort the edges; self-loops and repetitions of an identical edge are left out."""
        real = source != target
        source, target, kind = source[real], target[real], kind[real]
        pair = np.minimum(source, target).astype(np.int64) << 32 | np.maximum(source, target)
        edge = 2 * kind + (source > target).astype(np.int32)
        order = np.lexsort((edge, pair))
        pair, edge = pair[order], edge[order]
        distinct = first_of_runs(pair) | first_of_runs(edge)
        pair, edge = pair[distinct], edge[distinct]
        starts = np.flatnonzero(first_of_runs(pair))
        pairs = np.append(pair[starts], np.iinfo(np.int64).max)
        return cls(pairs, np.append(starts, len(pair)), edge.astype(np.int32), types)

    def between_rows(self, nodes: Int64) -> Iterator[tuple[Relation, ...]]:
        """The relations of each row of an (N, k) array, in the order of `KnowledgeGraph.relations_between`.

        For five columns it takes about 450 bytes a row.
        """
        low_column, high_column = np.triu_indices(nodes.shape[1], 1)
        a, b = nodes[:, low_column], nodes[:, high_column]
        keys = np.minimum(a, b) << 32 | np.maximum(a, b)
        at = self.pairs.searchsorted(keys)
        hit = self.pairs[at] == keys
        row, pair = np.nonzero(hit)
        begin = self.starts[at[hit]]
        count = self.starts[at[hit] + 1] - begin
        # Positions of all edges of all hits, concatenated: each slice counts up from its begin.
        offset = np.cumsum(count) - count
        edge = self.edges[np.arange(count.sum()) + np.repeat(begin - offset, count)]
        # Relations with equal pair, order of nodes and edge are equal, so each is built once.
        shape = 2 * pair + (a > b)[hit]
        codes = 2 * len(self.types)
        kinds, kind = np.unique(np.repeat(shape, count) * codes + edge, return_inverse=True)
        relations = np.empty(len(kinds), dtype=object)
        for position, (shape_code, edge_code) in enumerate(divmod(k, codes) for k in kinds.tolist()):
            i, j = int(low_column[shape_code // 2]), int(high_column[shape_code // 2])
            backwards = shape_code % 2 != edge_code % 2
            relations[position] = Relation(*((j, i) if backwards else (i, j)), self.types[edge_code >> 1])
        flat = relations[kind].tolist()
        ends = np.cumsum(np.bincount(row, weights=count, minlength=len(nodes))).astype(np.int64)
        for start, end in pairwise([0, *ends.tolist()]):
            yield tuple(flat[start:end])


def first_of_runs(values: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Mask of the values that differ from their predecessor; for sorted values, of the distinct values."""
    # Sorting is five times faster than np.unique, which hashes.
    is_first = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return is_first
