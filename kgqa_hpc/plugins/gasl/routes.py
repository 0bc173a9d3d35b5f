"""Searches with a limit of work: steps from node to node, simple paths in the order of positions, distances."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.graph import Graph, Item, Step
from kgqa_hpc.plugins.gasl.world import MAX_LOOKS, World

Stepper = Callable[[int], Sequence[Step]]


@dataclass
class Meter:
    """Counter of visited edges; raises a `limit` error for too many in a search or in the whole script."""

    world: World
    looks: int = 0

    def count(self, edges: int) -> None:
        self.looks += edges
        self.world.spend(edges + 1)
        if self.looks > MAX_LOOKS:
            raise ScriptError("limit", f"the search has looked at {MAX_LOOKS:,} edges")


class Route(NamedTuple):
    """A simple path of nodes, with all edges of each step in order."""

    nodes: tuple[int, ...]
    edges: tuple[Sequence[int], ...]


def stepper(
    graph: Graph,
    meter: Meter,
    direction: str,
    edge_types: Collection[str] | None = None,
    node_types: Collection[str] | None = None,
) -> Stepper:
    """A function that gives the steps from a node, in order of positions, over given types of edges to given
    types of nodes.
    """
    cache: dict[int, tuple[int, list[Step]]] = {}

    def steps(node: int) -> Sequence[Step]:
        if node not in cache:
            near = graph.neighbours(node, direction)
            looks = sum(len(edges) for _, edges in near)
            meter.count(looks)
            cache[node] = looks, list(_fitting(graph, near, edge_types, node_types))
        else:
            meter.count(cache[node][0])
        return cache[node][1]

    return steps


def _fitting(
    graph: Graph, near: Iterable[Step], edge_types: Collection[str] | None, node_types: Collection[str] | None
) -> Iterator[Step]:
    for neighbour, edges in near:
        if node_types is not None and graph.node_type(neighbour) not in node_types:
            continue
        fitting = (
            edges if edge_types is None else [edge for edge in edges if graph.edge_type(edge) in edge_types]
        )
        if fitting:
            yield neighbour, fitting


def routes(starts: Iterable[int], steps: Sequence[Stepper]) -> Iterator[Route]:
    """All simple paths with one edge for each stepper, by start, then by the positions of their nodes."""
    for start in starts:
        nodes, edges = [start], list[Sequence[int]]()
        on_path = {start}
        open_steps = [iter(steps[0](start))]
        while open_steps:
            following = None
            if len(open_steps) == len(steps):
                for neighbour, between in open_steps[-1]:
                    if neighbour not in on_path:
                        yield Route((*nodes, neighbour), (*edges, between))
            else:
                following = next((step for step in open_steps[-1] if step[0] not in on_path), None)
            if following is None:
                open_steps.pop()
                on_path.discard(nodes.pop())
                if edges:
                    edges.pop()
                continue
            nodes.append(following[0])
            edges.append(following[1])
            on_path.add(following[0])
            open_steps.append(iter(steps[len(nodes) - 1](following[0])))


def route_items(graph: Graph, route: Route) -> Iterator[Item]:
    """The paths of a route as items, one for each choice of edges, in the order of their positions."""
    nodes = [graph.node_id(node) for node in route.nodes]
    for edges in product(*route.edges):
        yield {
            "source": nodes[0],
            "target": nodes[-1],
            "length": len(edges),
            "nodes": nodes,
            "relations": [graph.edge_type(edge) for edge in edges],
        }


def distances(starts: Sequence[int], step: Stepper, depth: int) -> dict[int, int]:
    """Nodes within `depth` steps of any start with their distance, the starts too, nearest first."""
    distance_of = dict.fromkeys(starts, 0)
    waiting = deque(starts)
    while waiting:
        node = waiting.popleft()
        if distance_of[node] == depth:
            break
        for neighbour, _ in step(node):
            if neighbour not in distance_of:
                distance_of[neighbour] = distance_of[node] + 1
                waiting.append(neighbour)
    return distance_of
