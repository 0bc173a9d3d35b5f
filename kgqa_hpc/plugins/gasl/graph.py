"""The graph of a script: typed nodes and edges with properties, and the nodes and edges that the script created.

The graph that was read never changes; created nodes and edges have the positions after it. Neighbourhoods are sorted
rows, built when a search first needs them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

Item = dict[str, Any]
# Where each node's row begins, the other end and the position of each edge in it.
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
# Another node and the positions of the edges that lead there.
Step = tuple[int, list[int]]
NODE_FIELDS = ("id", "name", "type", "properties")
EDGE_FIELDS = ("source", "target", "type", "properties")


@dataclass(frozen=True, eq=False)
class PropertyGraph:
    """A graph as it was read. All sequences of nodes are of one length n, all of edges of one length m.

    `sources` and `targets`: int32 (m,), positions of nodes. A column of properties holds one JSON value for
    each node or edge, None where it lacks the property. `digest`: SHA-256 of what was read.
    """

    ids: Sequence[str]
    names: Sequence[str]
    types: Sequence[str]
    node_properties: Mapping[str, Sequence[Any]]
    sources: np.ndarray
    targets: np.ndarray
    edge_types: Sequence[str]
    edge_properties: Mapping[str, Sequence[Any]]
    digest: str
    # Sorted neighbourhoods by direction, built when a search first needs them; every script shares them.
    rows: dict[str, Rows] = field(default_factory=dict, init=False)

    @cached_property
    def positions(self) -> dict[str, int]:
        return {node_id: position for position, node_id in enumerate(self.ids)}

    @cached_property
    def ends(self) -> tuple[list[int], list[int]]:
        """Sources and targets as lists, because a search reads single edges, which is slow in arrays."""
        return self.sources.tolist(), self.targets.tolist()

    @cached_property
    def known_types(self) -> tuple[frozenset[str], frozenset[str]]:
        """Types of nodes and of edges."""
        return frozenset(self.types), frozenset(self.edge_types)


@dataclass
class Graph:
    """A graph that was read, followed by the nodes and edges that a script created."""

    base: PropertyGraph
    new_nodes: list[Item] = field(default_factory=list)
    new_edges: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._index()

    def _index(self) -> None:
        self._new_positions: dict[str, int] = {}
        self._new_ends: list[tuple[int, int]] = []
        self._new_rows: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._keys: dict[int, set[tuple[int, str]]] = {}
        for position, node in enumerate(self.new_nodes, len(self.base.ids)):
            self._new_positions[node["id"]] = position
        for position, edge in enumerate(self.new_edges, len(self.base.sources)):
            self._index_edge(position, edge)

    def _index_edge(self, position: int, edge: Item) -> tuple[int, int]:
        source, target = self.position(edge["source"]), self.position(edge["target"])
        assert source is not None
        assert target is not None
        self._new_rows.setdefault(("out", source), []).append((target, position))
        self._new_rows.setdefault(("in", target), []).append((source, position))
        self._new_ends.append((source, target))
        return source, target

    @property
    def num_nodes(self) -> int:
        return len(self.base.ids) + len(self.new_nodes)

    @property
    def num_edges(self) -> int:
        return len(self.base.sources) + len(self.new_edges)

    def position(self, node: Any) -> int | None:
        """The position of the node with an id."""
        if not isinstance(node, str):
            return None
        return self.base.positions.get(node, self._new_positions.get(node))

    def node_id(self, position: int) -> str:
        n = len(self.base.ids)
        return self.base.ids[position] if position < n else self.new_nodes[position - n]["id"]

    def node_type(self, position: int) -> str:
        n = len(self.base.types)
        return self.base.types[position] if position < n else self.new_nodes[position - n]["type"]

    def edge_type(self, position: int) -> str:
        m = len(self.base.sources)
        return self.base.edge_types[position] if position < m else self.new_edges[position - m]["type"]

    def node(self, position: int) -> Item:
        """A node as an item."""
        n = len(self.base.ids)
        if position >= n:
            return self.new_nodes[position - n]
        return {
            "id": self.base.ids[position],
            "name": self.base.names[position],
            "type": self.base.types[position],
            "properties": _row(self.base.node_properties, position),
        }

    def edge(self, position: int) -> Item:
        """An edge as an item."""
        m = len(self.base.sources)
        if position >= m:
            return self.new_edges[position - m]
        return {
            "source": self.base.ids[self.base.ends[0][position]],
            "target": self.base.ids[self.base.ends[1][position]],
            "type": self.base.edge_types[position],
            "properties": _row(self.base.edge_properties, position),
        }

    def nodes(self) -> Iterator[Item]:
        return map(self.node, range(self.num_nodes))

    def edges(self) -> Iterator[Item]:
        return map(self.edge, range(self.num_edges))

    def ends(self, edge: int) -> tuple[int, int]:
        """The positions of an edge's source and target."""
        m = len(self.base.sources)
        if edge < m:
            return self.base.ends[0][edge], self.base.ends[1][edge]
        return self._new_ends[edge - m]

    def types(self, of: Literal["nodes", "edges"]) -> set[str]:
        """All types of nodes or edges in the graph."""
        cached, new = (0, self.new_nodes) if of == "nodes" else (1, self.new_edges)
        return set(self.base.known_types[cached]) | {item["type"] for item in new}

    def fields(self, of: Literal["nodes", "edges"]) -> set[str]:
        """All names that the first step of a field can have in nodes or edges; requires at least one node or edge."""
        columns = self.base.node_properties if of == "nodes" else self.base.edge_properties
        new = self.new_nodes if of == "nodes" else self.new_edges
        return {
            *(NODE_FIELDS if of == "nodes" else EDGE_FIELDS),
            *columns,
            *(name for item in new for name in item["properties"]),
        }

    def has_edge(self, source: int, target: int, kind: str) -> bool:
        """Whether an edge of this type leads from one node to the other."""
        if source not in self._keys:
            row = self._row("out", source)
            self._keys[source] = {(end, self.edge_type(edge)) for end, edge in row}
        return (target, kind) in self._keys[source]

    def add_node(self, item: Item) -> None:
        self._new_positions[item["id"]] = self.num_nodes
        self.new_nodes.append(item)

    def add_edge(self, item: Item) -> None:
        """Add an edge between two existing nodes."""
        source, target = self._index_edge(self.num_edges, item)
        self.new_edges.append(item)
        if source in self._keys:
            self._keys[source].add((target, item["type"]))

    def forget(self, nodes: int, edges: int) -> int:
        """Undo the creation of nodes and edges beyond the first `nodes` and `edges`; return how many were reindexed."""
        if (nodes, edges) == (len(self.new_nodes), len(self.new_edges)):
            return 0
        del self.new_nodes[nodes:]
        del self.new_edges[edges:]
        self._index()
        return nodes + edges

    def out_edges(self, node: int) -> list[int]:
        """Positions of all edges from a node, loops too."""
        return sorted(edge for _, edge in self._row("out", node))

    def neighbours(self, node: int, direction: str) -> list[Step]:
        """Adjacent nodes, without the node itself, sorted by position; each with its connecting edges, sorted too."""
        steps: list[Step] = []
        last = node
        for end, edge in self._row(direction, node):
            if end == node:
                continue
            if end != last:
                steps.append((end, []))
                last = end
            steps[-1][1].append(edge)
        return steps

    def _row(self, direction: str, node: int) -> list[tuple[int, int]]:
        """The edges at a node as pairs (other end, position of the edge), sorted."""
        row: list[tuple[int, int]] = []
        if node < len(self.base.ids):
            rows = self.base.rows
            if direction not in rows:
                rows[direction] = _rows(self.base, direction)
            starts, ends, edges = rows[direction]
            part = slice(starts[node], starts[node + 1])
            row = list(zip(ends[part].tolist(), edges[part].tolist(), strict=True))
        sides = ("out", "in") if direction == "both" else (direction,)
        new = [pair for side in sides for pair in self._new_rows.get((side, node), ())]
        return sorted(row + new) if new else row


def _rows(base: PropertyGraph, direction: str) -> Rows:
    near_ends, there = base.sources, base.targets
    edges = np.arange(len(near_ends))
    if direction == "in":
        near_ends, there = there, near_ends
    if direction == "both":
        near_ends, there = np.concatenate((near_ends, there)), np.concatenate((there, near_ends))
        edges = np.concatenate((edges, edges))
    order = np.lexsort((edges, there, near_ends))
    starts = np.zeros(len(base.ids) + 1, np.int64)
    np.cumsum(np.bincount(near_ends, minlength=len(base.ids)), out=starts[1:])
    return starts, there[order], edges[order]


def _row(columns: Mapping[str, Sequence[Any]], position: int) -> Item:
    values = ((name, column[position]) for name, column in columns.items())
    return {name: value for name, value in values if value is not None}
