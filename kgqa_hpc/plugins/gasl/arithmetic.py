"""Evaluates the expression of an ADD_FIELD for each item: docs/guide/gasl.md, "Expressions"."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import words as w
from kgqa_hpc.plugins.gasl.literals import LARGEST, MAX_ITEM_BYTES
from kgqa_hpc.plugins.gasl.values import Item, check_field, given, is_number, kind_of, text_of
from kgqa_hpc.plugins.gasl.words import Ref
from kgqa_hpc.plugins.gasl.world import World

# A function of an item's place in its list and the item; raises Nothing.
Worth = Callable[[int, Item], Any]

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Nothing(Exception):
    """The whole value is null: a field is missing, a division by zero, a number beyond 1e308."""


def evaluate(expression: w.Expression, items: Sequence[Item], world: World) -> tuple[list[Any], int]:
    """The value for each item and how many of them are null. Raises ScriptError `name`, `type` or `limit`."""
    expression = _variable_first(expression, world)
    world.spend(len(items) * w.operations(expression))
    for leaf in w.leaves(expression):
        for field in leaf.fields if isinstance(leaf, w.Template) else ():
            check_field(items, field)
        if isinstance(leaf, w.Name):
            check_field(items, leaf.field, also=world.variables if leaf.alone else ())
    worth = _worth(expression, len(items), world)
    values: list[Any] = []
    nothing = 0
    for position, item in enumerate(items):
        try:
            values.append(worth(position, item))
        except Nothing:
            values.append(None)
            nothing += 1
    return values, nothing


def _variable_first(expression: w.Expression, world: World) -> w.Expression:
    if isinstance(expression, w.Name) and expression.alone and expression.field.text in world.variables:
        field = expression.field
        return w.Variable(Ref(field.text, field.text, (), field.place))
    return expression


def _worth(expression: w.Expression, count: int, world: World) -> Worth:
    if isinstance(expression, w.Number):
        return lambda position, item: _present(expression.value)
    if isinstance(expression, w.Name):
        return lambda position, item: _present(given(item, expression.field))
    if isinstance(expression, w.Variable):
        ref = expression.ref
        column = world.column(ref)
        if column is None:
            value = world.single(ref)
            return lambda position, item: value
        if len(column) != count:
            raise ScriptError("type", f"${ref.text[:100]} has {len(column):,} items for {count:,}")
        return lambda position, item: _present(column[position])
    if isinstance(expression, w.Template):
        return _template(expression)
    if isinstance(expression, w.Call):
        return _call(expression, count, world)
    if isinstance(expression, w.Minus):
        part = _worth(expression.part, count, world)
        return lambda position, item: -_number(part(position, item))
    return _chain(expression, count, world)


def _present(value: Any) -> Any:
    if value is None:
        raise Nothing
    return value


def _template(expression: w.Template) -> Worth:
    def worth(position: int, item: Item) -> str:
        parts = [expression.texts[0]]
        room = MAX_ITEM_BYTES - len(expression.texts[0])
        for field, text in zip(expression.fields, expression.texts[1:], strict=True):
            parts += (text_of(_present(given(item, field))), text)
            room -= len(parts[-2]) + len(text)
            if room < 0:
                raise ScriptError("limit", "an item of more than 64 KiB")
        return "".join(parts)

    return worth


def _call(expression: w.Call, count: int, world: World) -> Worth:
    argument, function = _worth(expression.argument, count, world), expression.function

    def worth(position: int, item: Item) -> str | int:
        value = argument(position, item)
        if function == "length" and isinstance(value, str | list | dict):
            return len(value)
        if function != "length" and isinstance(value, str):
            return value.lower() if function == "lower" else value.upper()
        raise ScriptError("type", f"{function} of a {_shown(value)}")

    return worth


def _chain(expression: w.Chain, count: int, world: World) -> Worth:
    first_value = _worth(expression.first, count, world)
    operands = [(_OPERATIONS[sign], _worth(operand, count, world)) for sign, operand in expression.rest]

    def worth(position: int, item: Item) -> int | float:
        value = _number(first_value(position, item))
        for operation, operand in operands:
            try:
                value = operation(value, _number(operand(position, item)))
            except (ZeroDivisionError, OverflowError):
                raise Nothing from None
            if not abs(value) <= LARGEST:
                raise Nothing
        return value

    return worth


def _number(value: Any) -> Any:
    if not is_number(value):
        raise ScriptError("type", f"a number is needed here, not a {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {"LIST": "list", "DICT": "object", "COUNTER": "number", "VALUE": "text"}[kind_of(value)]
