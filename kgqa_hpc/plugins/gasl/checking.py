"""The commands REQUIRE, ASSERT, SHOW, DEBUG and INSPECT, which read variables without a change."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.commands import Check, Inspect, Show
from kgqa_hpc.plugins.gasl.filters import compare, literal
from kgqa_hpc.plugins.gasl.values import Item, given, items_of, kind_of
from kgqa_hpc.plugins.gasl.world import Outcome, World


def check(command: Check, world: World) -> Outcome:
    """No outcome if the test holds; otherwise `partial`, or for ASSERT an error."""
    is_met = world.knows(command.ref) and _is_met(command, world)
    if not is_met and command.verb == "ASSERT":
        raise ScriptError("assert", f"{command.ref.text[:100]} is not as asserted")
    return Outcome(stores=False, partial=not is_met)


def _is_met(command: Check, world: World) -> bool:
    value = world.value(command.ref)
    if command.test == "compares":
        assert command.value is not None
        measured = len(value) if isinstance(value, list | dict) else value
        return compare(command.comparison, literal(command.value, world))(measured)
    if command.test == "has_field":
        field = command.field
        assert field is not None
        if isinstance(value, dict):
            return field.text in value
        items = world.items(command.ref)
        return bool(items) and all(given(item, field) is not None for item in items)
    if command.test == "exists":
        return True
    # Null, 0 and collections without members are empty; false is not.
    return (not value and value is not False) == (command.test == "empty")


def show(command: Show, world: World) -> Outcome:
    return Outcome(stores=False, notes={"output": shown(world.value(command.ref), command.limit)})


def shown(value: Any, limit: int) -> dict[str, Any]:
    """The first items of a value, or the value of one that has none."""
    items = items_of(value)
    if items is None:
        return {"kind": kind_of(value), "value": value}
    return {"kind": kind_of(value), "count": len(items), "items": items[:limit]}


def inspect(command: Inspect, world: World) -> Outcome:
    """The fields of a variable's items, with the number of items that have each."""
    value = world.value(command.ref)
    output = shown(value, 0)
    if output.pop("items", None) is not None:
        fields: dict[str, int] = {}
        for item in items_of(value) or ():
            for name, held in _fields(item).items():
                fields[name] = fields.get(name, 0) + held
        output["fields"] = fields
    return Outcome(stores=False, notes={"output": output})


def _fields(item: Item) -> dict[str, bool]:
    """The names of an item's fields and properties, each with whether it has a value."""
    properties = item.get("properties")
    if not isinstance(properties, dict):
        return {name: value is not None for name, value in item.items()}
    names = {name: value is not None for name, value in item.items() if name != "properties"}
    return {**{name: value is not None for name, value in properties.items()}, **names}
