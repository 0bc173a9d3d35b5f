"""The commands that change variables and the script's copy of the graph: DECLARE, SET and UPDATE, and CREATE_NODES,
CREATE_EDGES and CREATE_GROUPS.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.finding import select
from kgqa_hpc.plugins.gasl.syntax import Condition, Ref, Word
from kgqa_hpc.plugins.gasl.values import (
    LARGEST,
    Item,
    as_item,
    given,
    items_of,
    kind_of,
    sameness,
    text_of,
)
from kgqa_hpc.plugins.gasl.world import Outcome, World

_EMPTY: dict[str, Any] = {"LIST": [], "DICT": {}, "COUNTER": 0}


def declare(world: World, word: Word, kind: str, description: str | None) -> Outcome:
    """Declare an empty variable of a fixed kind. Raises ScriptError `type` if it exists with another kind."""
    name = word.text
    if name in world.variables and (before := kind_of(world.variables[name])) != kind:
        raise ScriptError("type", f"{name} is a {before}; it cannot be declared a {kind}")
    world.declared[name] = {"kind": kind, "description": description}
    return Outcome(_EMPTY[kind])


def update(world: World, word: Word, ref: Ref, operation: str | None, condition: Condition | None) -> Outcome:
    """Change a variable by another of its kind: replace, filter, append, merge, or remove the other's items."""
    name, operand = word.text, world.value(ref)
    kind = kind_of(operand)
    if kind == "VALUE":
        raise ScriptError("type", f"{ref.text[:100]} is a VALUE: UPDATE takes LIST, DICT or COUNTER")
    before = world.variables.get(name, _EMPTY[kind])
    if kind_of(before) != kind:
        raise ScriptError("type", f"{name} is a {kind_of(before)}, {ref.text[:100]} a {kind}")
    if kind == "COUNTER" and (condition is not None or operation in ("FILTER", "DELETE")):
        raise ScriptError(
            "type", f"UPDATE of a COUNTER: no WHERE, and not {(operation or 'replace').lower()}"
        )
    replaces = operation in (None, "REPLACE", "FILTER")
    if kind == "COUNTER":
        if not (replaces or abs(before + operand) <= LARGEST):
            raise ScriptError("limit", "a number beyond 1e308")
        return Outcome(operand if replaces else before + operand)
    chosen = select(items_of(operand) or (), condition, world)
    if kind == "DICT":
        entries = {item["key"]: item["value"] for item in chosen}
        if operation == "DELETE":
            return Outcome({key: value for key, value in before.items() if key not in entries})
        return Outcome(entries if replaces else {**before, **entries})
    items = [as_item(element) for element in before]
    if operation == "DELETE":
        gone = {sameness(item) for item in chosen}
        return Outcome(item for item in items if sameness(item) not in gone)
    if operation == "MERGE":
        return Outcome(_merged(items, chosen))
    return Outcome(chosen if replaces else chain(items, chosen))


def _merged(before: Sequence[Item], chosen: Sequence[Item]) -> Iterator[Item]:
    """The items of `before` with the fields of the same items in `chosen`, then the other items of `chosen`."""
    fields: dict[Hashable, Item] = {}
    for item in chosen:
        mark = sameness(item)
        fields[mark] = {**fields.get(mark, {}), **item}
    marks = [sameness(item) for item in before]
    for item, mark in zip(before, marks, strict=True):
        yield {**item, **fields.get(mark, {})}
    seen = set(marks)
    yield from (item for item in chosen if sameness(item) not in seen)


_NAMES = ("name", "key", "value", "result")


def create(world: World, verb: str, ref: Ref, kind: Word | None) -> Outcome:
    """Nodes, edges or groups from items, without those that exist or are impossible."""
    make = {"CREATE_NODES": _node, "CREATE_EDGES": _edge, "CREATE_GROUPS": _group}[verb]
    items = world.items(ref)
    created = [new for item in items if (new := make(item, kind.text if kind else None, world)) is not None]
    return Outcome(created, len(items) - len(created))


def _node(item: Item, kind: str | None, world: World, default: str | None = None) -> Item | None:
    """Add the node that an item describes; None if it has neither id nor name, or if the graph has the id."""
    kind = kind or default or _text(item, "type") or "node"
    used = next((name for name in _NAMES if given(item, name) is not None), None)
    name = _text(item, used) if used else None
    node_id = item.get("id")
    if node_id is None and name is None:
        return None
    identifier = text_of(node_id) if node_id is not None else f"{kind}:{name}"
    if world.graph.position(identifier) is not None:
        return None
    properties = _properties(item, {"id", "name", "type", "items", used})
    name = identifier if name is None else name
    node = {"id": identifier, "name": name, "type": kind, "properties": properties}
    world.created(node)
    world.graph.add_node(dict(node))
    return node


def _group(item: Item, kind: str | None, world: World) -> Item | None:
    """Add the node of a group, and an edge to it from each of the item's `items` that is a node."""
    node = _node(item, kind, world, default="group")
    members = item.get("items")
    if node is not None and isinstance(members, list):
        for member in map(as_item, members):
            _add_edge(member.get("id"), node["id"], "member_of", {}, world)
    return node


def _edge(item: Item, kind: str | None, world: World) -> Item | None:
    properties = _properties(item, {"source", "target", "id", "type", "items"})
    source, target = given(item, "source"), given(item, "target")
    return _add_edge(source, target, kind or _text(item, "type") or "related_to", properties, world)


def _add_edge(source: Any, target: Any, kind: str, properties: Item, world: World) -> Item | None:
    """Add an edge; None if an end is no node, or if the edge exists."""
    start, last = world.graph.position(source), world.graph.position(target)
    if start is None or last is None or world.graph.has_edge(start, last, kind):
        return None
    edge = {"source": source, "target": target, "type": kind, "properties": properties}
    world.created(edge)
    world.graph.add_edge(edge)
    return edge


def _properties(item: Item, left_out: set[str | None]) -> dict[str, Any]:
    """The item's properties and other non-null top-level fields, without some names."""
    merged = {**item}
    if isinstance(members := item.get("properties"), dict):
        del merged["properties"]
        merged = {**members, **merged}
    return {key: value for key, value in merged.items() if key not in left_out and value is not None}


def _text(item: Item, name: str) -> str | None:
    value = given(item, name)
    return None if value is None else text_of(value)
