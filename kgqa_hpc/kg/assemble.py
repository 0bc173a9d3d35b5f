"""From tables of nodes and edges to a KnowledgeGraph: everything a graph must satisfy is checked here, once.

Readers only know their format; what a duplicate id, an unknown node or an empty name means is the same for
all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError
from kgqa_hpc.kg.graph import KnowledgeGraph

Lines = Callable[[int], int]


@dataclass(frozen=True)
class Policy:
    """How to treat what is not in order; the meaning of each field stands in `GraphConfig`."""

    unknown_nodes: Literal["error", "drop"] = "error"
    unnamed_nodes: Literal["drop", "error"] = "drop"
    duplicate_nodes: Literal["error", "first"] = "error"


@dataclass(frozen=True)
class NodeTable:
    """One row per node: large_string arrays of one length, no nulls. `line_of(row)` is its line in `file`."""

    file: str
    ids: pa.Array
    names: pa.Array
    types: pa.Array
    line_of: Lines


@dataclass(frozen=True)
class EdgeTable:
    """One row per edge: ids of its ends and its type, as in `NodeTable`."""

    file: str
    sources: pa.Array
    targets: pa.Array
    types: pa.Array
    line_of: Lines


def assemble(
    nodes: NodeTable, edges: EdgeTable, policy: Policy, attributes: Mapping[str, str | int]
) -> KnowledgeGraph:
    """Check and join the tables; node and edge order are those of the rows.

    Names become Unicode NFC, otherwise texts stay as found. Nodes without a name are kept with the name ""
    (reduction drops them) unless `policy.unnamed_nodes` is "error". What was dropped is counted in
    `attributes`.

    Raises GraphFormatError with file and line, EmptyGraphError when there is no node or no edge.
    """
    _refuse_empty(nodes.ids, nodes.file, nodes.line_of, "the node's id")
    _refuse_empty(edges.sources, edges.file, edges.line_of, "the edge's source")
    _refuse_empty(edges.targets, edges.file, edges.line_of, "the edge's target")
    first = _first_of_each_id(nodes, policy)
    ids = nodes.ids.filter(pa.array(first))
    names = _names(nodes, first, policy)
    source, target, known = _ends(edges, ids, nodes.file, policy)
    if not len(ids):
        raise EmptyGraphError(f"{nodes.file} has no node", "give at least one row after the header")
    if not known.any():
        raise EmptyGraphError(f"{edges.file} has no edge between known nodes", "is it the right file?")
    node_type, node_types = encode(nodes.types.filter(pa.array(first)))
    edge_type, edge_types = encode(edges.types.filter(pa.array(known)))
    dropped = {
        "dropped_duplicate_nodes": int((~first).sum()),
        "dropped_edges_with_unknown_nodes": int((~known).sum()),
    }
    return KnowledgeGraph(
        node_ids=to_objects(ids),
        names=to_objects(names),
        node_type=node_type,
        node_types=node_types,
        edge_source=source[known],
        edge_target=target[known],
        edge_type=edge_type,
        edge_types=edge_types,
        attributes={**attributes, **{key: count for key, count in dropped.items() if count}},
    )


def encode(values: pa.Array) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Codes int32 (n,) and the distinct values in the order of their first appearance."""
    encoded = values.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int32), tuple(encoded.dictionary.to_pylist())


def to_objects(values: pa.Array) -> npt.NDArray[np.object_]:
    """An object array of str."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=object)


def _refuse_empty(ids: pa.Array, file: str, line_of: Lines, what: str) -> None:
    row = pc.index(pc.utf8_trim_whitespace(ids), "").as_py()
    if row >= 0:
        raise GraphFormatError(
            f"{file} line {line_of(row):,}: {what} is empty", "fill it in or delete the line"
        )


def _first_of_each_id(nodes: NodeTable, policy: Policy) -> npt.NDArray[np.bool_]:
    """Which rows are kept: all, or with `duplicate_nodes: first` the first of each id."""
    codes = nodes.ids.dictionary_encode().indices.to_numpy()
    # Codes are given in order of appearance, so a new id is one above everything before it.
    highest = np.maximum.accumulate(np.append(-1, codes[:-1])) if len(codes) else codes
    first = codes > highest
    if policy.duplicate_nodes == "error" and not first.all():
        row = int(np.argmin(first))
        earlier = int(np.argmax(codes == codes[row]))
        raise GraphFormatError(
            f"{nodes.file} line {nodes.line_of(row):,}: node id {_shown(nodes.ids[row])}"
            f" already stands in line {nodes.line_of(earlier):,}"
            + _more(int((~first).sum()) - 1, "such line"),
            "delete one of them, or set graph.duplicate_nodes: first, which keeps the first of each",
        )
    return first


def _names(nodes: NodeTable, first: npt.NDArray[np.bool_], policy: Policy) -> pa.Array:
    """NFC names of the kept rows; blank ones are ""."""
    names = pc.utf8_normalize(nodes.names, "NFC")
    blank = pc.equal(pc.utf8_trim_whitespace(names), "")
    unnamed = first & blank.to_numpy(zero_copy_only=False)
    if policy.unnamed_nodes == "error" and unnamed.any():
        row = int(np.argmax(unnamed))
        raise GraphFormatError(
            f"{nodes.file} line {nodes.line_of(row):,}: node {_shown(nodes.ids[row])} has no name"
            + _more(int(unnamed.sum()) - 1, "such node"),
            "name it, or set graph.unnamed_nodes: drop, which leaves such nodes out, as published",
        )
    return pc.if_else(blank, pa.scalar("", pa.large_string()), names).filter(pa.array(first))


def _ends(
    edges: EdgeTable, ids: pa.Array, node_file: str, policy: Policy
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Node positions of both ends (-1: unknown) and which rows have both."""
    source, target = positions(edges.sources, ids), positions(edges.targets, ids)
    known = (source >= 0) & (target >= 0)
    if policy.unknown_nodes == "error" and not known.all():
        row = int(np.argmin(known))
        end, values = ("source", edges.sources) if source[row] < 0 else ("target", edges.targets)
        stripped = pa.array([values[row].as_py().strip()], pa.large_string())
        spaces = positions(stripped, ids)[0] >= 0
        raise GraphFormatError(
            f"{edges.file} line {edges.line_of(row):,}: {end} {_shown(values[row])} is not in {node_file}"
            + _more(int((~known).sum()) - 1, "such edge"),
            "the node file has it without the spaces around it"
            if spaces
            else "add it there, or run with --unknown-nodes drop (configuration: graph.unknown_nodes: drop)",
        )
    return source, target, known


def positions(values: pa.Array, ids: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value stands in `ids`, int32; -1 where it does not."""
    return pc.fill_null(pc.index_in(values, value_set=ids), -1).to_numpy(zero_copy_only=False)


def _more(count: int, what: str) -> str:
    return f" (and {count:,} more {what}{'s' if count > 1 else ''})" if count else ""


def _shown(value: pa.Scalar) -> str:
    """A value as it stands in a message: quoted, on one line, not longer than a line."""
    text = value.as_py()
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
