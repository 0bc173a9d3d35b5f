"""Execution of one command: compute its result, store it, and describe it in a step.

The commands here read variables without a change, REQUIRE, ASSERT, SHOW, DEBUG and INSPECT, or change variables and the
script's copy of the graph: DECLARE, SET and UPDATE, CREATE_NODES, CREATE_EDGES and CREATE_GROUPS.
"""

from collections.abc import Callable
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import combining, computing, finding, walking
from kgqa_hpc.plugins.gasl.language import (
    MISSING,
    Item,
    On,
    Ref,
    Simple,
    Word,
    as_item,
    given,
    items_of,
    kind_of,
    text_of,
)
from kgqa_hpc.plugins.gasl.world import EMPTY, Outcome, World

_SHOWN = 10
LAST = "last"


def check(world: World, verb: str, ref: Ref, test: tuple[Any, ...]) -> Outcome:
    """No outcome if the test holds; otherwise `partial`, or for ASSERT an error. No test of an unknown name holds."""
    named: Any = world.variables
    for entry in (ref.name, *ref.entries):
        named = named.get(entry, MISSING) if isinstance(named, dict) else MISSING
    is_met = named is not MISSING
    if is_met:
        value = world.value(ref)
        match test:
            case "compares", op, expected:
                measured = len(value) if isinstance(value, list | dict) else value
                is_met = finding.compare(op, finding.reading(expected, world))(measured)
            case "has_field", field if isinstance(value, dict):
                is_met = field.text in value
            case "has_field", field:
                items = world.items(ref)
                is_met = bool(items) and all(given(item, field) is not None for item in items)
            case "empty", is_wanted:  # null, 0 and collections without members are empty; false is not
                is_met = (not value and value is not False) == is_wanted
    if not is_met and verb == "ASSERT":
        raise ScriptError("assert", f"{ref.text[:100]} is not as asserted")
    return Outcome(stores=False, partial=not is_met)


def _shown(value: Any, limit: int) -> dict[str, Any]:
    """The kind of a value with its first `limit` items; a value without items is given whole."""
    items = items_of(value)
    if items is None:
        return {"kind": kind_of(value), "value": value}
    return {"kind": kind_of(value), "count": len(items), "items": items[:limit]}


def show(world: World, ref: Ref, limit: int | None) -> Outcome:
    return Outcome(stores=False, notes={"output": _shown(world.value(ref), limit or _SHOWN)})


def inspect(world: World, ref: Ref) -> Outcome:
    """The fields of a variable's items, with the number of items that have each."""
    value = world.value(ref)
    output = _shown(value, 0)
    if output.pop("items", None) is not None:
        fields: dict[str, int] = {}
        for item in items_of(value) or ():
            properties = item.get("properties")
            if isinstance(properties, dict):
                item = {
                    **properties,
                    **{name: member for name, member in item.items() if name != "properties"},
                }
            for name, member in item.items():
                fields[name] = fields.get(name, 0) + (member is not None)
        output["fields"] = fields
    return Outcome(stores=False, notes={"output": output})


def declare(world: World, word: Word, kind: str, description: str | None) -> Outcome:
    """Declare an empty variable of a fixed kind. Raises ScriptError `type` if it exists with another kind."""
    name = word.text
    if name in world.variables and (before := kind_of(world.variables[name])) != kind:
        raise ScriptError("type", f"{name} is a {before}; it cannot be declared a {kind}")
    world.declared[name] = {"kind": kind, "description": description}
    return Outcome(EMPTY[kind])


_NAMES = ("name", "key", "value", "result")


def create(world: World, verb: str, ref: Ref, word: Word | None) -> Outcome:
    """Nodes, edges or groups from items, without those that exist or are impossible."""
    items, kind = world.items(ref), word.text if word else None
    created: list[Item] = []
    for item in items:
        if verb == "CREATE_EDGES":
            properties = _properties(item, {"source", "target", "id", "type", "items"})
            edge_type = kind or _text(item, "type") or "related_to"
            new = _add_edge(given(item, "source"), given(item, "target"), edge_type, properties, world)
        else:
            new = _node(item, kind or ("group" if verb == "CREATE_GROUPS" else None), world)
        members = item.get("items") if verb == "CREATE_GROUPS" else None
        if new is not None and isinstance(
            members, list
        ):  # an edge to a group from each of its items that is a node
            for member in map(as_item, members):
                _add_edge(member.get("id"), new["id"], "member_of", {}, world)
        created += [] if new is None else [new]
    return Outcome(created, len(items) - len(created))


def _node(item: Item, kind: str | None, world: World) -> Item | None:
    """Add the node that an item describes; None if it has neither id nor name, or if the graph has the id."""
    kind = kind or _text(item, "type") or "node"
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


# The function of each command by its rule in grammar.lark; the values of the rule's parts are its arguments.
_COMMANDS: dict[str, Callable[..., Outcome]] = {
    "set": lambda world, name, value: Outcome(value),
    **dict.fromkeys(("find", "debug"), lambda world, search: Outcome(finding.find(world, search))),
    **{
        function.__name__: function
        for function in (
            *(declare, create),
            *(computing.add_field, computing.ask, computing.generate, computing.iterate),
            *(computing.count, computing.aggregate, combining.group, combining.update),
            *(combining.join, combining.merge, combining.compare, combining.select, combining.rank),
            *(walking.walk, walking.connect, walking.subgraph, walking.pattern),
            *(walking.cluster, check, show, inspect),
        )
    },
}


def step_of(statement: Simple | On, status: str) -> dict[str, Any]:
    """The step of a statement without a result."""
    step = {"line": statement.place.line, "column": statement.place.column, "command": statement.text}
    return {**step, "status": status, "variable": None, "count": None, "skipped": 0}


def perform(simple: Simple, world: World) -> dict[str, Any]:
    """Execute a command and return its step; a command that fails changes nothing."""
    step = step_of(simple, "success")
    try:
        with world.undoing():
            step.update(_done(simple, world))
    except ScriptError as problem:
        problem.place = problem.place or simple.place
        step.update(status="error", error=problem.report())
    return step


def _done(simple: Simple, world: World) -> dict[str, Any]:
    name, arguments = simple.command
    outcome = _COMMANDS[name](world, *arguments)
    notes = {"skipped": outcome.skipped, **outcome.notes}
    if not outcome.stores:
        return {"status": "partial" if outcome.partial else "success", **notes}
    # The variable that takes the result: the one after AS, else the one that the command updates, else `last`
    variable = LAST
    if simple.into is not None:
        variable = simple.into.text
    elif name in ("declare", "set", "update"):
        variable = arguments[0].text
    elif name in ("ask", "add_field", "rank") or (name == "iterate" and arguments[-1].name == "asked"):
        ref: Ref = next(argument for argument in arguments if isinstance(argument, Ref))
        variable = LAST if ref.entries else ref.name
    value, truncated = world.store(variable, outcome.value)
    if name == "debug":
        notes["output"] = _shown(value, _SHOWN)
    if truncated:
        notes["truncated"] = True
    parts = list(value.values()) if isinstance(value, dict) else [value]
    has_none = name not in ("declare", "set") and all(part == [] for part in parts)
    empty = outcome.empty or has_none
    status = "partial" if truncated or outcome.partial else "empty" if empty else "success"
    count = len(value) if isinstance(value, list | dict) else None
    return {"status": status, "variable": variable, "count": count, **notes}
