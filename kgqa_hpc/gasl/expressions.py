"""The expressions of ADD_FIELD as data. arithmetic.py evaluates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kgqa_hpc.gasl.words import Field, Ref


class Number(NamedTuple):
    """None stands for a number beyond 1e308, which makes the whole value null."""

    value: int | float | None


class Template(NamedTuple):
    """Texts and fields in turn: texts[0] fields[0] texts[1] … texts[n]."""

    texts: tuple[str, ...]
    fields: tuple[Field, ...]


class Name(NamedTuple):
    """A field; `alone` when it is the whole expression and has no dots: then a variable goes before."""

    field: Field
    alone: bool = False


class Variable(NamedTuple):
    ref: Ref


class Call(NamedTuple):
    """`function` is lower, upper or length."""

    function: str
    argument: Expression


class Minus(NamedTuple):
    part: Expression


class Chain(NamedTuple):
    """first, then (operator, operand) from left to right."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]


Expression = Number | Template | Name | Variable | Call | Minus | Chain

FUNCTIONS = ("lower", "upper", "length")


def leaves(expression: Expression) -> Iterator[Template | Name | Variable]:
    """Every part that reads something, in the order of the text."""
    if isinstance(expression, Template | Name | Variable):
        yield expression
    elif isinstance(expression, Call):
        yield from leaves(expression.argument)
    elif isinstance(expression, Minus):
        yield from leaves(expression.part)
    elif isinstance(expression, Chain):
        yield from leaves(expression.first)
        for _, operand in expression.rest:
            yield from leaves(operand)
