"""Parts of commands as data: names and literals with their positions, conditions and expressions.

filters.py makes functions of conditions, combining.py of expressions; docs/guide/gasl.md. `nearest` finds the word
that may have been meant by an unknown one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from kgqa_hpc.plugins.gasl.source import Place

MAX_DISTANCE = 2
MAX_CANDIDATES = 1000


class Word(NamedTuple):
    """A name or a type."""

    text: str
    place: Place


class Field(NamedTuple):
    """A field as written and its steps; a quoted one is one step."""

    text: str
    steps: tuple[str, ...]
    place: Place


class Ref(NamedTuple):
    """A variable, or an entry of a DICT by the names after the dots."""

    text: str
    name: str
    entries: tuple[str, ...]
    place: Place


class Literal_(NamedTuple):
    """A value in a condition: its characters and, unless it was a string, its number or truth value.

    `ref` is set for `$name` instead.
    """

    text: str
    number: int | float | None = None
    truth: bool | None = None
    ref: Ref | None = None


End = Literal["item", "source", "target"]


class Comparison(NamedTuple):
    """One field against literals. `op` is a CMP, contains, matches, in, in_variable, is_null or is_not_null."""

    field: Field
    op: str
    values: tuple[Literal_, ...] = ()
    ref: Ref | None = None
    end: End = "item"
    place: Place | None = None


class Not(NamedTuple):
    part: Condition


class All(NamedTuple):
    parts: tuple[Condition, ...]


class Any_(NamedTuple):
    parts: tuple[Condition, ...]


Condition = Comparison | Not | All | Any_


def comparisons(condition: Condition | None) -> Iterator[Comparison]:
    """Every comparison in a condition, in the order of the text."""
    if isinstance(condition, Comparison):
        yield condition
    elif isinstance(condition, Not):
        yield from comparisons(condition.part)
    elif condition is not None:
        for part in condition.parts:
            yield from comparisons(part)


class Number(NamedTuple):
    """None stands for a number beyond 1e308, which makes the whole value null."""

    value: int | float | None


class Template(NamedTuple):
    """Texts and fields in turn: texts[0] fields[0] texts[1] … texts[n]."""

    texts: tuple[str, ...]
    fields: tuple[Field, ...]


class Name(NamedTuple):
    """A field; `alone` when it has neither dots nor brackets: as a whole expression it may be a variable."""

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


def operations(expression: Expression) -> int:
    """How many operations and operands an expression has."""
    match expression:
        case Call():
            return 1 + operations(expression.argument)
        case Minus():
            return 1 + operations(expression.part)
        case Chain():
            return operations(expression.first) + sum(
                1 + operations(operand) for _, operand in expression.rest
            )
        case Template():
            return 1 + len(expression.fields)
    return 1


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate at the smallest edit distance, case ignored: at most 2, less than the word's length.

    None where there are too many candidates to look at.
    """
    limit, candidates = min(MAX_DISTANCE, len(word) - 1), list(candidates)
    if len(candidates) > MAX_CANDIDATES:
        return None
    ranked = ((distance(word.lower(), candidate.lower(), limit), candidate) for candidate in candidates)
    best = min(((d, candidate) for d, candidate in ranked if d <= limit), default=None)
    return best[1] if best else None


def distance(written: str, right: str, limit: int) -> int:
    """Edit distance (insert, delete, replace); limit + 1 when it is more than `limit`."""
    pairs = enumerate(zip(written, right, strict=False))
    common = next((k for k, (a, b) in pairs if a != b), min(len(written), len(right)))
    written, right = written[common:], right[common:]
    if not written or not right:
        return min(len(written) + len(right), limit + 1)
    if limit == 0:
        return 1
    edits = ((written[1:], right), (written, right[1:]), (written[1:], right[1:]))
    return 1 + min(distance(*edit, limit - 1) for edit in edits)
