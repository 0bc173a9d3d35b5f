"""The names and literals a script is made of, each with its place, and the word that may have been meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kgqa_hpc.gasl.source import Place

MAX_DISTANCE = 2


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


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate at the smallest edit distance, case ignored: at most 2, less than the word's length."""
    limit = min(MAX_DISTANCE, len(word) - 1)
    ranked = ((distance(word.lower(), each.lower(), limit), each) for each in candidates)
    best = min(((d, each) for d, each in ranked if d <= limit), default=None)
    return best[1] if best else None


def distance(left: str, right: str, limit: int) -> int:
    """Edit distance (insert, delete, replace); limit + 1 when it is more than `limit`.

    Only the band of 2 * limit + 1 cells a row that can matter is looked at: linear in the length.
    """
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    far = limit + 1
    row = {j: j for j in range(limit + 1)}
    for i, a in enumerate(left, 1):
        above, row = row, {}
        for j in range(max(0, i - limit), min(len(right), i + limit) + 1):
            best = min(above.get(j, far), row.get(j - 1, far)) + 1
            if j:
                best = min(best, above.get(j - 1, far) + (a != right[j - 1]))
            row[j] = best
    return min(row.get(len(right), far), far)
