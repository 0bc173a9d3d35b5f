"""A script as data: its statements, commands and conditions, with the position of every name in the text.

`nearest` finds the word that may have been meant by an unknown one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from kgqa_hpc.plugins.gasl.source import Place, Plan

MAX_DISTANCE = 2
MAX_CANDIDATES = 1000
ANY_TYPE = "any"  # every type, in FOLLOW

Direction = Literal["out", "in", "both"]
End = Literal["item", "source", "target"]


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


class Comparison(NamedTuple):
    """One field against values, texts or `$name`s. `op` is a CMP, contains, matches, in, in_variable, is_null or
    is_not_null.
    """

    field: Field
    op: str
    values: tuple[str | Ref, ...]
    end: End
    place: Place


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
    elif condition is not None:
        for part in (condition.part,) if isinstance(condition, Not) else condition.parts:
            yield from comparisons(part)


class Found(NamedTuple):
    """FIND and PATH; `kind` is nodes, edges or paths."""

    kind: str
    condition: Condition | None
    limit: int | None
    direction: Direction = "both"
    depth: int = 3


class Command(NamedTuple):
    """A command as the name of its rule in grammar.lark and the values of the rule's parts, None for an absent clause.

    The function of this name in `perform` takes the values as its arguments.
    """

    name: str
    arguments: tuple[Any, ...]


class Simple(NamedTuple):
    """One command with its place, its own text and the variable it names with AS."""

    command: Command
    into: Word | None
    text: str
    place: Place


class On(NamedTuple):
    status: str
    simple: Simple
    text: str
    place: Place


class Attempt(NamedTuple):
    """TRY with its CATCH and FINALLY."""

    body: tuple[Statement, ...]
    rescue: tuple[Statement, ...] | None
    final: tuple[Statement, ...] | None


Statement = Simple | On | Attempt


class Script(NamedTuple):
    """A whole script. `digest` is the SHA-256 of its bytes."""

    statements: tuple[Statement, ...]
    plan: Plan | None
    digest: str


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
