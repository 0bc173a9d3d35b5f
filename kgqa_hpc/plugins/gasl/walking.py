"""The commands GRAPHWALK, GRAPHCONNECT, SUBGRAPH, GRAPHPATTERN and CLUSTER, which search around a variable's nodes.

Searches have a limit of work; they give simple paths in the order of positions.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.graph import Graph, Items, Step
from kgqa_hpc.plugins.gasl.language import ANY_TYPE, Direction, Item, Ref, Word, nearest
from kgqa_hpc.plugins.gasl.world import Outcome, World

Stepper = Callable[[int], Sequence[Step]]
Words = tuple[Word, ...] | None  # names of types


class Route(NamedTuple):
    """A simple path of nodes, with all edges of each step in order."""

    nodes: tuple[int, ...]
    edges: tuple[Sequence[int], ...]


def stepper(
    world: World,
    direction: str,
    edge_types: Collection[str] | None = None,
    node_types: Collection[str] | None = None,
) -> Stepper:
    """A function that gives the steps from a node, in order of positions, over given types of edges to given
    types of nodes.
    """
    graph = world.graph
    cache: dict[int, tuple[int, list[Step]]] = {}

    def steps(node: int) -> Sequence[Step]:
        if node not in cache:
            near = graph.neighbours(node, direction)
            cache[node] = sum(len(edges) for _, edges in near), []
            for neighbour, edges in near:
                if node_types is not None and graph.nodes.cell("type", neighbour) not in node_types:
                    continue
                if edge_types is not None:
                    edges = [edge for edge in edges if graph.edges.cell("type", edge) in edge_types]
                if edges:
                    cache[node][1].append((neighbour, edges))
        looks, fitting = cache[node]
        world.look(looks)
        return fitting

    return steps


def routes(starts: Iterable[int], steps: Sequence[Stepper]) -> Iterator[Route]:
    """All simple paths with one edge for each stepper, by start, then by the positions of their nodes."""
    for start in starts:
        begun = [Route((start,), ())]
        while begun:
            nodes, edges = begun.pop()
            near = [step for step in steps[len(edges)](nodes[-1]) if step[0] not in nodes]
            longer = [Route((*nodes, node), (*edges, between)) for node, between in near]
            if len(edges) + 1 == len(steps):
                yield from longer
            else:
                begun.extend(reversed(longer))


def route_items(graph: Graph, route: Route) -> Iterator[Item]:
    """The paths of a route as items, one for each choice of edges, in the order of their positions."""
    nodes = [graph.nodes.cell("id", node) for node in route.nodes]
    for edges in product(*route.edges):
        yield {
            "source": nodes[0],
            "target": nodes[-1],
            "length": len(edges),
            "nodes": nodes,
            "relations": [graph.edges.cell("type", edge) for edge in edges],
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


_OPPOSITE = {"out": "in", "in": "out", "both": "both"}


def nodes_of(ref: Ref, world: World) -> tuple[dict[int, Item], int]:
    """The items of a variable that are nodes of the graph, by position, in its order; and the number of other items."""
    nodes: dict[int, Item] = {}
    skipped = 0
    for item in world.items(ref):
        position = world.graph.position(item.get("id"))
        if position is None:
            skipped += 1
        else:
            nodes.setdefault(position, item)
    return nodes, skipped


def walk(world: World, ref: Ref, follow: Words, direction: Direction | None, depth: int | None) -> Outcome:
    """Nodes reached over some types of edges, with their distance."""
    graph = world.graph
    starts, skipped = nodes_of(ref, world)
    has_any = any(word.text == ANY_TYPE for word in follow or ())
    types = None if has_any else _known(follow, graph.edges)
    step = stepper(world, direction or "both", types)
    reached = sorted((far, node) for node, far in distances(list(starts), step, depth or 1).items())
    return Outcome(({**graph.nodes[node], "depth": far} for far, node in reached if far), skipped)


def connect(
    world: World, ref: Ref, to_ref: Ref, via: Words, direction: Direction | None, depth: int | None
) -> Outcome:
    """All shortest paths between the nodes of two variables."""
    graph = world.graph
    (starts, skipped), (ends, more) = nodes_of(ref, world), nodes_of(to_ref, world)
    types = _known(via, graph.edges)
    forth = stepper(world, direction or "both", types)
    back = stepper(world, _OPPOSITE[direction or "both"], types)
    away: dict[int, dict[int, int]] = {}

    def nearer(last: int, steps: int, node: int) -> list[Step]:
        """The steps from a node to nodes that are so many steps away from `last`."""
        return [step for step in forth(node) if away[last].get(step[0]) == steps]

    def paths() -> Iterator[Item]:
        for start in starts:
            world.spend(len(ends))
            for last in ends:
                if last not in away:
                    away[last] = distances([last], back, depth or 4)
                if start != last and start in away[last]:
                    steps = [partial(nearer, last, far) for far in reversed(range(away[last][start]))]
                    for route in routes([start], steps):
                        yield from route_items(graph, route)

    return Outcome(paths(), skipped + more)


def subgraph(world: World, ref: Ref, radius: int, include: Words) -> Outcome:
    """Nodes within a radius and every edge between them."""
    graph = world.graph
    starts, skipped = nodes_of(ref, world)
    step = stepper(world, "both", None, _known(include, graph.nodes))
    inside = distances(list(starts), step, radius)
    edges: list[int] = []
    for node in inside:
        row = graph.row(node)
        world.look(len(row))
        edges += [edge for end, edge in row if end in inside]
    parts = {"nodes": (graph.nodes[node] for node in sorted(inside))}
    return Outcome({**parts, "edges": (graph.edges[edge] for edge in sorted(edges))}, skipped)


# Label and type of a node in a pattern; None if it has none.
PatternNode = tuple[Word | None, Word | None]


def pattern(world: World, start: PatternNode, *following: Any) -> Outcome:
    """Every chain of different nodes that fits, as its nodes by label and the types of its edges.

    `following`: an edge (direction and type) and a node in turn, at last the variable of the first nodes or None.
    """
    graph = world.graph
    *chain, within = following
    edges, nodes = chain[::2], chain[1::2]
    starts, skipped = nodes_of(within, world) if within else ({}, 0)
    allowed = _known(start[1:], graph.nodes)
    steps = [
        stepper(world, direction, _known([kind], graph.edges), _known(node[1:], graph.nodes))
        for (direction, kind), node in zip(edges, nodes, strict=True)
    ]
    candidates = sorted(starts) if within else range(len(graph.nodes))
    fitting = (node for node in candidates if allowed is None or graph.nodes.cell("type", node) in allowed)
    labels = _labels([start, *nodes])

    def matches() -> Iterator[Item]:
        for route in routes(fitting, steps):
            items = dict(zip(labels, map(graph.nodes.__getitem__, route.nodes), strict=True))
            for chosen in product(*route.edges):
                yield {**items, "relations": [graph.edges.cell("type", edge) for edge in chosen]}

    return Outcome(matches(), skipped)


def _labels(nodes: Sequence[PatternNode]) -> list[str]:
    """Unique label of each node: the text before the colon, else the type, else `node`; with _1, _2 … if repeated."""
    used = {"relations": 0}
    labels: list[str] = []
    for written, kind in nodes:
        word = written or kind
        label = name = word.text if word else "node"
        while label in used:
            used[name] = used.get(name, 0) + 1
            label = f"{name}_{used[name]}"
        used[label] = 0
        labels.append(label)
    return labels


def cluster(world: World, ref: Ref, via: Words) -> Outcome:
    """The nodes of a variable by the connected parts of the graph among them, larger parts first."""
    graph = world.graph
    nodes, skipped = nodes_of(ref, world)
    step = stepper(world, "both", _known(via, graph.edges))
    order = {node: k for k, node in enumerate(nodes)}

    parts: list[list[int]] = []
    seen: set[int] = set()
    for node in nodes:
        if node not in seen:
            part = distances([node], lambda n: [near for near in step(n) if near[0] in order], len(nodes))
            seen.update(part)
            parts.append(sorted(part, key=order.__getitem__))
    parts.sort(key=lambda part: -len(part))
    clusters = (
        {"key": f"cluster_{k}", "count": len(part), "items": [nodes[node] for node in part]}
        for k, part in enumerate(parts, 1)
    )
    return Outcome(clusters, skipped)


def _known(words: Sequence[Word | None] | None, items: Items) -> set[str] | None:
    """The set of named types; None (all types) without names. Raises ScriptError `name` for a type the graph lacks."""
    named = [word for word in words or () if word is not None]
    types = {*items.table.types, *(item["type"] for item in items.new)} if named else set()
    for word in named:
        if word.text not in types:
            kind = "edge" if "source" in items.table.columns else "node"
            message = f"the graph has no {kind} type {word.text[:100]!r}"
            raise ScriptError("name", message, word.place, nearest(word.text, types))
    return {word.text for word in named} or None
