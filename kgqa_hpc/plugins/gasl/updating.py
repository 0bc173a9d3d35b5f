"""The commands DECLARE, SET and UPDATE, with which a script sets variables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.commands import Declare, Set, Update
from kgqa_hpc.plugins.gasl.filters import select
from kgqa_hpc.plugins.gasl.values import LARGEST, Item, as_item, items_of, kind_of, sameness
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


def assign(command: Set, _: World) -> Outcome:
    return Outcome(command.value)


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
