"""The knowledge graph in memory: typed, named nodes and typed edges, as immutable arrays.

Nodes are positions 0..n-1 in the order of the input; types are codes into a tuple of names. Edges keep what
the input says: direction, parallel edges, self-loops. Counting and sampling look at the simple undirected
graph (`csr`), anchors at the typed edges between a few nodes (`relations_between`).

Properties are further columns of nodes and edges, typed as a whole. A column's cells are texts; an empty cell means
that the node or edge lacks the property. By its other cells a column is integer (all `-?(0|[1-9][0-9]*)`), else
decimal (all JSON numbers), else boolean (all true or false, any case), else text. An integer beyond 64 bits or a
number beyond a double makes its column text, so that no digit is lost. In memory a column is one Arrow array with
nulls: int64, double, bool or large_string.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.relations import Codes, Csr, Int64, Node, Relation, RelationIndex, first_of_runs
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.store.canonical import dumps

TYPES = {"integer": pa.int64(), "decimal": pa.float64(), "boolean": pa.bool_(), "text": pa.large_string()}

# Rows of a batch of relations: 65,536 graphlets of five nodes are 655,360 pairs, about 30 MB of arrays at the peak.
_ROWS = 65_536
SYNONYMS = "synonyms"  # the text property with other names of a node, joined by bars
INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_SURROGATE = re.compile("[\ud800-\udfff]")
_BOOLEAN = r"^(?i:true|false)$"


def typed(cells: pa.Array) -> pa.Array:
    """The cells (large_string; "" or null for no value) as a column of the type that fits all of them."""
    cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, cells.type), cells)
    for pattern, kind in ((INTEGER, "integer"), (_NUMBER, "decimal"), (_BOOLEAN, "boolean")):
        # A look at the first cells avoids three passes over most text columns.
        matches = (pc.match_substring_regex(part, pattern) for part in (cells.slice(0, 64), cells))
        if not all(pc.all(match, skip_nulls=True, min_count=0).as_py() for match in matches):
            continue
        try:
            column = cells.cast(TYPES[kind])
        except pa.ArrowInvalid:  # an integer beyond 64 bits
            break
        if kind != "decimal" or pc.all(pc.is_finite(column), skip_nulls=True, min_count=0).as_py():
            return column
    return cells.cast(TYPES["text"])


def cell(value: Any) -> str:
    """A JSON value as the cell of a column: a text as it is, the items of a list between bars, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(member, list | dict) for member in value):
        return "|".join(map(cell, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def type_name(column: pa.Array) -> str:
    """integer, decimal, boolean or text. Raises KeyError for a column of another type."""
    return {kind: name for name, kind in TYPES.items()}[column.type]


Strings = npt.NDArray[np.object_]
Mask = npt.NDArray[np.bool_]
Properties = Mapping[str, pa.Array]


@dataclass(frozen=True, eq=False, repr=False)
class KnowledgeGraph:
    """Typed nodes and edges; every array is read-only.

    `node_ids`, `names`: object arrays of str, shape (n,); ids are unique, a node without a name has "".
    `node_type`: int32 (n,), codes into `node_types`. `edge_source`, `edge_target`: int32 (m,), node
    positions. `edge_type`: int32 (m,), codes into `edge_types`. `attributes`: where the graph comes from
    (source, version, licence, citation) and what its reader dropped; plain strings and numbers.
    `node_properties`, `edge_properties`: further columns by name, Arrow arrays of n or m values, each of type
    int64, double, bool or large_string, null where a node or edge lacks it (kg/graph.py). Raises
    ValueError when lengths or codes do not fit together.
    """

    node_ids: Strings
    names: Strings
    node_type: Codes
    node_types: tuple[str, ...]
    edge_source: Codes
    edge_target: Codes
    edge_type: Codes
    edge_types: tuple[str, ...]
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    node_properties: Properties = field(default_factory=dict)
    edge_properties: Properties = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes, edges = len(self.node_ids), len(self.edge_source)
        codes = {"node_type": len(self.node_types), "edge_type": len(self.edge_types)}
        codes |= {"edge_source": nodes, "edge_target": nodes}
        for name in ("node_ids", "names", *codes):
            values = np.asarray(getattr(self, name), None if name in codes else object)
            length = edges if name.startswith("edge") else nodes
            if values.shape != (length,):
                raise ValueError(f"{name} has shape {values.shape}, expected ({length},)")
            if name in codes and length and values.dtype.kind not in "iu":
                raise ValueError(f"{name} holds {values.dtype}, expected integers")
            if name in codes and length and (values.min() < 0 or values.max() >= codes[name]):
                raise ValueError(f"{name} has values outside 0..{codes[name] - 1}")
            array = values.astype(np.int32 if name in codes else object, copy=False).view()
            array.flags.writeable = False  # only this view is read-only; the caller's array stays writable
            object.__setattr__(self, name, array)
        for properties, length in ((self.node_properties, nodes), (self.edge_properties, edges)):
            for name, column in properties.items():
                if len(column) != length:
                    raise ValueError(f"property {name!r} has {len(column)} values, expected {length}")

    def __repr__(self) -> str:
        return f"KnowledgeGraph({self.num_nodes:,} nodes, {self.num_edges:,} edges)"

    @property
    def num_nodes(self) -> int:
        return len(self.node_ids)

    @property
    def num_edges(self) -> int:
        """Number of typed edges in the input; the simple undirected graph has `len(csr()[1]) // 2`."""
        return len(self.edge_source)

    def csr(self) -> Csr:
        """The simple undirected graph: indptr int64 (n+1,), indices int32 (2*m',), both ways, rows sorted.

        No self-loops, no parallel edges. Built by the first call and cached.
        """
        return self._csr

    @cached_property
    def _csr(self) -> Csr:
        return simple_csr(self.num_nodes, self.edge_source, self.edge_target)

    def release_csr(self) -> None:
        """Free the cached arrays of `csr` (8 bytes an edge), for a caller that has its own copy."""
        self.__dict__.pop("_csr", None)

    def degrees(self) -> Int64:
        """Degrees on the simple undirected graph, int64 (n,); its rows are not kept in memory."""
        return np.diff(simple_csr(self.num_nodes, self.edge_source, self.edge_target)[0])

    def node(self, position: int) -> Node:
        """The node at a position, in the form used in anchors."""
        kind = self.node_types[self.node_type[position]]
        return Node(self.node_ids[position], self.names[position], kind)

    def relations_between(self, nodes: Sequence[int]) -> tuple[Relation, ...]:
        """All typed edges between the given nodes, with direction; parallel ones too, identical rows once.

        `source` and `target` are positions in `nodes`; negative entries are padding. Self-loops are left out.
        The order follows pairs (0,1), (0,2), ..., then type and direction.
        """
        return next(self._relation_index.between_rows(np.array([nodes], dtype=np.int64)))

    def relations_for(self, nodes: npt.NDArray[np.int32]) -> Iterator[tuple[Relation, ...]]:
        """`relations_between` of every row of an int (N, k) array, -1 padded."""
        asked = np.zeros(self.num_nodes + 1, dtype=bool)  # the additional entry is for the padding -1
        asked[nodes] = True
        inner = asked[self.edge_source] & asked[self.edge_target]
        edges = (self.edge_source[inner], self.edge_target[inner], self.edge_type[inner])
        index = RelationIndex.build(*edges, self.edge_types)
        for start in range(0, len(nodes), _ROWS):
            yield from index.between_rows(nodes[start : start + _ROWS].astype(np.int64))

    @cached_property
    def _relation_index(self) -> RelationIndex:
        return RelationIndex.build(self.edge_source, self.edge_target, self.edge_type, self.edge_types)

    def subgraph(self, keep: Mask) -> KnowledgeGraph:
        """The nodes where `keep` (bool (n,)) is true and the edges between them, in their order."""
        keep = np.asarray(keep, dtype=bool)
        if keep.shape != (self.num_nodes,):
            raise ValueError(f"the mask has shape {keep.shape}, expected ({self.num_nodes},)")
        if keep.all():
            return self
        position = np.cumsum(keep, dtype=np.int64).astype(np.int32) - np.int32(1)
        inner = self.with_edges(keep[self.edge_source] & keep[self.edge_target])
        return replace(
            inner,
            node_ids=self.node_ids[keep],
            names=self.names[keep],
            node_type=self.node_type[keep],
            edge_source=position[inner.edge_source],
            edge_target=position[inner.edge_target],
            node_properties=_kept(self.node_properties, keep),
        )

    def with_edges(self, keep: Mask) -> KnowledgeGraph:
        """The same nodes with only the edges where `keep` (bool (m,)) is true."""
        if np.all(keep):
            return self
        return replace(
            self,
            edge_source=self.edge_source[keep],
            edge_target=self.edge_target[keep],
            edge_type=self.edge_type[keep],
            edge_properties=_kept(self.edge_properties, keep),
        )

    def with_opposites(self, edges: Mask) -> KnowledgeGraph:
        """The graph with the missing opposites of `edges` (bool (m,)) appended, each with its edge's properties."""
        extra = np.flatnonzero(edges & self.one_way())
        properties = self.edge_properties.items()
        return replace(
            self,
            edge_source=np.append(self.edge_source, self.edge_target[extra]),
            edge_target=np.append(self.edge_target, self.edge_source[extra]),
            edge_type=np.append(self.edge_type, self.edge_type[extra]),
            edge_properties={name: pa.concat_arrays([c, c.take(pa.array(extra))]) for name, c in properties},
        )

    def one_way(self) -> Mask:
        """Mask (m,) of the edges whose opposite, of the same type, is no edge of the graph."""
        source, target, nodes = self.edge_source, self.edge_target, np.int64(self.num_nodes)
        pair = (self.edge_type * nodes + np.minimum(source, target)) * nodes + np.maximum(source, target)
        order = np.argsort(pair)  # sorting is ten times as fast as np.isin
        starts = np.flatnonzero(first_of_runs(pair[order]))
        there = source[order] < target[order]
        both = np.logical_or.reduceat(there, starts) > np.logical_and.reduceat(there, starts)
        one_way = np.empty(len(pair), bool)
        one_way[order] = np.repeat(~both, np.diff(np.append(starts, len(pair))))
        return one_way & (source != target)

    def facts_of_edge_types(self) -> dict[str, set[str]]:
        """Facts of each edge type that make questions about it ambiguous.

        `forward`, `backward`: its targets, its sources are nodes of several types. `mixed`: its edges join the same
        types of nodes in both directions, some without the opposite edge.
        """
        kinds = np.int64(len(self.node_types))
        source, target = self.node_type[self.edge_source], self.node_type[self.edge_target]
        facts: dict[str, set[str]] = {name: set() for name in self.edge_types}
        for direction, ends in (("forward", target), ("backward", source)):
            pairs = np.unique(self.edge_type * kinds + ends)
            for code in np.flatnonzero(np.bincount(pairs // kinds) > 1):
                facts[self.edge_types[code]].add(direction)
        there, back = (
            (self.edge_type * kinds + a) * kinds + b for a, b in ((source, target), (target, source))
        )
        for code in np.unique(self.edge_type[self.one_way() & np.isin(there, back)]):
            facts[self.edge_types[code]].add("mixed")
        return facts


def faults_of(graph: KnowledgeGraph) -> Iterator[str]:
    """A sentence for each part of a graph that kg.h5 cannot hold or that `Assembly` refuses."""
    for name in ("node_ids", "names", "node_types", "edge_types", "node_properties", "edge_properties"):
        texts = list(getattr(graph, name))
        for position, text in enumerate(texts):
            if not isinstance(text, str) or _SURROGATE.search(text):
                yield f"{name}[{position:,}] is {text!r:.80}, no text"
        repeated = [text for text, number in Counter(texts).items() if number > 1]
        if repeated and name != "names":
            yield f"{len(repeated):,} {name.replace('_', ' ')} stand twice, e.g. {repeated[0]!r}"
    if blank := sum(not node.strip() for node in graph.node_ids):
        yield f"{blank:,} node ids are empty"
    for name, column in (*graph.node_properties.items(), *graph.edge_properties.items()):
        kind = column.type if isinstance(column, pa.Array) else type(column).__name__
        if kind not in TYPES.values():
            yield f"property {name!r} is {kind}, none of {', '.join(map(str, TYPES.values()))}"
        elif kind == TYPES["decimal"] and not pc.all(pc.is_finite(column), min_count=0).as_py():
            yield f"property {name!r} holds nan or inf"
    try:
        dumps(dict(graph.attributes))
    except (TypeError, ValueError) as problem:
        yield f"attributes cannot be stored: {problem}"


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


def components(indptr: Int64, indices: Codes) -> Codes:
    """The component of each node, int32 (n,), numbered by their first node."""
    nodes = len(indptr) - 1
    matrix = csr_array((np.ones(len(indices), bool), indices, indptr), (nodes, nodes))
    component: Codes = connected_components(matrix, directed=False)[1]
    return component


def of_types(key: str, types: Collection[str], codes: Codes, type_names: tuple[str, ...]) -> Mask:
    """Mask of the codes that belong to the types. Raises InputError for an unknown type."""
    element = "edge" if "edge" in key else "node"
    if unknown := [name for name in types if name not in type_names]:
        raise InputError(
            f"{key}: the graph has no {element} type {unknown[0]!r}{did_you_mean(unknown[0], type_names)}",
            f"its {element} types: {', '.join(sorted(type_names)[:20])}",
        )
    return np.isin(codes, [code for code, name in enumerate(type_names) if name in types])


def counts_by_name(codes: Codes, names: Sequence[str]) -> dict[str, int]:
    """How often each code occurs, by its name: the most frequent first, without names that do not occur."""
    counts = np.bincount(codes, minlength=len(names))
    order = np.argsort(-counts, kind="stable").tolist()
    return {names[code]: int(counts[code]) for code in order if counts[code]}


def _kept(columns: Properties, keep: Mask) -> Properties:
    return {name: column.filter(pa.array(keep)) for name, column in columns.items()}
