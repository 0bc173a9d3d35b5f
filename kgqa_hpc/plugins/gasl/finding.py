"""FIND: nodes and edges of the graph for which a condition holds, and the simple paths between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from kgqa_hpc.plugins.gasl.commands import Found
from kgqa_hpc.plugins.gasl.filters import Predicate, literal, predicate
from kgqa_hpc.plugins.gasl.graph import Graph
from kgqa_hpc.plugins.gasl.routes import Meter, route_items, routes, stepper
from kgqa_hpc.plugins.gasl.values import ALIASES, MISSING, Item, look_up, unknown_field
from kgqa_hpc.plugins.gasl.words import All, Comparison, Condition, Field, comparisons
from kgqa_hpc.plugins.gasl.world import World

# Number of nodes cached while edges are tested; a few hundred bytes each.
_NODES_KEPT = 100_000

PATH_FIELDS = ("source", "target", "length", "nodes", "relations")


def find(command: Found, world: World) -> Iterator[Item]:
    """Matches of FIND, in graph order, up to LIMIT. Raises ScriptError `name`, `type` or `limit`."""
    for comparison in comparisons(command.where):
        if command.what == "edges" and not world.graph.num_edges:
            break  # an empty graph is no error
        if comparison.op in ("is_null", "is_not_null"):
            continue
        ends = comparison.end != "item"
        check_found_field("nodes" if ends else command.what, comparison.field, world.graph)
    matches = {"nodes": _nodes, "edges": _edges, "paths": _paths}[command.what](command, world)
    return islice(matches, command.limit)


def check_found_field(kind: str, field: Field, graph: Graph) -> None:
    """Raises ScriptError `name` when no node or edge, or no path, can have the field."""
    if kind == "paths":
        fields, blank = set(PATH_FIELDS), dict.fromkeys(PATH_FIELDS)
        if look_up(blank, field.steps) is MISSING:
            raise unknown_field(field, fields)
        return
    items = graph.nodes() if kind == "nodes" else graph.edges()
    fields = graph.fields("nodes" if kind == "nodes" else "edges")
    head = field.steps[0]
    if len(field.steps) == 1 and (head in fields or ALIASES.get(head) in fields):
        return
    empty = (graph.num_nodes if kind == "nodes" else graph.num_edges) == 0
    if not empty and not any(look_up(item, field.steps) is not MISSING for item in items):
        raise unknown_field(field, fields)


def _nodes(command: Found, world: World) -> Iterator[Item]:
    holds = _counting(command.where, world)
    only = _id_of(command.where, world)
    if only is None:
        return (item for item in world.graph.nodes() if holds(item, item, item))
    position = world.graph.position(only)
    items = () if position is None else (world.graph.node(position),)
    return (item for item in items if holds(item, item, item))


def _counting(condition: Condition | None, world: World) -> Predicate:
    """The condition as a function that counts the tested items."""
    holds, work = predicate(condition, world), 1 + sum(1 for _ in comparisons(condition))

    def counted(item: Item, source: Item, target: Item) -> bool:
        world.spend(work)
        return holds(item, source, target)

    return counted


def _id_of(condition: Condition | None, world: World) -> str | None:
    """The id that the condition demands; None if nodes with several ids may satisfy it."""
    if isinstance(condition, All):
        return next((only for part in condition.parts if (only := _id_of(part, world)) is not None), None)
    if not isinstance(condition, Comparison) or (condition.field.steps, condition.op) != (("id",), "="):
        return None
    return literal(condition.values[0], world).text


def _edges(command: Found, world: World) -> Iterator[Item]:
    graph, holds = world.graph, _counting(command.where, world)
    if not any(comparison.end != "item" for comparison in comparisons(command.where)):
        return (item for item in graph.edges() if holds(item, item, item))
    node = lru_cache(maxsize=_NODES_KEPT)(graph.node)
    return (
        item
        for position, item in enumerate(graph.edges())
        if holds(item, *(node(end) for end in graph.ends(position)))
    )


def _paths(command: Found, world: World) -> Iterator[Item]:
    graph = world.graph
    # Conditions on one end alone are tested on that node, before paths are searched.
    # The conditions that must all hold, by the end of a path that they look at, `path` for both
    # or more
    condition = command.where
    by_part: dict[str, list[Condition]] = {part: [] for part in _PARTS}
    for conjunct in condition.parts if isinstance(condition, All) else [condition] if condition else []:
        looks = {_looked_at(comparison) for comparison in comparisons(conjunct)}
        by_part[looks.pop() if len(looks) == 1 else "path"].append(conjunct)
    holds_at_start, last, holds_on_path = (predicate(All(tuple(by_part[part])), world) for part in _PARTS)
    starts = [node for node in range(graph.num_nodes) if _holds_at(holds_at_start, "source", graph, node)]
    ends: dict[int, bool] = {}
    step = stepper(graph, Meter(world), command.direction)
    for length in range(1, command.depth + 1):
        found_any = False
        for route in routes(starts, [step] * length):
            found_any = True
            source, target = route.nodes[0], route.nodes[-1]
            if target not in ends:
                ends[target] = _holds_at(last, "target", graph, target)
            if not ends[target]:
                continue
            nodes = (graph.node(source), graph.node(target)) if by_part["path"] else ({}, {})
            for item in route_items(graph, route):
                world.spend(1)
                if holds_on_path(item, *nodes):
                    yield item
        if not found_any:
            return


_PARTS = ("source", "target", "path")


def _looked_at(comparison: Comparison) -> str:
    if comparison.end != "item":
        return comparison.end
    name = ALIASES.get(comparison.field.steps[0], comparison.field.steps[0])
    return name if len(comparison.field.steps) == 1 and name in ("source", "target") else "path"


def _holds_at(holds: Predicate, end: str, graph: Graph, node: int) -> bool:
    item = graph.node(node)
    return holds({end: item["id"]}, item, item)
