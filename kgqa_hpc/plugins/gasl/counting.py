"""The commands COUNT, AGGREGATE and GROUP, and ITERATE, which runs the first two on batches."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.finding import check_fields, check_found_field, find, predicate, select
from kgqa_hpc.plugins.gasl.model import ask
from kgqa_hpc.plugins.gasl.syntax import Command, Condition, Field, Found, Ref, comparisons
from kgqa_hpc.plugins.gasl.values import (
    LARGEST,
    Item,
    check_field,
    given,
    grouped,
    identity,
    is_number,
    sameness,
    text_of,
)
from kgqa_hpc.plugins.gasl.world import Outcome, World


def count(
    world: World,
    source: Ref | Found,
    field: Field | None,
    condition: Condition | None,
    by: Field | None,
    unique: str | None,
) -> Outcome:
    """The number of items: in all, by value of a field, or of a field's values by another field."""
    if isinstance(source, Found):
        for name in filter(None, (field, by)):
            check_found_field(source.kind, name, world.graph)
        return _counted(find(world, source), field, by, unique)
    items = world.items(source)
    _check(items, condition, field, by)
    return _counted(select(items, condition, world), field, by, unique)


def _check(items: Sequence[Item], condition: Condition | None, *fields: Field | None) -> None:
    check_fields(items, condition)
    for field in filter(None, fields):
        check_field(items, field)


def _counted(items: Iterable[Item], field: Field | None, by: Field | None, unique: str | None) -> Outcome:
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
    return Outcome(counts if by or (field and not unique) else total, skipped)


def aggregate(world: World, ref: Ref, by: Field, op: str, of: Field | None) -> Outcome:
    """COUNT, SUM, AVG, MIN or MAX of a field, for each value of another or of the field itself."""
    items = world.items(ref)
    _check(items, None, by, of)
    return _aggregated(items, by, op, of)


def _aggregated(items: Sequence[Item], by: Field, op: str, of: Field | None) -> Outcome:
    if of is None and op != "COUNT":
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


def group(world: World, ref: Ref, by: Field) -> Outcome:
    """The items by the values of a field."""
    items = world.items(ref)
    check_field(items, by)
    groups, skipped = grouped(items, by)
    lists = groups.values()
    return Outcome(({"key": given(m[0], by), "count": len(m), "items": m} for m in lists), skipped)


def iterate(world: World, ref: Ref, size: int, body: Command) -> Outcome:
    """Run a command on batches of items; a COUNT or AGGREGATE gives one item for each batch."""
    if body.name == "asked":
        verb, text = body.arguments
        return ask(world, verb, ref, text, size)
    items = world.items(ref)
    starts = range(0, len(items), size)
    if body.name == "aggregated":
        by, op, of = body.arguments
        _check(items, None, by, of)
        outcomes = [_aggregated(items[start : start + size], by, op, of) for start in starts]
    else:
        field, condition, by, unique = body.arguments
        _check(items, condition, field, by)
        world.spend(len(items) * sum(1 for _ in comparisons(condition)))
        holds = predicate(condition, world)
        batches = ([item for item in items[start : start + size] if holds(item)] for start in starts)
        outcomes = [_counted(batch, field, by, unique) for batch in batches]
    values = [{"batch": number, "value": outcome.value} for number, outcome in enumerate(outcomes, 1)]
    return Outcome(values, sum(outcome.skipped for outcome in outcomes))


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
    "COUNT": len,
    "SUM": _sum,
    "AVG": lambda values: _sum(values) / len(values) if values else None,
    "MIN": partial(_extreme, min),
    "MAX": partial(_extreme, max),
}
