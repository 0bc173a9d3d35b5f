"""Conditions as functions of an item: docs/guide/gasl.md, "Conditions"."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kgqa_hpc.plugins.gasl.values import Item, check_field, given, is_number, number, text_of
from kgqa_hpc.plugins.gasl.words import All, Any_, Comparison, Condition, Literal_, Not, comparisons
from kgqa_hpc.plugins.gasl.world import World

# A function of an item, and of the first and last node of an edge or path.
Predicate = Callable[[Item, Item, Item], bool]
Test = Callable[[Any], bool]

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _literal_of(value: Any) -> Literal_:
    """The possible readings of a value: as a text, a number and a truth value."""
    text = text_of(value)
    if isinstance(value, str):
        return Literal_(text, number(text), {"true": True, "false": False}.get(text.lower()))
    return Literal_(text, value) if is_number(value) else Literal_(text, truth=value)


def check_fields(items: Sequence[Item], condition: Condition | None) -> None:
    """Raises ScriptError `name` for a field that no item has, unless the condition only tests for null."""
    for comparison in comparisons(condition):
        if comparison.op not in ("is_null", "is_not_null"):
            check_field(items, comparison.field)


def select(items: Sequence[Item], condition: Condition | None, world: World) -> Sequence[Item]:
    """The items for which a WHERE holds. Raises ScriptError `name` or `type`."""
    if condition is None:
        return items
    world.spend(len(items) * sum(1 for _ in comparisons(condition)))
    check_fields(items, condition)
    holds = predicate(condition, world)
    return [item for item in items if holds(item, item, item)]


def predicate(condition: Condition | None, world: World) -> Predicate:
    """Compile the condition to a function; `$` values are read now. Raises ScriptError `name` or `type`."""
    if condition is None:
        return lambda item, source, target: True
    if isinstance(condition, Not):
        part = predicate(condition.part, world)
        return lambda item, source, target: not part(item, source, target)
    if isinstance(condition, Comparison):
        test, field = _test(condition, world), condition.field
        if condition.end == "source":
            return lambda item, source, target: test(given(source, field))
        if condition.end == "target":
            return lambda item, source, target: test(given(target, field))
        return lambda item, source, target: test(given(item, field))
    parts = [predicate(condition_part, world) for condition_part in condition.parts]
    if isinstance(condition, Any_):
        return lambda item, source, target: any(holds(item, source, target) for holds in parts)
    assert isinstance(condition, All)
    return lambda item, source, target: all(holds(item, source, target) for holds in parts)


def _test(comparison: Comparison, world: World) -> Test:
    op = comparison.op
    if op == "is_null":
        return lambda value: value is None
    if op == "is_not_null":
        return lambda value: value is not None
    if op == "matches":
        import re2

        search = re2.compile(comparison.values[0].text).search
        return lambda value: isinstance(value, str) and search(value) is not None
    if op == "in_variable":
        assert comparison.ref is not None
        column = world.column(comparison.ref)
        return one_of(_literal_of(value_) for value_ in _scalars(column, comparison, world))
    literals = [literal(value_, world) for value_ in comparison.values]
    if op == "in":
        return one_of(literals)
    if op == "contains":
        return _contains(literals[0])
    return compare(op, literals[0])


def _scalars(column: list[Any] | None, comparison: Comparison, world: World) -> list[Any]:
    if column is None:
        assert comparison.ref is not None
        return [world.single(comparison.ref)]
    return [value for value in column if value is not None and not isinstance(value, list | dict)]


def literal(written: Literal_, world: World) -> Literal_:
    """A literal as written, or the value of its `$name`."""
    if written.ref is not None:
        return _literal_of(world.single(written.ref))
    has_type = written.number is not None or written.truth is not None
    return written if has_type else _literal_of(written.text)


def compare(op: str, expected: Literal_) -> Test:
    """A CMP against a literal; a missing value (None) fits nothing."""
    if op == "=":
        return lambda value: _equals(value, expected)
    if op == "!=":
        return lambda value: value is not None and not _equals(value, expected)
    order = _ORDERS[op]

    def ordered(value: Any) -> bool:
        if isinstance(value, str):
            return order(value, expected.text)
        return is_number(value) and expected.number is not None and order(value, expected.number)

    return ordered


def _equals(value: Any, expected: Literal_) -> bool:
    if isinstance(value, str):
        return value == expected.text
    if isinstance(value, bool):
        return value is expected.truth
    return is_number(value) and expected.number is not None and value == expected.number


def one_of(literals: Iterable[Literal_]) -> Test:
    """Equal to one of the literals, however many they are."""
    candidates = list(literals)
    texts = {candidate.text for candidate in candidates}
    numbers = {candidate.number for candidate in candidates if candidate.number is not None}
    truths = {candidate.truth for candidate in candidates if candidate.truth is not None}

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, bool):
            return value in truths
        return is_number(value) and value in numbers

    return test


def _contains(expected: Literal_) -> Test:
    folded = expected.text.casefold()

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return folded in value.casefold()
        return isinstance(value, list) and any(_equals(member, expected) for member in value)

    return test
