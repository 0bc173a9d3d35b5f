"""The graph of a script: typed nodes and edges with properties, read from two CSV files or the kg.h5 of a run, and the
nodes and edges that the script created.

The graph that was read never changes; created nodes and edges have the positions after it. Neighbourhoods are sorted
rows, built when a search first needs them.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.delimited import CSV, DelimitedFile
from kgqa_hpc.kg.graph import INTEGER, KnowledgeGraph, typed
from kgqa_hpc.kg.sources.csv import EDGE_COLUMNS, NODE_COLUMNS, header_names, unique
from kgqa_hpc.plugins.gasl.language import number
from kgqa_hpc.text.streams import TextStream

Item = dict[str, Any]
# Of all nodes' edges, sorted: the start of each node's part, then the other end and the position of each edge.
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
# A step of a search: the next node, and the positions of all edges that lead there.
Step = tuple[int, list[int]]


@dataclass(frozen=True, eq=False)
class Table:
    """Nodes or edges as they were read, in columns of one length.

    `columns`: id, name and type of nodes; source and target (ids of nodes) and type of edges. A column of `properties`
    holds one JSON value for each node or edge, None where it lacks the property.
    """

    columns: Mapping[str, Sequence[str]]
    properties: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.columns["type"])

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(self.columns["type"])


@dataclass(frozen=True, eq=False)
class PropertyGraph:
    """A graph as it was read, of m edges.

    `sources` and `targets`: int32 (m,), positions of nodes. `digest`: SHA-256 of the files.
    """

    nodes: Table
    edges: Table
    sources: np.ndarray
    targets: np.ndarray
    digest: str
    # Sorted neighbourhoods by direction, built when a search first needs them; every script shares them.
    rows: dict[str, Rows] = field(default_factory=dict, init=False)

    @cached_property
    def positions(self) -> dict[str, int]:
        return {node_id: position for position, node_id in enumerate(self.nodes.columns["id"])}

    def row(self, node: int, direction: str) -> list[tuple[int, int]]:
        """The edges out of a node or into it as pairs (other end, position of the edge), sorted."""
        if direction not in self.rows:
            near, far = self.sources, self.targets
            if direction == "in":
                near, far = far, near
            edges = np.arange(len(near))
            order = np.lexsort((edges, far, near))
            starts = np.zeros(len(self.nodes) + 1, np.int64)
            np.cumsum(np.bincount(near, minlength=len(self.nodes)), out=starts[1:])
            self.rows[direction] = starts, far[order], edges[order]
        starts, ends, edges = self.rows[direction]
        part = slice(starts[node], starts[node + 1])
        return list(zip(ends[part].tolist(), edges[part].tolist(), strict=True))


@dataclass(frozen=True)
class Items:
    """Nodes or edges as items by position: those that were read, followed by those that a script created (`new`)."""

    table: Table
    new: list[Item]

    def __len__(self) -> int:
        return len(self.table) + len(self.new)

    def __getitem__(self, position: int) -> Item:
        count = len(self.table)
        if position >= count:
            return self.new[position - count]
        item: Item = {name: column[position] for name, column in self.table.columns.items()}
        cells = self.table.properties.items()
        item["properties"] = {name: x for name, column in cells if (x := column[position]) is not None}
        return item

    def __iter__(self) -> Iterator[Item]:
        return map(self.__getitem__, range(len(self)))

    def cell(self, column: str, position: int) -> str:
        """The id, type … of one node or edge; faster than the whole item."""
        cells = self.table.columns[column]
        text: str = cells[position] if position < len(cells) else self.new[position - len(cells)][column]
        return text

    def fields(self) -> set[str]:
        """All names that the first step of a field can have; requires at least one node or edge."""
        created = (name for item in self.new for name in item["properties"])
        return {*self.table.columns, "properties", *self.table.properties, *created}


class Graph:
    """A graph that was read, followed by the nodes and edges that a script created."""

    def __init__(
        self, base: PropertyGraph, new_nodes: list[Item] | None = None, new_edges: list[Item] | None = None
    ) -> None:
        self.base = base
        self.nodes = Items(base.nodes, [] if new_nodes is None else new_nodes)
        self.edges = Items(base.edges, [] if new_edges is None else new_edges)
        self._index()

    def _index(self) -> None:
        count = len(self.base.nodes)
        self._new_positions = {node["id"]: position for position, node in enumerate(self.nodes.new, count)}
        self._new_rows: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._keys: dict[int, set[tuple[int, str]]] = {}
        for position, edge in enumerate(self.edges.new, len(self.base.sources)):
            self._index_edge(position, edge)

    def _index_edge(self, position: int, edge: Item) -> None:
        source, target = self.position(edge["source"]), self.position(edge["target"])
        assert source is not None
        assert target is not None
        self._new_rows.setdefault(("out", source), []).append((target, position))
        self._new_rows.setdefault(("in", target), []).append((source, position))
        if source in self._keys:
            self._keys[source].add((target, edge["type"]))

    def position(self, node: Any) -> int | None:
        """The position of the node with an id."""
        if not isinstance(node, str):
            return None
        return self.base.positions.get(node, self._new_positions.get(node))

    def has_edge(self, source: int, target: int, kind: str) -> bool:
        """Whether an edge of this type leads from one node to the other."""
        if source not in self._keys:
            self._keys[source] = {(end, self.edges.cell("type", edge)) for end, edge in self.row(source)}
        return (target, kind) in self._keys[source]

    def add_node(self, item: Item) -> None:
        self._new_positions[item["id"]] = len(self.nodes)
        self.nodes.new.append(item)

    def add_edge(self, item: Item) -> None:
        """Add an edge between two existing nodes."""
        self._index_edge(len(self.edges), item)
        self.edges.new.append(item)

    def forget(self, nodes: int, edges: int) -> int:
        """Undo the creation of nodes and edges beyond the first `nodes` and `edges`; return how many were reindexed."""
        if (nodes, edges) == (len(self.nodes.new), len(self.edges.new)):
            return 0
        del self.nodes.new[nodes:]
        del self.edges.new[edges:]
        self._index()
        return nodes + edges

    def row(self, node: int, direction: str = "out") -> list[tuple[int, int]]:
        """The edges at a node, loops too, as pairs (other end, position of the edge), sorted."""
        row: list[tuple[int, int]] = []
        for side in ("out", "in") if direction == "both" else (direction,):
            row += self.base.row(node, side) if node < len(self.base.nodes) else ()
            row += self._new_rows.get((side, node), ())
        return sorted(row)

    def neighbours(self, node: int, direction: str) -> list[Step]:
        """Adjacent nodes, without the node itself, sorted by position; each with its connecting edges, sorted too."""
        steps: list[Step] = []
        last = node
        for end, edge in self.row(node, direction):
            if end == node:
                continue
            if end != last:
                steps.append((end, []))
                last = end
            steps[-1][1].append(edge)
        return steps


def read_tables(nodes: Path, edges: Path) -> PropertyGraph:
    """The graph of nodes.csv and edges.csv; further columns become properties.

    Unlike a run's graph it may lack nodes or edges, and texts stay exactly as they are. Raises
    GraphFormatError with file and line for a missing or doubled column, a doubled id, an unknown end.
    """
    node_file, node_texts, node_properties = _table(nodes, NODE_COLUMNS)
    edge_file, edge_texts, edge_properties = _table(edges, EDGE_COLUMNS)

    def refuse(file: DelimitedFile, texts: pa.Array, wrong: np.ndarray, problem: str, cure: str) -> None:
        """Raise GraphFormatError for the first row that is `wrong`, bool (n,)."""
        if wrong.any():
            row = int(np.argmax(wrong))
            position = f"{file.path.name} line {file.line_of(1, row):,}"
            raise GraphFormatError(f"{position}: {problem.format(texts[row].as_py()[:80])}", cure)

    ids = node_texts["id"]
    codes = ids.dictionary_encode().indices.to_numpy()
    # Codes are given in order of appearance, so a new id is one above everything before it.
    again = codes <= np.maximum.accumulate(np.append(-1, codes[:-1])) if len(codes) else codes
    refuse(node_file, ids, again, "node id {!r} stands twice", "delete one of them")
    ends = []
    for column in ("source_id", "target_id"):
        texts = edge_texts[column]
        positions = pc.fill_null(pc.index_in(texts, value_set=ids), -1).to_numpy(zero_copy_only=False)
        problem, cure = "{!r} is not in the file of nodes", "add it there, or delete the line"
        refuse(edge_file, texts, positions < 0, problem, cure)
        ends.append(positions)
    digest = hashlib.sha256()
    for path in (nodes, edges):
        with TextStream(path) as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    node_columns = {name: texts.to_pylist() for name, texts in node_texts.items()}
    edge_columns = {name.removesuffix("_id"): texts.to_pylist() for name, texts in edge_texts.items()}
    tables = Table(node_columns, node_properties), Table(edge_columns, edge_properties)
    return PropertyGraph(*tables, ends[0], ends[1], digest.hexdigest())


def from_run(graph: KnowledgeGraph, digest: str) -> PropertyGraph:
    """The graph of a run's kg.h5."""
    node_types = np.asarray(graph.node_types, dtype=object)[graph.node_type]
    edge_types = np.asarray(graph.edge_types, dtype=object)[graph.edge_type]
    sources, targets = (graph.node_ids[ends].tolist() for ends in (graph.edge_source, graph.edge_target))
    nodes = {"id": graph.node_ids.tolist(), "name": graph.names.tolist(), "type": node_types.tolist()}
    edges = {"source": sources, "target": targets, "type": edge_types.tolist()}
    return PropertyGraph(
        Table(nodes, _plain(graph.node_properties)),
        Table(edges, _plain(graph.edge_properties)),
        sources=graph.edge_source,
        targets=graph.edge_target,
        digest=digest,
    )


