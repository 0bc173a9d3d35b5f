"""The commands JOIN, MERGE, COMPARE, SELECT, RANK and ADD_FIELD, which make lists from lists.

The expression of an ADD_FIELD is evaluated for each item: docs/guide/gasl.md, "Expressions".
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import syntax as x
from kgqa_hpc.plugins.gasl.syntax import Field, Ref
from kgqa_hpc.plugins.gasl.values import (
    ALIASES,
    LARGEST,
    MAX_ITEM_BYTES,
    Item,
    check_field,
    given,
    grouped,
    identity,
    is_number,
    kind_of,
    names_in,
    sameness,
    text_of,
)
from kgqa_hpc.plugins.gasl.world import Outcome, World

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


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


def add_field(world: World, ref: Ref, name: x.Word | str, value: x.Expression) -> Outcome:
    """Each item with one more field."""
    items = world.items(ref)
    values, nothing = _evaluate(value, items, world)
    field = free_name(name.text if isinstance(name, x.Word) else name, names_in(items))
    extended = ({**item, field: result} for item, result in zip(items, values, strict=True))
    return Outcome(extended, nothing, notes={"field": field})


class _Nothing(Exception):
    """The whole value is null: a field is missing, a division by zero, a number beyond 1e308."""


def _evaluate(expression: x.Expression, items: Sequence[Item], world: World) -> tuple[list[Any], int]:
    """The value for each item and how many of them are null. Raises ScriptError `name`, `type` or `limit`."""
    if isinstance(expression, x.Name) and expression.alone and expression.field.text in world.variables:
        field = expression.field
        expression = x.Variable(Ref(field.text, field.text, (), field.place))
    parts = list(x.parts(expression))
    world.spend(len(items) * sum(map(_work, parts)))
    for leaf in parts:
        for field in leaf.fields if isinstance(leaf, x.Template) else ():
            check_field(items, field)
        if isinstance(leaf, x.Name):
            check_field(items, leaf.field, also=world.variables if leaf is expression and leaf.alone else ())
    columns: dict[Ref, Sequence[Any]] = {}
    for leaf in parts:
        if isinstance(leaf, x.Variable):
            column = world.column(leaf.ref)
            columns[leaf.ref] = [world.single(leaf.ref)] * len(items) if column is None else column
            if len(columns[leaf.ref]) != len(items):
                message = f"${leaf.ref.text[:100]} has {len(columns[leaf.ref]):,} items for {len(items):,}"
                raise ScriptError("type", message)
    values: list[Any] = []
    nothing = 0
    for position, item in enumerate(items):
        variables = {ref: column[position] for ref, column in columns.items()}
        try:
            values.append(_worth(expression, item, variables))
        except _Nothing:
            values.append(None)
            nothing += 1
    return values, nothing


def _work(part: x.Expression) -> int:
    """How many operations and operands a part adds to its expression."""
    match part:
        case x.Chain(_, operations):
            return len(operations)
        case x.Template(_, fields):
            return 1 + len(fields)
    return 1


def _worth(expression: x.Expression, item: Item, variables: Mapping[Ref, Any]) -> Any:
    """The value of an expression at an item. Raises _Nothing, or ScriptError `type` or `limit`."""
    value: Any
    match expression:
        case x.Number(value):
            pass
        case x.Name(field):
            value = given(item, field)
        case x.Variable(ref):
            value = variables[ref]
        case x.Minus(part):
            return -_number(_worth(part, item, variables))
        case x.Call(function, argument):
            value = _worth(argument, item, variables)
            if function == "length" and isinstance(value, str | list | dict):
                return len(value)
            if function == "length" or not isinstance(value, str):
                raise ScriptError("type", f"{function} of a {_shown(value)}")
            return value.lower() if function == "lower" else value.upper()
        case x.Template(texts, fields):
            value, *following = texts
            for field, text in zip(fields, following, strict=True):
                value += text_of(_worth(x.Name(field), item, variables)) + text
                if len(value) > MAX_ITEM_BYTES:
                    raise ScriptError("limit", "an item of more than 64 KiB")
        case x.Chain(operand, operations):
            value = _number(_worth(operand, item, variables))
            for sign, operand in operations:
                try:
                    value = _OPERATIONS[sign](value, _number(_worth(operand, item, variables)))
                except (ZeroDivisionError, OverflowError):
                    raise _Nothing from None
                if not abs(value) <= LARGEST:
                    raise _Nothing
    if value is None:
        raise _Nothing
    return value


def _number(value: Any) -> Any:
    if not is_number(value):
        raise ScriptError("type", f"a number is needed here, not a {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {"LIST": "list", "DICT": "object", "COUNTER": "number", "VALUE": "text"}[kind_of(value)]
