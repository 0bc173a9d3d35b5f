"""Conditions as data. What they mean for an item is in filters.py; docs/gasl.md, "Conditions"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kgqa_hpc.gasl.words import Field, Literal_, Ref

End = Literal["item", "source", "target"]


@dataclass(frozen=True)
class Comparison:
    """One field against literals. `op` is a CMP, contains, matches, in, in_variable, is_null or not_null."""

    field: Field
    op: str
    values: tuple[Literal_, ...] = ()
    ref: Ref | None = None
    end: End = "item"


@dataclass(frozen=True)
class Not:
    part: Condition


@dataclass(frozen=True)
class All:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Any_:
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
