"""Conditions as functions of an item, and FIND: nodes and edges of the graph for which a condition holds, and the
simple paths between them. docs/guide/gasl.md, "Conditions".
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from kgqa_hpc.plugins.gasl import language as lang
from kgqa_hpc.plugins.gasl.graph import Graph
from kgqa_hpc.plugins.gasl.walking import route_items, routes, stepper
from kgqa_hpc.plugins.gasl.world import World

# A function of an item and, for an edge or a path, of its first and last node.
Predicate = Callable[..., bool]
Test = Callable[[Any], bool]

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Reading(NamedTuple):
    """The readings of a value in a comparison: as text, and as number or boolean where possible."""

    text: str
    number: int | float | None = None
    truth: bool | None = None


def reading(value: Any, world: World) -> Reading:
    """The readings of a value or of the value of `$name`."""
    value = world.single(value) if isinstance(value, lang.Ref) else value
    text = lang.text_of(value)
    if isinstance(value, str):
        return Reading(text, lang.number(text), {"true": True, "false": False}.get(text.lower()))
    return Reading(text, value) if lang.is_number(value) else Reading(text, truth=value)


def checked(
    world: World, items: Sequence[lang.Item], condition: lang.Condition | None, *fields: lang.Field | None
) -> Predicate:
    """The WHERE condition of a command on items, as a function, after a check of all fields that the command names.

    Raises ScriptError `type`, or `name` for a field that no item has, unless the condition only tests it for null.
    """
    tests = list(lang.comparisons(condition))
    named = [test.field for test in tests if test.op not in ("is_null", "is_not_null")]
    for field in filter(None, (*named, *fields)):
        lang.check_field(items, field)
    world.spend(len(items) * len(tests))
    return predicate(condition, world)


def predicate(condition: lang.Condition | None, world: World) -> Predicate:
    """Compile the condition to a function; `$` values are read now. Raises ScriptError `name` or `type`."""
    if condition is None:
        return lambda *ends: True
    if isinstance(condition, lang.Comparison):
        test, field = _test(condition, world), condition.field
        position = ("item", "source", "target").index(condition.end)
        return lambda *ends: test(lang.given(ends[position], field))
    parts = [predicate(part, world) for part in condition.parts]
    if condition.operation == "not":
        return lambda *ends: not parts[0](*ends)
    combine = any if condition.operation == "or" else all
    return lambda *ends: combine(holds(*ends) for holds in parts)


def _test(comparison: lang.Comparison, world: World) -> Test:
    op = comparison.op
    if op == "is_null":
        return lambda value: value is None
    if op == "is_not_null":
        return lambda value: value is not None
    if op == "matches":
        import re2

        search = re2.compile(comparison.values[0]).search
        return lambda value: isinstance(value, str) and search(value) is not None
    if op == "in_variable":
        (ref,) = comparison.values
        assert isinstance(ref, lang.Ref)
        values = world.column(ref)
        if values is None:
            values = [world.single(ref)]
        scalars = (value for value in values if value is not None and not isinstance(value, list | dict))
        return one_of(reading(value, world) for value in scalars)
    readings = [reading(value, world) for value in comparison.values]
    if op == "in":
        return one_of(readings)
    if op == "contains":
        text, is_member = readings[0].text.casefold(), one_of(readings)
        return lambda value: (
            text in value.casefold()
            if isinstance(value, str)
            else isinstance(value, list) and any(map(is_member, value))
        )
    return compare(op, readings[0])


def compare(op: str, expected: Reading) -> Test:
    """The test of a comparison operator against a value; a missing value (None) fits nothing."""
    equals = one_of([expected])
    if op == "=":
        return equals
    if op == "!=":
        return lambda value: value is not None and not equals(value)
    order = _ORDERS[op]

    def ordered(value: Any) -> bool:
        if isinstance(value, str):
            return order(value, expected.text)
        return lang.is_number(value) and expected.number is not None and order(value, expected.number)

    return ordered


def one_of(readings: Iterable[Reading]) -> Test:
    """The test whether a value equals one of the readings; its time does not depend on their number."""
    candidates = list(readings)
    texts = {candidate.text for candidate in candidates}
    numbers = {candidate.number for candidate in candidates if candidate.number is not None}
    truths = {candidate.truth for candidate in candidates if candidate.truth is not None}

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, bool):
            return value in truths
        return lang.is_number(value) and value in numbers

    return test


# Number of nodes cached while edges are tested; a few hundred bytes each.
_NODES_KEPT = 100_000

PATH_FIELDS = ("source", "target", "length", "nodes", "relations")


def find(world: World, command: lang.Found) -> Iterator[lang.Item]:
    """Matches of FIND, in graph order, up to LIMIT. Raises ScriptError `name`, `type` or `limit`."""
    for comparison in lang.comparisons(command.condition):
        if command.kind == "edges" and not len(world.graph.edges):
            break  # an empty graph is no error
        if comparison.op in ("is_null", "is_not_null"):
            continue
        ends = comparison.end != "item"
        check_found_field("nodes" if ends else command.kind, comparison.field, world.graph)
    matches = _paths(command, world) if command.kind == "paths" else _items(command, world)
    return islice(matches, command.limit)


def check_found_field(kind: str, field: lang.Field, graph: Graph) -> None:
    """Raises ScriptError `name` when no node or edge, or no path, can have the field."""
    if kind == "paths":
        fields, blank = set(PATH_FIELDS), dict.fromkeys(PATH_FIELDS)
        if lang.look_up(blank, field.steps) is lang.MISSING:
            raise lang.unknown_field(field, fields)
        return
    items = graph.nodes if kind == "nodes" else graph.edges
    fields, name = items.fields(), field.steps[0]
    if len(field.steps) == 1 and (name in fields or lang.ALIASES.get(name) in fields):
        return
    if len(items) and not any(lang.look_up(item, field.steps) is not lang.MISSING for item in items):
        raise lang.unknown_field(field, fields)


def _items(command: lang.Found, world: World) -> Iterator[lang.Item]:
    """The nodes or edges for which the condition holds; tested ones are counted as work."""
    graph, condition = world.graph, command.condition
    fits, tests = predicate(condition, world), list(lang.comparisons(condition))

    def holds(*ends: lang.Item) -> bool:
        world.spend(1 + len(tests))
        return fits(*ends)

    if command.kind == "nodes":
        only = _id_of(condition, world)
        if only is None:
            return filter(holds, graph.nodes)
        position = graph.position(only)
        return filter(holds, [] if position is None else [graph.nodes[position]])
    if all(comparison.end == "item" for comparison in tests):
        return filter(holds, graph.edges)

    @lru_cache(maxsize=_NODES_KEPT)
    def node(node_id: str) -> lang.Item:
        position = graph.position(node_id)
        assert position is not None
        return graph.nodes[position]

    return (edge for edge in graph.edges if holds(edge, node(edge["source"]), node(edge["target"])))


def _id_of(condition: lang.Condition | None, world: World) -> str | None:
    """The id that the condition demands; None if nodes with several ids may satisfy it."""
    if isinstance(condition, lang.Comparison):
        is_id = condition.field.steps == ("id",) and condition.op == "="
        return reading(condition.values[0], world).text if is_id else None
    parts = condition.parts if condition and condition.operation == "and" else ()
    ids = (_id_of(part, world) for part in parts)
    return next((only for only in ids if only is not None), None)


def _paths(command: lang.Found, world: World) -> Iterator[lang.Item]:
    graph = world.graph
    # A condition on one end alone is tested on that node before paths are searched, any other on each path.
    by_part: dict[str, list[lang.Condition]] = {"source": [], "target": [], "path": []}
    for conjunct in lang.conjuncts(command.condition):
        looks = {_looked_at(comparison) for comparison in lang.comparisons(conjunct)}
        by_part[looks.pop() if len(looks) == 1 else "path"].append(conjunct)
    conditions = (lang.Compound("and", tuple(parts)) for parts in by_part.values())
    at_start, at_end, on_path = (predicate(condition, world) for condition in conditions)
    starts = [k for k, node in enumerate(graph.nodes) if at_start({"source": node["id"]}, node, node)]

    @cache
    def is_end(position: int) -> bool:
        node = graph.nodes[position]
        return at_end({"target": node["id"]}, node, node)

    step = stepper(world, command.direction)
    for length in range(1, command.depth + 1):
        found_any = False
        for route in routes(starts, [step] * length):
            found_any = True
            source, target = route.nodes[0], route.nodes[-1]
            if not is_end(target):
                continue
            nodes = (graph.nodes[source], graph.nodes[target]) if by_part["path"] else ({}, {})
            for item in route_items(graph, route):
                world.spend(1)
                if on_path(item, *nodes):
                    yield item
        if not found_any:
            return


def _looked_at(comparison: lang.Comparison) -> str:
    """The part of a path that a comparison reads: `source`, `target` or the whole `path`."""
    if comparison.end != "item":
        return comparison.end
    name = lang.ALIASES.get(comparison.field.steps[0], comparison.field.steps[0])
    return name if len(comparison.field.steps) == 1 and name in ("source", "target") else "path"
