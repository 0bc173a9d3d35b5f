"""Rows that come one by one, handed on to an assembly in batches."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import pyarrow as pa

from kgqa_hpc.kg.assemble import Assembly, Lines

_BATCH = 100_000  # rows held as Python objects


@dataclass
class Buffer:
    """Nodes and edges of one file, each with the line it stands on."""

    assembly: Assembly
    file: str
    _nodes: list[tuple[str, str, str, int]] = field(default_factory=list)
    _edges: list[tuple[str, str, str, int]] = field(default_factory=list)

    def node(self, line: int, node: str, name: str, kind: str) -> None:
        self._nodes.append((node, name, kind, line))
        if len(self._nodes) >= _BATCH:
            self._flush_nodes()

    def edge(self, line: int, source: str, target: str, kind: str) -> None:
        self._edges.append((source, target, kind, line))
        if len(self._edges) >= _BATCH:
            self._flush_edges()

    def flush(self) -> None:
        """Hand on what is left; to be called at the end of the file."""
        self._flush_nodes()
        self._flush_edges()

    def _flush_nodes(self) -> None:
        rows, self._nodes = self._nodes, []
        ids, names, kinds = (_column(rows, place) for place in range(3))
        self.assembly.nodes(self.file, ids, names, kinds, _lines(rows))

    def _flush_edges(self) -> None:
        rows, self._edges = self._edges, []
        sources, targets, kinds = (_column(rows, place) for place in range(3))
        self.assembly.edges(self.file, sources, targets, kinds, _lines(rows))


def _lines(rows: list[tuple[str, str, str, int]]) -> Lines:
    """Eight bytes a row, instead of the rows themselves."""
    return array("q", [row[3] for row in rows]).__getitem__


def _column(rows: list[tuple[str, str, str, int]], place: int) -> pa.Array:
    return pa.array([row[place] for row in rows], pa.large_string())
