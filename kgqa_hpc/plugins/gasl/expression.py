"""Expressions of ADD_FIELD as functions of an item: docs/guide/gasl.md, "Expressions".

A value is null as a whole where a field is missing, after a division by zero, and beyond 1e308.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.syntax import Field, Ref
from kgqa_hpc.plugins.gasl.values import LARGEST, MAX_ITEM_BYTES, Item, given, is_number, kind_of, text_of

FUNCTIONS = ("lower", "upper", "length")
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_NOUNS = {"LIST": "list", "DICT": "object", "COUNTER": "number", "VALUE": "text"}


class Nothing(Exception):
    """The whole value is null."""


class Expression(NamedTuple):
    """A function of an item and of the values of `$name`s; raises Nothing, or ScriptError `type` or `limit`.

    `fields` and `refs` are in the order of the text, `work` counts operands and operations. `word`: the field of an
    expression that is a single word, which may also be the name of a variable.
    """

    value: Callable[[Item, Mapping[Ref, Any]], Any]
    fields: tuple[Field, ...] = ()
    refs: tuple[Ref, ...] = ()
    work: int = 1
    word: Field | None = None


def _something(value: Any) -> Any:
    if value is None:
        raise Nothing
    return value


def constant(number: int | float | None) -> Expression:
    """A number; None stands for one beyond 1e308."""
    return Expression(lambda item, variables: _something(number))


def field_value(field: Field) -> Expression:
    """A field of the item."""
    word = None if "." in field.text else field
    return Expression(lambda item, variables: _something(given(item, field)), (field,), word=word)


def variable(ref: Ref) -> Expression:
    """The value of `$name`."""
    return Expression(lambda item, variables: _something(variables[ref]), refs=(ref,))


def call(function: str, argument: Expression) -> Expression:
    """A function of FUNCTIONS."""

    def value(item: Item, variables: Mapping[Ref, Any]) -> Any:
        operand = argument.value(item, variables)
        if function == "length" and isinstance(operand, str | list | dict):
            return len(operand)
        if function == "length" or not isinstance(operand, str):
            raise ScriptError("type", f"{function} of a {_noun(operand)}")
        return operand.lower() if function == "lower" else operand.upper()

    return argument._replace(value=value, work=argument.work + 1, word=None)


def minus(signs: int, operand: Expression) -> Expression:
    """The operand after so many minus signs."""
    negative = signs % 2 == 1

    def value(item: Item, variables: Mapping[Ref, Any]) -> Any:
        number = _number(operand.value(item, variables))
        return -number if negative else number

    return operand._replace(value=value, work=operand.work + 1, word=None)


def arithmetic(operand: Expression, *operations: Any) -> Expression:
    """An operand, then operators and operands in turn, from left to right."""
    pairs = [*zip(map(str, operations[::2]), operations[1::2], strict=True)]
    operands = [operand, *operations[1::2]]

    def value(item: Item, variables: Mapping[Ref, Any]) -> Any:
        total = _number(operand.value(item, variables))
        for sign, following in pairs:
            try:
                total = _OPERATIONS[sign](total, _number(following.value(item, variables)))
            except (ZeroDivisionError, OverflowError):
                raise Nothing from None
            if not abs(total) <= LARGEST:
                raise Nothing
        return total

    fields, refs = (
        tuple(chain.from_iterable(part)) for part in zip(*(o[1:3] for o in operands), strict=True)
    )
    return Expression(value, fields, refs, len(pairs) + sum(part.work for part in operands))


def template(texts: Sequence[str], fields: Sequence[Field]) -> Expression:
    """Texts and fields in turn: texts[0] fields[0] texts[1] … texts[n]."""

    def value(item: Item, variables: Mapping[Ref, Any]) -> str:
        written = texts[0]
        for field, text in zip(fields, texts[1:], strict=True):
            written += text_of(_something(given(item, field))) + text
            if len(written) > MAX_ITEM_BYTES:
                raise ScriptError("limit", "an item of more than 64 KiB")
        return written

    return Expression(value, tuple(fields), work=1 + len(fields))


def _number(value: Any) -> Any:
    if not is_number(value):
        raise ScriptError("type", f"a number is needed here, not a {_noun(value)}")
    return value


def _noun(value: Any) -> str:
    return "boolean" if isinstance(value, bool) else _NOUNS[kind_of(value)]
