"""GRAPHWALK, GRAPHCONNECT, SUBGRAPH, GRAPHPATTERN and CLUSTER: what lies around the nodes of a variable.

Searches have a limit of work; they give simple paths in the order of positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal, NamedTuple

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.commands import Cluster, Connect, Pattern, PatternNode, Subgraph, Walk
from kgqa_hpc.plugins.gasl.graph import Graph, Step
from kgqa_hpc.plugins.gasl.values import Item
from kgqa_hpc.plugins.gasl.words import Ref, Word, nearest
from kgqa_hpc.plugins.gasl.world import MAX_LOOKS, Outcome, World

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


_ANY = "any"
_OPPOSITE = {"out": "in", "in": "out", "both": "both"}


def nodes_of(ref: Ref, world: World) -> tuple[dict[int, Item], int]:
    """The nodes of a variable, position to item in its order, and how many items are no nodes."""
    nodes: dict[int, Item] = {}
    skipped = 0
    for item in world.items(ref):
        position = world.graph.position(item.get("id"))
        if position is None:
            skipped += 1
        else:
            nodes.setdefault(position, item)
    return nodes, skipped


def walk(command: Walk, world: World) -> Outcome:
    """Nodes reached over some types of edges, with their distance."""
    graph = world.graph
    starts, skipped = nodes_of(command.ref, world)
    kinds = [word for word in command.follow if word.text != _ANY]
    types = _known(kinds, "edges", graph) if len(kinds) == len(command.follow) else None
    step = stepper(graph, Meter(world), command.direction, types)
    reached = sorted((depth, node) for node, depth in distances(list(starts), step, command.depth).items())
    return Outcome(({**graph.node(node), "depth": depth} for depth, node in reached if depth), skipped)


def connect(command: Connect, world: World) -> Outcome:
    """All shortest paths between the nodes of two variables."""
    graph, meter = world.graph, Meter(world)
    (starts, skipped), (right, more) = nodes_of(command.left, world), nodes_of(command.right, world)
    types = _known(command.via, "edges", graph)
    forth = stepper(graph, meter, command.direction, types)
    back = stepper(graph, meter, _OPPOSITE[command.direction], types)
    away: dict[int, dict[int, int]] = {}

    def paths() -> Iterator[Item]:
        for start in starts:
            world.spend(len(right))
            for last in right:
                if last not in away:
                    away[last] = distances([last], back, command.depth)
                if start != last and start in away[last]:
                    for route in _shortest(start, away[last], forth):
                        yield from route_items(graph, route)

    return Outcome(paths(), skipped + more)


def _shortest(start: int, away: dict[int, int], forth: Stepper) -> Iterator[Route]:
    length = away[start]

    def nearer(node: int, steps: int) -> list[Step]:
        return [step for step in forth(node) if away.get(step[0]) == steps]

    return routes([start], [partial(nearer, steps=length - 1 - k) for k in range(length)])


def subgraph(command: Subgraph, world: World) -> Outcome:
    """Nodes within a radius and every edge between them."""
    graph, meter = world.graph, Meter(world)
    starts, skipped = nodes_of(command.ref, world)
    types = _known(command.include, "nodes", graph)
    step = stepper(graph, meter, "both", None, types)
    inside = distances(list(starts), step, command.radius)
    edges: list[int] = []
    for node in inside:
        row = graph.out_edges(node)
        meter.count(len(row))
        edges += [edge for edge in row if graph.ends(edge)[1] in inside]
    parts = {"nodes": map(graph.node, sorted(inside)), "edges": map(graph.edge, sorted(edges))}
    return Outcome(parts, skipped)


def pattern(command: Pattern, world: World) -> Outcome:
    """Every chain of different nodes that fits, as its nodes by label and the types of its edges."""
    graph, meter = world.graph, Meter(world)
    starts, skipped = nodes_of(command.within, world) if command.within else ({}, 0)
    start, *following = command.nodes
    allowed = _type(start.type, "nodes", graph)
    steps = [
        stepper(
            graph, meter, edge.direction, _type(edge.type, "edges", graph), _type(node.type, "nodes", graph)
        )
        for edge, node in zip(command.edges, following, strict=True)
    ]
    candidates = sorted(starts) if command.within else range(graph.num_nodes)
    fitting = (node for node in candidates if allowed is None or graph.node_type(node) in allowed)
    labels = _labels(command.nodes)
    return Outcome(
        (item for route in routes(fitting, steps) for item in _matches(graph, labels, route)), skipped
    )


def _matches(graph: Graph, labels: Sequence[str], route: Route) -> Iterator[Item]:
    nodes = {label: graph.node(node) for label, node in zip(labels, route.nodes, strict=True)}
    for edges in product(*route.edges):
        yield {**nodes, "relations": [graph.edge_type(edge) for edge in edges]}


def _labels(nodes: Sequence[PatternNode]) -> list[str]:
    """What stands before the colon, else the type, else `node`; _1, _2 … where it is taken."""
    used = {"relations": 0}
    labels: list[str] = []
    for node in nodes:
        label = name = node.label or (node.type.text if node.type else "node")
        while label in used:
            used[name] = used.get(name, 0) + 1
            label = f"{name}_{used[name]}"
        used[label] = 0
        labels.append(label)
    return labels


def cluster(command: Cluster, world: World) -> Outcome:
    """The nodes of a variable by the connected parts of the graph among them, larger parts first."""
    graph = world.graph
    nodes, skipped = nodes_of(command.ref, world)
    step = stepper(graph, Meter(world), "both", _known(command.via, "edges", graph))
    order = {node: k for k, node in enumerate(nodes)}

    def inside(node: int) -> list[Step]:
        return [near for near in step(node) if near[0] in order]

    parts: list[list[int]] = []
    seen: set[int] = set()
    for node in nodes:
        if node not in seen:
            part = distances([node], inside, len(nodes))
            seen.update(part)
            parts.append(sorted(part, key=order.__getitem__))
    parts.sort(key=lambda part: -len(part))
    clusters = (
        {"key": f"cluster_{k}", "count": len(part), "items": [nodes[node] for node in part]}
        for k, part in enumerate(parts, 1)
    )
    return Outcome(clusters, skipped)


def _type(word: Word | None, of: Literal["nodes", "edges"], graph: Graph) -> set[str] | None:
    return _known([word] if word else [], of, graph)


def _known(words: Sequence[Word], of: Literal["nodes", "edges"], graph: Graph) -> set[str] | None:
    """The types named, None for all when none is. Raises ScriptError `name` for one the graph lacks."""
    types = graph.types(of) if words else set()
    for word in words:
        if word.text not in types:
            kind = "edge" if of == "edges" else "node"
            message = f"the graph has no {kind} type {word.text[:100]!r}"
            raise ScriptError("name", message, word.place, nearest(word.text, types))
    return {word.text for word in words} or None
