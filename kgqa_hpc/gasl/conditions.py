"""Conditions as data; filters.py makes functions of them. docs/gasl.md, "Conditions"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from kgqa_hpc.gasl.words import Field, Literal_, Ref

End = Literal["item", "source", "target"]


class Comparison(NamedTuple):
    """One field against literals. `op` is a CMP, contains, matches, in, in_variable, is_null or not_null."""

    field: Field
    op: str
    values: tuple[Literal_, ...] = ()
    ref: Ref | None = None
    end: End = "item"


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
