"""Ways through a graph: which steps a pattern allows, where the same way leads, and how near two nodes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kgqa_hpc.anchors.incidence import Arm, Incidence
from kgqa_hpc.anchors.simple_paths import Layer, PathSpace
from kgqa_hpc.errors import InputError
from kgqa_hpc.registry import did_you_mean

if TYPE_CHECKING:
    from kgqa_hpc.kg.graph import KnowledgeGraph

LOOKS = 5_000  # arms looked at for one answer set; beyond, the question has too many answers


class Routes:
    """A graph with its typed edges around each node."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self.incidence = Incidence.build(graph)

    @cached_property
    def shared_names(self) -> frozenset[str]:
        """Names that several nodes bear: a question that names one of them could mean any of these nodes."""
        return frozenset(name for name, times in Counter(self.graph.names.tolist()).items() if times > 1)

    def space(
        self,
        length: int,
        pattern: Sequence[str | None] | None = None,
        relations: Sequence[str | None] | None = None,
        direction: str = "either",
    ) -> PathSpace:
        """All simple paths of `length` edges that keep to node types, edge types and direction.

        Raises InputError for a type that the graph has not.
        """
        return PathSpace(
            [
                self._layer(
                    pattern[at : at + 2] if pattern else None, relations[at] if relations else None, direction
                )
                for at in range(length)
            ]
        )

    def way(
        self, path: Sequence[int], relations: Sequence[str | None] | None = None, direction: str = "either"
    ) -> list[Arm]:
        """For each step its first edge that is allowed."""
        wanted = [None if not name else self._type(name) for name in relations or [None] * (len(path) - 1)]
        return [
            next(
                arm
                for arm in self.incidence.arms(node)
                if arm.other == after and kind in (None, arm.relation) and (arm.out or direction == "either")
            )
            for node, after, kind in zip(path, path[1:], wanted, strict=False)
        ]

    def ends(self, start: int, way: Sequence[Arm], most: int) -> list[int] | None:
        """All ends of simple paths from `start` with the types and directions of `way`; None for more than
        `most`.
        """
        kinds = self.graph.node_type
        found: set[int] = set()
        looks = 0
        stack: list[tuple[int, ...]] = [(start,)]
        while stack:
            path = stack.pop()
            step = way[len(path) - 1]
            for other in self.incidence.step(path[-1], step.relation, step.out):
                looks += 1
                if kinds[other] != kinds[step.other] or other in path:
                    continue
                if len(path) < len(way):
                    stack.append((*path, other))
                else:
                    found.add(other)
            if len(found) > most or looks > LOOKS:
                return None
        return sorted(found)

    def distance_below(self, a: int, b: int, length: int) -> bool:
        """Whether fewer than `length` edges, of any type and direction, join two nodes."""
        return not self._ball(a, length // 2).isdisjoint(self._ball(b, (length - 1) // 2))

    def _ball(self, node: int, radius: int) -> set[int]:
        starts, others = self.graph.csr()
        ball = edge = {node}
        for _ in range(radius):
            edge = {other for one in edge for other in others[starts[one] : starts[one + 1]].tolist()} - ball
            ball = ball | edge
        return ball

    def _layer(self, types: Sequence[str | None] | None, relation: str | None, direction: str) -> Layer:
        graph = self.graph
        keep = np.ones(graph.num_edges, bool) if relation is None else graph.edge_type == self._type(relation)
        source, target = graph.edge_source[keep], graph.edge_target[keep]
        if direction == "either":
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
        fits = np.ones(len(source), bool)
        for ends, name in zip((source, target), types or (), strict=False):
            if name is not None:
                fits &= graph.node_type[ends] == code_of(name, graph.node_types, "node type")
        source, target = source[fits], target[fits]
        return Layer.build(graph.num_nodes, source, target)

    def _type(self, name: str) -> int:
        return code_of(name, self.graph.edge_types, "edge type")


def code_of(name: str, known: Sequence[str], what: str) -> int:
    """The place of a name among those of the graph. Raises InputError with the nearest for one it has not."""
    if name not in known:
        raise InputError(
            f"anchors: the graph has no {what} {name!r}{did_you_mean(name, known)}",
            f"it has {', '.join(known) or 'none'}",
        )
    return list(known).index(name)
