"""Execution of one command: compute its result, store it, and describe it in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import asking, checking, combining, counting, creating, finding, updating, walking
from kgqa_hpc.plugins.gasl import commands as c
from kgqa_hpc.plugins.gasl.literals import MAX_ITEM_BYTES
from kgqa_hpc.plugins.gasl.values import item_bytes
from kgqa_hpc.plugins.gasl.words import Word
from kgqa_hpc.plugins.gasl.world import MAX_ITEMS, Outcome, World

_SHOWN = 10
LAST = "last"


_DO: dict[type, Callable[[Any, World], Outcome]] = {
    c.Declare: updating.declare,
    c.Set: updating.assign,
    c.Found: lambda command, world: Outcome(finding.find(command, world)),
    c.Ask: asking.ask,
    c.Generate: asking.generate,
    c.Iterate: counting.iterate,
    c.Count: counting.count,
    c.Aggregate: counting.aggregate,
    c.Join: combining.join,
    c.Merge: combining.merge,
    c.Compare: combining.compare,
    c.Group: counting.group,
    c.Cluster: walking.cluster,
    c.Select: combining.select,
    c.Rank: combining.rank,
    c.AddField: combining.add_field,
    c.Create: creating.create,
    c.Update: updating.update,
    c.Walk: walking.walk,
    c.Connect: walking.connect,
    c.Subgraph: walking.subgraph,
    c.Pattern: walking.pattern,
    c.Check: checking.check,
    c.Show: checking.show,
    c.DebugFound: lambda command, world: Outcome(finding.find(command.found, world)),
    c.Inspect: checking.inspect,
}


def step_of(statement: c.Simple | c.On, status: str) -> dict[str, Any]:
    """The step of a statement without a result."""
    return {
        "line": statement.place.line,
        "column": statement.place.column,
        "command": statement.text,
        "status": status,
        "variable": None,
        "count": None,
        "skipped": 0,
    }


def perform(simple: c.Simple, world: World) -> dict[str, Any]:
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


def _done(simple: c.Simple, world: World) -> dict[str, Any]:
    command = simple.command
    outcome = _DO[type(command)](command, world)
    notes = dict(outcome.notes)
    if not outcome.stores:
        return {"status": "partial" if outcome.partial else "success", "skipped": outcome.skipped, **notes}
    value, truncated = _kept(outcome.value, world)
    name = _target(simple)
    if isinstance(command, c.DebugFound):
        notes["output"] = checking.shown(value, _SHOWN)
    world.store(name, value)
    if truncated:
        notes["truncated"] = True
    empty = outcome.empty or (_is_empty(value) and not isinstance(command, c.Declare | c.Set))
    status = "partial" if truncated or outcome.partial else "empty" if empty else "success"
    count = len(value) if isinstance(value, list | dict) else None
    name = name.text if isinstance(name, Word) else name
    return {"status": status, "variable": name, "count": count, "skipped": outcome.skipped, **notes}


def _kept(value: Any, world: World) -> tuple[Any, bool]:
    """A result within its bounds: a LIST, and each LIST in a DICT, keeps its first items."""
    if isinstance(value, dict):
        parts = {key: _kept_part(part, world) for key, part in value.items()}
        return {key: part for key, (part, _) in parts.items()}, any(cut for _, cut in parts.values())
    if value is None or isinstance(value, str | int | float | bool):
        return value, False
    return world.keep(value)


def _kept_part(part: Any, world: World) -> tuple[Any, bool]:
    if isinstance(part, Iterator):
        return world.keep(part)
    if not isinstance(part, list):
        return part, False
    if any(item_bytes(entry) > MAX_ITEM_BYTES for entry in part):
        raise ScriptError("limit", "an item of more than 64 KiB")
    return part[:MAX_ITEMS], len(part) > MAX_ITEMS


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(part, list) and not part for part in value.values())
    return isinstance(value, list) and not value


def _target(simple: c.Simple) -> Word | str:
    """The variable that takes the result: the one after AS, else the one that the command updates, else `last`."""
    command = simple.command
    if simple.into is not None:
        return simple.into
    if isinstance(command, c.Declare | c.Set | c.Update):
        return command.name
    if isinstance(command, c.Iterate) and isinstance(command.body, c.Ask):
        command = command.body
    if isinstance(command, c.Ask | c.AddField | c.Rank) and not command.ref.entries:
        return command.ref.name
    return LAST
