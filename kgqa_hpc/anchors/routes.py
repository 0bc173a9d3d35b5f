"""Traversal of a graph: steps that a pattern allows, end nodes of a chain of steps, and distances.

Paths are drawn on the reduced graph. End nodes and distances are computed on the graph of the answers, in its node
numbers, with `Incidence`: a sorted table of the typed edges around each node, which holds each edge at both of its
ends, identical edges once, and no self-loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kgqa_hpc.anchors.anchor import Source
from kgqa_hpc.anchors.family import shared_names
from kgqa_hpc.anchors.simple_paths import PathSpace
from kgqa_hpc.errors import InputError
from kgqa_hpc.jit import helper, kernel
from kgqa_hpc.kg.graph import KnowledgeGraph, simple_csr
from kgqa_hpc.kg.relations import Codes, Csr, Int64, first_of_runs
from kgqa_hpc.registry import did_you_mean


@dataclass(frozen=True, eq=False)
class Incidence:
    """Table of the typed edges around each node; an edge seen from one of its ends is called an arm.

    `starts`: int64 (n+1,); the arms of node v are rows starts[v]:starts[v+1] of the other arrays, sorted. `arm`:
    2 * type of the edge, plus 1 if it comes in; `neighbour`: the other node.
    """

    starts: Int64
    arm: Codes
    neighbour: Codes

    @classmethod
    def build(cls, graph: KnowledgeGraph) -> Incidence:
        """The table of a graph, sorted as integers. Raises ValueError if they would exceed 63 bits."""
        real = graph.edge_source != graph.edge_target
        source, target, kind = graph.edge_source[real], graph.edge_target[real], graph.edge_type[real]
        nodes, types = max(graph.num_nodes, 1), max(len(graph.edge_types), 1)
        if nodes * nodes * types * 2 >= 2**63:
            raise ValueError(f"{nodes:,} nodes with {types:,} edge types are too many for one table")
        # An edge at a node as one integer: node, edge type, direction (outgoing first), other node.
        away = (source.astype(np.int64) * types + kind) * 2 * nodes + target
        back = ((target.astype(np.int64) * types + kind) * 2 + 1) * nodes + source
        arms = np.concatenate([away, back])
        arms.sort()
        arms, ends = np.divmod(arms[first_of_runs(arms)], nodes)
        node, arms = np.divmod(arms, 2 * types)
        starts = np.searchsorted(node, np.arange(graph.num_nodes + 1))
        return cls(starts.astype(np.int64), arms.astype(np.int32), ends.astype(np.int32))

    def around(self, node: int) -> Codes:
        """The other ends of all arms of a node; a neighbour occurs once for each edge."""
        return self.neighbour[int(self.starts[node]) : int(self.starts[node + 1])]


LOOKS = 5_000  # largest number of nodes visited for one answer set


class Routes:
    """The graph to draw from, and the typed edges around each node of the graph of the answers."""

    def __init__(self, source: Source) -> None:
        self.graph: KnowledgeGraph = source.graph
        self.answers = source.answer_graph()
        self.whole = self.answers.graph
        self.shared_names = shared_names(self.whole.names)

    @cached_property
    def incidence(self) -> Incidence:
        """The edges of the graph on which answers are computed."""
        return Incidence.build(self.whole)

    def degree(self, node: int) -> int:
        """Number of neighbours of a node."""
        return int(first_of_runs(np.sort(self.incidence.around(node))).sum())

    def space(
        self,
        length: int,
        pattern: Sequence[str | None] | None = None,
        relations: Sequence[str | None] | None = None,
        direction: str = "either",
    ) -> PathSpace:
        """All simple paths of `length` edges with these node types, edge types and direction.

        Raises InputError for a type that the graph lacks.
        """
        layer = cache(self._layer)  # equal steps share their rows
        types = [tuple(pattern[at : at + 2]) if pattern else None for at in range(length)]
        kinds = relations or [None] * length
        return PathSpace([layer(ends, kind, direction) for ends, kind in zip(types, kinds, strict=True)])

    def way(
        self, path: Sequence[int], relations: Sequence[str | None] | None = None, direction: str = "either"
    ) -> Int64:
        """The first allowed edge of each step, (steps, 3): edge type, 1 if forward, node type of its end."""
        table, steps = self.incidence, np.empty((len(path) - 1, 3), np.int64)
        for k, (node, end) in enumerate(pairwise(path)):
            rows = slice(*table.starts[node : node + 2])
            fits = table.neighbour[rows] == end
            if relations and (name := relations[k]):
                fits &= table.arm[rows] >> 1 == code_of(name, self.graph.edge_types, "edge type")
            if direction == "forward":
                fits &= table.arm[rows] & 1 == 0
            arm = table.arm[rows][fits.argmax()]
            steps[k] = arm >> 1, 1 - (arm & 1), self.whole.node_type[end]
        return steps

    def ends(self, start: int, chain: Int64, most: int | None) -> list[int] | None:
        """All ends of simple paths from `start` along the steps of a `way`; None for more than `most` ends, or if the
        search expands more than `LOOKS` nodes.
        """
        table, most = self.incidence, self.whole.num_nodes if most is None else most
        arrays = table.starts, table.arm, table.neighbour, self.whole.node_type
        ends = chain_ends(*arrays, start, chain, most, LOOKS)
        return None if ends is None else sorted(ends.tolist())

    def distance_below(self, a: int, b: int, length: int) -> bool:
        """Whether a connection of fewer than `length` edges, of any type and direction, joins two nodes."""
        balls: list[set[int]] = []
        for node, radius in ((a, length // 2), (b, (length - 1) // 2)):
            ball = edge = {node}
            for _ in range(radius):
                rows = [self.incidence.around(end) for end in edge]
                edge = set((rows[0] if len(rows) == 1 else np.unique(np.concatenate(rows))).tolist()) - ball
                ball = ball | edge
                if not edge:
                    break
            balls.append(ball)
        return not balls[0].isdisjoint(balls[1])

    def _layer(self, types: Sequence[str | None] | None, relation: str | None, direction: str) -> Csr:
        graph = self.graph
        source, target = graph.edge_source, graph.edge_target
        if relation is not None:
            keep = graph.edge_type == code_of(relation, graph.edge_types, "edge type")
            source, target = source[keep], target[keep]
        if direction == "either":
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
        fits = np.ones(len(source), bool)
        for ends, name in zip((source, target), types or (), strict=False):
            if name is not None:
                fits &= graph.node_type[ends] == code_of(name, graph.node_types, "node type")
        return simple_csr(graph.num_nodes, source[fits], target[fits], directed=True)


def code_of(name: str, known_names: Sequence[str], noun: str) -> int:
    """The position of `name` in `known_names`. Raises InputError with the nearest name for an unknown name."""
    if name not in known_names:
        raise InputError(
            f"anchors: the graph has no {noun} {name!r}{did_you_mean(name, known_names)}",
            f"it has {', '.join(known_names) or 'none'}",
        )
    return list(known_names).index(name)


@kernel
def chain_ends(
    starts: Any, arm: Any, neighbour: Any, node_type: Any, start: int, chain: Any, most: int, looks: int
) -> Any:
    """The distinct ends of simple paths from `start` along `chain`, int32; None for more than `most` ends, or if the
    search expands more than `looks` nodes.

    `starts` to `neighbour`: arrays of `Incidence`; `chain`: as from `Routes.way`. The search is depth first; `row` and
    `stop` hold, for each node of the current path, the next row to try and the end of its rows.
    """
    last = len(chain) - 1
    path, row, stop = np.empty(last + 1, np.int64), np.empty(last + 1, np.int64), np.empty(last + 1, np.int64)
    ends = {np.int32(0)}
    ends.clear()
    path[0] = start
    row[0], stop[0] = _rows(starts, arm, start, chain[0])
    depth, expanded = 0, 1
    while depth >= 0:
        if row[depth] == stop[depth]:
            depth -= 1
            continue
        node = neighbour[row[depth]]
        row[depth] += 1
        if node_type[node] != chain[depth, 2] or (path[: depth + 1] == node).any():
            continue
        if depth == last:
            ends.add(node)
            if len(ends) > most:
                return None
            continue
        depth, expanded = depth + 1, expanded + 1
        if expanded > looks:
            return None
        path[depth] = node
        row[depth], stop[depth] = _rows(starts, arm, node, chain[depth])
    return np.array(list(ends), np.int32)


@helper
def _rows(starts: Any, arm: Any, node: int, step: Any) -> Any:
    """First row and end of the arms of a node with the edge type and direction of a step."""
    begin, arms, sort_key = starts[node], arm[starts[node] : starts[node + 1]], step[0] * 2 + 1 - step[1]
    return begin + np.searchsorted(arms, sort_key), begin + np.searchsorted(arms, sort_key + 1)
