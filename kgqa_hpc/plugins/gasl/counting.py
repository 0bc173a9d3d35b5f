"""The commands COUNT, AGGREGATE and GROUP, and ITERATE, which runs the first two on batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.commands import Aggregate, Ask, Count, Found, Group, Iterate
from kgqa_hpc.plugins.gasl.finding import Predicate, check_fields, check_found_field, find, predicate, select
from kgqa_hpc.plugins.gasl.model import ask
from kgqa_hpc.plugins.gasl.values import (
    LARGEST,
    Item,
    check_field,
    given,
    identity,
    is_number,
    sameness,
    text_of,
)
from kgqa_hpc.plugins.gasl.words import Field, comparisons
from kgqa_hpc.plugins.gasl.world import Outcome, World


def count(command: Count, world: World) -> Outcome:
    """The number of items: in all, by value of a field, or of a field's values by another field."""
    source = command.source
    if isinstance(source, Found):
        for field in _fields(command):
            check_found_field(source.what, field, world.graph)
        return _counted(find(source, world), command)
    items = world.items(source)
    _check_body(items, command)
    return _counted(select(items, command.where, world), command)


def _fields(command: Count) -> list[Field]:
    return [field for field in (command.field, command.by) if field is not None]


def _counted(items: Iterable[Item], command: Count) -> Outcome:
    field, by, unique = command.field, command.by, command.unique
    counts: dict[str, int] = {}
    total = skipped = 0
    seen: set[Hashable] = set()
    for item in items:
        group = given(item, by) if by else None
        value = given(item, field) if field else None
        if (by and group is None) or (field and value is None):
            skipped += 1
            continue
        key = text_of(group) if by else text_of(value) if field and not unique else ""
        if unique:
            mark = (key, identity(value) if field else sameness(item))
            if mark in seen:
                continue
            seen.add(mark)
        total += 1
        counts[key] = counts.get(key, 0) + 1
    by_value = by is not None or (field is not None and not unique)
    return Outcome(counts if by_value else total, skipped)


def aggregate(command: Aggregate, world: World) -> Outcome:
    """count, sum, avg, min or max of a field, for each value of another or of the field itself."""
    items = world.items(command.ref)
    _check_body(items, command)
    return _aggregated(items, command)


def _aggregated(items: Sequence[Item], command: Aggregate) -> Outcome:
    by, of, op = command.by, command.of, command.op
    if of is None and op != "count":
        values = [value for value in (given(item, by) for item in items) if value is not None]
        result = _OPERATIONS[op](values)
        return Outcome(result, len(items) - len(values), empty=result is None)
    groups: dict[str, list[Any]] = {}
    skipped = 0
    for item in items:
        key = given(item, by)
        value = given(item, of) if of else True
        if key is None or value is None:
            skipped += 1
        else:
            groups.setdefault(text_of(key), []).append(value)
    return Outcome({key: _OPERATIONS[op](values) for key, values in groups.items()}, skipped)


def group(command: Group, world: World) -> Outcome:
    """The items by the values of a field."""
    items = world.items(command.ref)
    check_field(items, command.by)
    groups: dict[Hashable, tuple[Any, list[Item]]] = {}
    for item in items:
        value = given(item, command.by)
        if value is not None:
            groups.setdefault(identity(value), (value, []))[1].append(item)
    grouped = ({"key": key, "count": len(members), "items": members} for key, members in groups.values())
    return Outcome(grouped, len(items) - sum(len(members) for _, members in groups.values()))


def iterate(command: Iterate, world: World) -> Outcome:
    """Run a command on batches of items; a COUNT or AGGREGATE gives one item for each batch."""
    body, size = command.body, command.size
    if isinstance(body, Ask):
        return ask(body, world, size)
    items = world.items(command.ref)
    _check_body(items, body)
    if isinstance(body, Count):
        world.spend(len(items) * sum(1 for _ in comparisons(body.where)))
    holds = predicate(body.where, world) if isinstance(body, Count) else None
    outcomes = [_batch(items[start : start + size], body, holds) for start in range(0, len(items), size)]
    batches = [{"batch": number, "value": outcome.value} for number, outcome in enumerate(outcomes, 1)]
    return Outcome(batches, sum(outcome.skipped for outcome in outcomes))


def _check_body(items: Sequence[Item], body: Count | Aggregate) -> None:
    if isinstance(body, Count):
        check_fields(items, body.where)
    for field in _fields(body) if isinstance(body, Count) else (body.by, body.of):
        if field is not None:
            check_field(items, field)


def _batch(items: Sequence[Item], body: Count | Aggregate, holds: Predicate | None) -> Outcome:
    if isinstance(body, Aggregate):
        return _aggregated(items, body)
    assert holds is not None
    return _counted([item for item in items if holds(item, item, item)], body)


def _sum(values: Sequence[Any]) -> int | float:
    _want_numbers(values)
    try:
        total = sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)
    except OverflowError:
        total = math.inf
    if not abs(total) <= LARGEST:
        raise ScriptError("limit", "a number beyond 1e308")
    return total


def _extreme(choose: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    if not all(isinstance(value, str) for value in values):
        _want_numbers(values)
    return choose(values) if values else None


def _want_numbers(values: Sequence[Any]) -> None:
    for value in values:
        if not is_number(value):
            raise ScriptError("type", f"a number is needed here, not {text_of(value)[:100]!r}")


_OPERATIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": _sum,
    "avg": lambda values: _sum(values) / len(values) if values else None,
    "min": partial(_extreme, min),
    "max": partial(_extreme, max),
}