def _table(
    path: Path, required: Sequence[str]
) -> tuple[DelimitedFile, dict[str, pa.Array], dict[str, list[Any]]]:
    """A file with its required columns, large_string arrays of one length, and its typed properties."""
    file = DelimitedFile.open(path, CSV)
    names = header_names(file, required)
    for name in names:
        if names.count(name) > 1:
            position = f"{file.path.name} line {file.first_record.line:,}"
            raise GraphFormatError(f"{position}: column {name[:100]!r} stands twice", "rename one of them")
    names = unique(names)
    batches = list(file.rows(names, names, header=True))
    columns = {name: pa.concat_arrays([batch[name] for batch in batches]) for name in names}
    texts = {name: columns.pop(name) for name in required}
    return file, texts, _plain({name: _typed(column) for name, column in columns.items()})


def _typed(cells: pa.Array) -> pa.Array | list[Any]:
    """The column with the type that all its cells have; whole numbers of any size stay whole."""
    column = typed(cells)
    if pa.types.is_large_string(column.type):
        matches = pc.match_substring_regex(column, INTEGER)
        if column.null_count < len(column) and pc.all(matches, skip_nulls=True).as_py():
            numbers = [None if cell is None else number(cell) for cell in column.to_pylist()]
            if numbers.count(None) == column.null_count:  # no number is beyond 1e308
                return numbers
    return column


def _plain(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns that any node or edge has, as lists of JSON values and None."""
    lists = ((name, x if isinstance(x, list) else x.to_pylist()) for name, x in columns.items())
    return {name: values for name, values in lists if any(value is not None for value in values)}
