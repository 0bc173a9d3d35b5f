"""Execution of one command: compute its result, store it, and describe it in a step.

REQUIRE, ASSERT, SHOW, DEBUG and INSPECT, which read variables without a change, are here; every other command is in
the module of its idea.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import changing, combining, counting, finding, model, walking
from kgqa_hpc.plugins.gasl.finding import compare, reading
from kgqa_hpc.plugins.gasl.syntax import Found, On, Ref, Simple, Word
from kgqa_hpc.plugins.gasl.values import MAX_ITEM_BYTES, Item, given, item_bytes, items_of, kind_of
from kgqa_hpc.plugins.gasl.world import MAX_ITEMS, Outcome, World

_SHOWN = 10
LAST = "last"


def check(world: World, verb: str, ref: Ref, test: tuple[Any, ...]) -> Outcome:
    """No outcome if the test holds; otherwise `partial`, or for ASSERT an error."""
    is_met = world.knows(ref) and _is_met(world, ref, *test)
    if not is_met and verb == "ASSERT":
        raise ScriptError("assert", f"{ref.text[:100]} is not as asserted")
    return Outcome(stores=False, partial=not is_met)


def _is_met(world: World, ref: Ref, test: str, *operands: Any) -> bool:
    value = world.value(ref)
    if test == "compares":
        op, expected = operands
        measured = len(value) if isinstance(value, list | dict) else value
        return compare(op, reading(expected, world))(measured)
    if test == "has_field":
        (field,) = operands
        if isinstance(value, dict):
            return field.text in value
        items = world.items(ref)
        return bool(items) and all(given(item, field) is not None for item in items)
    if test == "exists":
        return True
    # Null, 0 and collections without members are empty; false is not.
    return (not value and value is not False) in operands


def _shown(value: Any, limit: int) -> dict[str, Any]:
    """The first items of a value, or the value of one that has none."""
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


def find(world: World, search: Found) -> Outcome:
    return Outcome(finding.find(world, search))


# The function of each command by its rule in grammar.lark; the values of the rule's parts are its arguments.
_COMMANDS: dict[str, Callable[..., Outcome]] = {
    "set": lambda world, name, value: Outcome(value),
    "debug": find,
    **{
        function.__name__: function
        for function in (
            *(changing.declare, changing.update, changing.create),
            *(find, model.ask, model.generate),
            *(counting.count, counting.aggregate, counting.group, counting.iterate),
            *(combining.join, combining.merge, combining.compare, combining.select, combining.rank),
            *(combining.add_field, walking.walk, walking.connect, walking.subgraph, walking.pattern),
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
    before = world.mark()
    try:
        step.update(_done(simple, world))
    except BaseException as problem:
        world.forget(before)
        if not isinstance(problem, ScriptError):
            raise
        problem.place = problem.place or simple.place
        step.update(status="error", error=problem.report())
    return step


def _done(simple: Simple, world: World) -> dict[str, Any]:
    command = simple.command
    outcome = _COMMANDS[command.name](world, *command.arguments)
    notes = dict(outcome.notes)
    if not outcome.stores:
        return {"status": "partial" if outcome.partial else "success", "skipped": outcome.skipped, **notes}
    value, truncated = _kept(outcome.value, world)
    name = _target(simple)
    if command.name == "debug":
        notes["output"] = _shown(value, _SHOWN)
    world.store(name, value)
    if truncated:
        notes["truncated"] = True
    parts = list(value.values()) if isinstance(value, dict) else [value]
    has_none = command.name not in ("declare", "set") and all(part == [] for part in parts)
    empty = outcome.empty or has_none
    status = "partial" if truncated or outcome.partial else "empty" if empty else "success"
    count = len(value) if isinstance(value, list | dict) else None
    name = name.text if isinstance(name, Word) else name
    return {"status": status, "variable": name, "count": count, "skipped": outcome.skipped, **notes}


def _kept(value: Any, world: World) -> tuple[Any, bool]:
    """A result within its bounds, and whether a LIST in it was cut: a LIST, also in a DICT, keeps its first items."""
    if value is None or isinstance(value, str | int | float | bool):
        return value, False
    if not isinstance(value, dict):
        return world.keep(value)
    parts, truncated = dict(value), False
    for key, part in value.items():
        if isinstance(part, Iterator):
            parts[key], is_cut = world.keep(part)
            truncated |= is_cut
        elif isinstance(part, list):
            if any(item_bytes(entry) > MAX_ITEM_BYTES for entry in part):
                raise ScriptError("limit", "an item of more than 64 KiB")
            parts[key] = part[:MAX_ITEMS]
            truncated |= len(part) > MAX_ITEMS
    return parts, truncated


def _target(simple: Simple) -> Word | str:
    """The variable that takes the result: the one after AS, else the one that the command updates, else `last`."""
    name, arguments = simple.command
    if simple.into is not None:
        return simple.into
    if name in ("declare", "set", "update"):
        word: Word = arguments[0]
        return word
    if name in ("ask", "add_field", "rank") or (name == "iterate" and arguments[-1].name == "asked"):
        ref: Ref = next(argument for argument in arguments if isinstance(argument, Ref))
        return LAST if ref.entries else ref.name
    return LAST
