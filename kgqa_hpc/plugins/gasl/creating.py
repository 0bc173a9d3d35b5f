"""The commands CREATE_NODES, CREATE_EDGES and CREATE_GROUPS, which add nodes and edges to the script's copy of
the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgqa_hpc.plugins.gasl.commands import Create
from kgqa_hpc.plugins.gasl.graph import Graph
from kgqa_hpc.plugins.gasl.values import MISSING, Item, as_item, look_up, text_of
from kgqa_hpc.plugins.gasl.world import Outcome, World

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
