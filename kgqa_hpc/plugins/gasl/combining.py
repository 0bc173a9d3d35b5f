"""The commands that make lists from lists, JOIN, MERGE, COMPARE, SELECT, RANK and ADD_FIELD, and that count: COUNT,
AGGREGATE, GROUP, and ITERATE, which runs the first two on batches.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import finding
from kgqa_hpc.plugins.gasl.finding import check_fields, predicate
from kgqa_hpc.plugins.gasl.model import ask
from kgqa_hpc.plugins.gasl.syntax import Command, Condition, Field, Found, Ref, Word, comparisons
from kgqa_hpc.plugins.gasl.values import (
    ALIASES,
    LARGEST,
    Expression,
    Item,
    Nothing,
    check_field,
    given,
    grouped,
    identity,
    is_number,
    names_in,
    sameness,
    text_of,
    variable,
)
from kgqa_hpc.plugins.gasl.world import Outcome, World


def join(world: World, ref: Ref, with_ref: Ref, field: Field, with_field: Field | None) -> Outcome:
    """Each pair of items with an equal field, as one item."""
    left_items, right_items = world.items(ref), world.items(with_ref)
    if not left_items or not right_items:
        return Outcome([])
    f, g = _sides(left_items, right_items, field, with_field or field)
    groups, skipped = grouped(right_items, g)
    partners = {mark: [_without(item, g) for item in items] for mark, items in groups.items()}
    values = [given(item, f) for item in left_items]

    def pairs() -> Iterator[Item]:
        for item, value in zip(left_items, values, strict=True):
            for partner in partners.get(identity(value), ()) if value is not None else ():
                joined = dict(item)
                for name, member in partner.items():
                    joined[free_name(name, joined)] = member
                yield joined

    return Outcome(pairs(), skipped + sum(value is None for value in values))


def _sides(left_items: Sequence[Item], right: Sequence[Item], f: Field, g: Field) -> tuple[Field, Field]:
    """The join fields of both lists, swapped if they only exist that way round. Raises ScriptError `name`."""
    try:
        check_field(left_items, f)
        check_field(right, g)
    except ScriptError as problem:
        try:
            check_field(left_items, g)
            check_field(right, f)
        except ScriptError:
            raise problem from None
        return g, f
    return f, g


def _without(item: Item, field: Field) -> Item:
    """The item without the top-level field to which a one-step field refers."""
    name = field.steps[0]
    if len(field.steps) > 1:
        return item
    if name not in item:
        properties = item.get("properties")
        if isinstance(properties, dict) and name in properties:
            return item
        name = ALIASES.get(name, name)
    return {key: value for key, value in item.items() if key != name}


def free_name(name: str, used: Iterable[str]) -> str:
    """The name, or name_1, name_2 … if it is in `used`."""
    if name not in used:
        return name
    number = 1
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"


def merge(world: World, *refs: Ref) -> Outcome:
    """All items of several lists, each once; all entries of several DICTs."""
    values = [world.value(ref) for ref in refs]
    if all(isinstance(value, dict) for value in values):
        merged: dict[str, Any] = {}
        for value in values:
            merged.update((key, member) for key, member in value.items() if key not in merged)
        return Outcome(merged)
    distinct: dict[Hashable, Item] = {}
    for ref in refs:
        for item in world.items(ref):
            distinct.setdefault(sameness(item), item)
    return Outcome(list(distinct.values()))


def compare(world: World, ref: Ref, with_ref: Ref, field: Field) -> Outcome:
    """The values of a field that two lists share, and the items in which it changed."""
    left_items, right_items = world.items(ref), world.items(with_ref)
    check_field(left_items, field)
    check_field(right_items, field)
    (lefts, skipped), (rights, more_skipped) = grouped(left_items, field), grouped(right_items, field)
    by_id, changes = _by_id(right_items), []
    for mark, item in _by_id(left_items).items():
        before, after = given(item, field), given(by_id.get(mark, {}), field)
        if before is None or after is None or identity(before) == identity(after):
            continue
        change = {"id": item["id"], "left": before, "right": after}
        if is_number(before) and is_number(after) and abs(after - before) <= LARGEST:
            change["difference"] = after - before
        changes.append(change)
    parts = {
        "common": [given(items[0], field) for mark, items in lefts.items() if mark in rights],
        "only_left": [given(items[0], field) for mark, items in lefts.items() if mark not in rights],
        "only_right": [given(items[0], field) for mark, items in rights.items() if mark not in lefts],
        "changed": changes,
    }
    return Outcome(parts, skipped + more_skipped)


def _by_id(items: Sequence[Item]) -> dict[Hashable, Item]:
    """The first item of each id."""
    by_id: dict[Hashable, Item] = {}
    for item in items:
        if item.get("id") is not None:
            by_id.setdefault(identity(item["id"]), item)
    return by_id


def select(world: World, ref: Ref, *fields: Field) -> Outcome:
    """Items with some of their fields only."""
    items = world.items(ref)
    world.spend(len(items) * len(fields))
    for field in fields:
        check_field(items, field)
    return Outcome({field.text: given(item, field) for field in fields} for item in items)


def rank(world: World, ref: Ref, by: Field, order: str | None, top: int | None) -> Outcome:
    """Items sorted by a field; items without it come last."""
    items = world.items(ref)
    check_field(items, by)
    valued = [(given(item, by), item) for item in items]
    values = [value for value, _ in valued if value is not None]
    if not (all(map(is_number, values)) or all(isinstance(value, str) for value in values)):
        raise ScriptError("type", f"RANK BY {by.text[:100]!r}: not all numbers and not all texts")
    present = [pair for pair in valued if pair[0] is not None]
    present.sort(key=lambda pair: pair[0], reverse=order != "ASC")
    ranked = [item for _, item in present] + [item for value, item in valued if value is None]
    return Outcome(islice(ranked, top))


def add_field(world: World, ref: Ref, name: Word | str, value: Expression) -> Outcome:
    """Each item with one more field."""
    items = world.items(ref)
    values = _evaluate(value, items, world)
    field = free_name(name.text if isinstance(name, Word) else name, names_in(items))
    extended = ({**item, field: result} for item, result in zip(items, values, strict=True))
    return Outcome(extended, values.count(None), notes={"field": field})


def _evaluate(expression: Expression, items: Sequence[Item], world: World) -> list[Any]:
    """The value for each item, None where it is null. Raises ScriptError `name`, `type` or `limit`."""
    word = expression.word
    if word is not None and word.text in world.variables:
        expression = variable(Ref(word.text, word.text, (), word.place))
    world.spend(len(items) * expression.work)
    for field in expression.fields:
        check_field(items, field, also=() if word is None else world.variables)
    columns: dict[Ref, Sequence[Any]] = {}
    for ref in expression.refs:
        column = world.column(ref)
        columns[ref] = [world.single(ref)] * len(items) if column is None else column
        if len(columns[ref]) != len(items):
            message = f"${ref.text[:100]} has {len(columns[ref]):,} items for {len(items):,}"
            raise ScriptError("type", message)
    values: list[Any] = []
    for position, item in enumerate(items):
        try:
            values.append(expression.value(item, {ref: column[position] for ref, column in columns.items()}))
        except Nothing:
            values.append(None)
    return values


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
            finding.check_found_field(source.kind, name, world.graph)
        return _counted(finding.find(world, source), field, by, unique)
    items = world.items(source)
    _check(items, condition, field, by)
    return _counted(finding.select(items, condition, world), field, by, unique)


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
