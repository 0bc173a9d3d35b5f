"""A script as text, with the line and column of each offset, and as data: its statements, commands and conditions, with
the position of every name in the text.

The text has joined lines, or is that of a JSON plan. `nearest` finds the word that may have been meant by an unknown
one.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kgqa_hpc.errors import ScriptError

MAX_BYTES = 256 * 1024
MAX_NESTING = 50

_JOIN = re.compile(r"\\\n")
_NOT_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[\[\]{}]', re.DOTALL)


class Place(NamedTuple):
    """A line and a column in characters, both from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Plan:
    """Settings of a JSON plan besides its commands."""

    plan_id: str | None = None
    stop_on_error: bool = True
    continue_on_empty: bool = False


@dataclass(frozen=True)
class Source:
    """The text for the parser; `joins` are the offsets at which a backslash and a line end were removed."""

    text: str
    joins: tuple[int, ...]
    starts: tuple[int, ...]
    plan: Plan | None = None

    def place(self, offset: int) -> Place:
        """The position in the original script of the character at an offset of `text`."""
        original = offset + 2 * bisect_right(self.joins, offset)
        line = bisect_right(self.starts, original) - 1
        return Place(line + 1, original - self.starts[line] + 1)

    def after(self, end: int) -> Place:
        """The position just after the text that ends at an offset."""
        if end == 0:
            return Place(1, 1)
        line, column = self.place(end - 1)
        return Place(line, column + 1)


def read_source(data: bytes) -> Source:
    """The source of a script or a plan. Raises ScriptError, `syntax` or `limit`, with the place."""
    if len(data) > MAX_BYTES:
        raise ScriptError(
            "limit", f"the script has {len(data):,} bytes; {MAX_BYTES:,} are allowed", Place(1, 1)
        )
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        before = _lines(data[: problem.start].decode("utf-8").removeprefix("\ufeff"))
        byte = data[problem.start]
        raise ScriptError("syntax", f"byte 0x{byte:02X} is not UTF-8", _end(before)) from None
    text, plan = _lines(text), None
    if text.lstrip().startswith("{"):
        plan, commands = _plan(text)
        text = "\n".join(commands)
    starts = (0, *(match.end() for match in re.finditer("\n", text)))
    joins = tuple(match.start() - 2 * count for count, match in enumerate(_JOIN.finditer(text)))
    return Source(_JOIN.sub("", text), joins, starts, plan)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _end(text: str) -> Place:
    return Place(text.count("\n") + 1, len(text) - text.rfind("\n"))


def _plan(text: str) -> tuple[Plan, list[str]]:
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MAX_NESTING:
            message = f"the plan is nested more than {MAX_NESTING} deep"
            raise ScriptError("limit", message, Place(1, 1))

    def refuse(_: str) -> Any:
        """Refuse NaN and Infinity, which Python's parser accepts."""
        match = next(m for m in _NOT_JSON.finditer(text) if not m[0].startswith('"'))
        raise ScriptError("syntax", f"not JSON: {match[0]}", _end(text[: match.start()]))

    try:
        return _shape(json.loads(text, parse_int=str, parse_constant=refuse))
    except json.JSONDecodeError as problem:
        raise ScriptError("syntax", f"not JSON: {problem.msg}", _json_place(text, problem.pos)) from None
    except ValueError as problem:
        raise ScriptError("syntax", f"not a plan: {problem}", Place(1, 1)) from None


def _json_place(text: str, offset: int) -> Place:
    if text[offset : offset + 1] == ",":  # Python 3.13 points at the comma, we at the bracket behind it
        following = re.compile(r",\s*([\]}])").match(text, offset)
        offset = following.start(1) if following else offset
    return _end(text[: min(offset, len(text.rstrip()))])


def _shape(document: dict[str, Any]) -> tuple[Plan, list[str]]:
    """Raises ValueError when the JSON is not a plan."""
    commands = document.get("commands")
    if not isinstance(commands, list):
        raise ValueError("`commands` must be a list")
    texts: list[Any] = [entry.get("command") if isinstance(entry, dict) else entry for entry in commands]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("each of `commands` must be a string or an object with a `command`")
    plan_id = document.get("plan_id")
    if plan_id is not None and not isinstance(plan_id, str):
        raise ValueError("`plan_id` must be a string")
    config = {} if document.get("config") is None else document["config"]
    if not isinstance(config, dict):
        raise ValueError("`config` must be an object")
    settings = config.get("stop_on_error", True), config.get("continue_on_empty", False)
    if not all(isinstance(value, bool) for value in settings):
        raise ValueError("`stop_on_error` and `continue_on_empty` must be true or false")
    try:
        "".join([*texts, plan_id or ""]).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a \\u escape is half of a character") from None
    return Plan(plan_id, *settings), [re.sub(r"[\r\n]", " ", text) for text in texts]


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
