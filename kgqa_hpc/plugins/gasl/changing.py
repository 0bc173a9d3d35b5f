"""The commands that change variables and the script's copy of the graph: DECLARE, SET and UPDATE, and CREATE_NODES,
CREATE_EDGES and CREATE_GROUPS.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.commands import Create, Declare, Update
from kgqa_hpc.plugins.gasl.finding import select
from kgqa_hpc.plugins.gasl.graph import Graph
from kgqa_hpc.plugins.gasl.values import (
    LARGEST,
    MISSING,
    Item,
    as_item,
    items_of,
    kind_of,
    look_up,
    sameness,
    text_of,
)
from kgqa_hpc.plugins.gasl.world import Outcome, World

_EMPTY: dict[str, Any] = {"LIST": [], "DICT": {}, "COUNTER": 0}


def declare(command: Declare, world: World) -> Outcome:
    """Declare an empty variable of a fixed kind. Raises ScriptError `type` if it exists with another kind."""
    name = command.name.text
    if name in world.variables and kind_of(world.variables[name]) != command.kind:
        kind = kind_of(world.variables[name])
        raise ScriptError("type", f"{name} is a {kind}; it cannot be declared a {command.kind}")
    world.declared[name] = {"kind": command.kind, "description": command.description}
    return Outcome(_EMPTY[command.kind])


def update(command: Update, world: World) -> Outcome:
    """Change a variable by another of its kind: replace, filter, append, merge, or remove the other's items."""
    name, operation = command.name.text, command.operation
    operand = world.value(command.ref)
    kind = kind_of(operand)
    if kind == "VALUE":
        raise ScriptError("type", f"{command.ref.text[:100]} is a VALUE: UPDATE takes LIST, DICT or COUNTER")
    before = world.variables.get(name, _EMPTY[kind])
    if kind_of(before) != kind:
        raise ScriptError("type", f"{name} is a {kind_of(before)}, {command.ref.text[:100]} a {kind}")
    if kind == "COUNTER":
        return Outcome(_counter(before, operand, command))
    items = items_of(operand)
    assert items is not None
    chosen = select(items, command.where, world)
    if kind == "DICT":
        return Outcome(_dict(before, {item["key"]: item["value"] for item in chosen}, operation))
    return Outcome(_LISTS[operation]([as_item(element) for element in before], chosen))


def _counter(before: Any, operand: Any, command: Update) -> Any:
    if command.where is not None or command.operation in ("filter", "delete"):
        raise ScriptError("type", f"UPDATE of a COUNTER: no WHERE, and not {command.operation}")
    if command.operation == "replace":
        return operand
    if not abs(before + operand) <= LARGEST:
        raise ScriptError("limit", "a number beyond 1e308")
    return before + operand


def _dict(before: dict[str, Any], chosen: dict[str, Any], operation: str) -> dict[str, Any]:
    if operation in ("replace", "filter"):
        return chosen
    if operation == "delete":
        return {key: value for key, value in before.items() if key not in chosen}
    return {**before, **chosen}


def _deleted(before: Sequence[Item], chosen: Sequence[Item]) -> Iterable[Item]:
    gone = {sameness(item) for item in chosen}
    return (item for item in before if sameness(item) not in gone)


def _merged(before: Sequence[Item], chosen: Sequence[Item]) -> Iterable[Item]:
    fields: dict[Hashable, Item] = {}
    for item in chosen:
        mark = sameness(item)
        fields[mark] = {**fields.get(mark, {}), **item}
    marks = [sameness(item) for item in before]
    seen = set(marks)
    over = ({**item, **fields.get(mark, {})} for item, mark in zip(before, marks, strict=True))
    return chain(over, (item for item in chosen if sameness(item) not in seen))


_LISTS: dict[str, Callable[[Sequence[Item], Sequence[Item]], Iterable[Item]]] = {
    "replace": lambda before, chosen: chosen,
    "filter": lambda before, chosen: chosen,
    "append": chain,
    "delete": _deleted,
    "merge": _merged,
}


_NAMES = ("name", "key", "value", "result")
_NODE, _GROUP, _EDGE, _MEMBER = "node", "group", "related_to", "member_of"


def create(command: Create, world: World) -> Outcome:
    """Nodes, edges or groups from items, without those that exist or are impossible."""
    make = {"nodes": _nodes, "edges": _edges, "groups": _groups}[command.what]
    items = world.items(command.ref)
    created = list(make(items, command.type, world))
    return Outcome(created, len(items) - len(created))


def _nodes(items: list[Item], kind: str | None, world: World) -> Iterator[Item]:
    for item in items:
        node = _node(item, kind or _text(item, "type") or _NODE, world.graph)
        if node is not None:
            _add_node(node, world)
            yield node


def _groups(items: list[Item], kind: str | None, world: World) -> Iterator[Item]:
    for item in items:
        node = _node(item, kind or _GROUP, world.graph)
        if node is None:
            continue
        _add_node(node, world)
        members = item.get("items")
        for member in map(as_item, members if isinstance(members, list) else ()):
            _add_edge(member.get("id"), node["id"], _MEMBER, {}, world)
        yield node


def _node(item: Item, kind: str, graph: Graph) -> Item | None:
    """The node that an item describes; None if it has neither id nor name, or if the graph has the id."""
    used = next((name for name in _NAMES if _value(item, name) is not None), None)
    name = text_of(_value(item, used)) if used else None
    node_id = item.get("id")
    if node_id is None and name is None:
        return None
    identifier = text_of(node_id) if node_id is not None else f"{kind}:{name}"
    if graph.position(identifier) is not None:
        return None
    left_out = {"id", "name", "type", "items", used}
    return {
        "id": identifier,
        "name": identifier if name is None else name,
        "type": kind,
        "properties": _properties(item, left_out),
    }


def _edges(items: list[Item], kind: str | None, world: World) -> Iterator[Item]:
    for item in items:
        properties = _properties(item, {"source", "target", "id", "type", "items"})
        source, target = _value(item, "source"), _value(item, "target")
        edge = _add_edge(source, target, kind or _text(item, "type") or _EDGE, properties, world)
        if edge is not None:
            yield edge


def _add_edge(source: Any, target: Any, kind: str, properties: Item, world: World) -> Item | None:
    """Add the edge that an item describes; None if an end is no node, or if the edge exists."""
    start, last = world.graph.position(source), world.graph.position(target)
    if start is None or last is None or world.graph.has_edge(start, last, kind):
        return None
    edge = {"source": source, "target": target, "type": kind, "properties": properties}
    world.created(edge)
    world.graph.add_edge(edge)
    return edge


def _add_node(node: Item, world: World) -> None:
    world.created(node)
    world.graph.add_node(dict(node))


def _properties(item: Item, left_out: set[str | None]) -> dict[str, Any]:
    """The item's properties and other non-null top-level fields, without some names."""
    members = item.get("properties")
    fields = {
        key: value for key, value in item.items() if key != "properties" or not isinstance(members, dict)
    }
    merged = {**(members if isinstance(members, dict) else {}), **fields}
    return {key: value for key, value in merged.items() if key not in left_out and value is not None}


def _value(item: Item, name: str | None) -> Any:
    value = look_up(item, (name,)) if name else None
    return None if value is MISSING else value


def _text(item: Item, name: str) -> str | None:
    value = _value(item, name)
    return None if value is None else text_of(value)
