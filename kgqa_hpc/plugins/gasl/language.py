"""The language of scripts as data: statements, conditions and expressions with the positions of names in the text; and
the values on which they work, docs/guide/gasl.md, "Data".

A value is plain JSON: an array of objects is a LIST, an object a DICT, a number a COUNTER, anything else a VALUE.
Nothing here is ever changed in place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import orjson

from kgqa_hpc.errors import ScriptError

MAX_NESTING = 50
ANY_TYPE = "any"  # in FOLLOW: edges of every type

Direction = Literal["out", "in", "both"]
End = Literal["item", "source", "target"]


class Place(NamedTuple):
    """A position in a script: line and column in characters, both from 1."""

    line: int
    column: int


class Word(NamedTuple):
    """A name or a type."""

    text: str
    place: Place


class Field(NamedTuple):
    """A field as written and its steps; a quoted field is one step."""

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
    """A comparison of one field with values (texts or `$name`s). `op` is a CMP (=, <, …), contains, matches, in,
    in_variable, is_null or is_not_null.
    """

    field: Field
    op: str
    values: tuple[str | Ref, ...]
    end: End
    place: Place


class Compound(NamedTuple):
    """Conditions joined by `and` or `or`, or one after `not`."""

    operation: Literal["and", "or", "not"]
    parts: tuple[Condition, ...]


Condition = Comparison | Compound


def comparisons(condition: Condition | None) -> Iterator[Comparison]:
    """Every comparison in a condition, in the order of the text."""
    if isinstance(condition, Comparison):
        yield condition
    elif condition is not None:
        for part in condition.parts:
            yield from comparisons(part)


def conjuncts(condition: Condition | None) -> tuple[Condition, ...]:
    """The conditions that must all hold."""
    if isinstance(condition, Compound) and condition.operation == "and":
        return condition.parts
    return () if condition is None else (condition,)


class Expression(NamedTuple):
    """An expression of ADD_FIELD: an operation and its operands.

    number: a number, None beyond 1e308; field: a Field; variable: a Ref; template: texts and Fields in turn;
    call: the name of a function and an Expression; minus: the number of signs and an Expression; arithmetic:
    an Expression, then operators and Expressions in turn; bracketed: an Expression.
    """

    operation: str
    operands: tuple[Any, ...]


class Found(NamedTuple):
    """A search, from FIND or PATH; `kind` is nodes, edges or paths."""

    kind: str
    condition: Condition | None
    limit: int | None
    direction: Direction = "both"
    depth: int = 3


class Command(NamedTuple):
    """A command as the name of its rule in grammar.lark and the values of the rule's parts, None for an absent clause.

    The function of this name takes the values as its arguments.
    """

    name: str
    arguments: tuple[Any, ...]


class Simple(NamedTuple):
    """A command with its position in the script, its text, and the variable that AS names (`into`)."""

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
    """A whole script or JSON plan. `digest` is the SHA-256 of its bytes; the others are the settings of a plan."""

    statements: tuple[Statement, ...]
    digest: str
    plan_id: str | None
    stop_on_error: bool
    continue_on_empty: bool


MAX_DISTANCE = 2
MAX_CANDIDATES = 1000


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


Item = Mapping[str, Any]

LARGEST = 1e308
MAX_ITEM_BYTES = 64 * 1024
TOO_LARGE = "an item of more than 64 KiB: keep fewer fields with SELECT, or COUNT … BY instead of GROUP … BY"
# Maximum levels of a nested value, which every JSON encoder can write.
MAX_LEVELS = 200

ALIASES = {
    "entity_type": "type",
    "relationship_name": "type",
    "relation": "type",
    "source_node": "source",
    "source_id": "source",
    "target_node": "target",
    "target_id": "target",
    "count": "value",
}

MISSING: Final = object()
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def kind_of(value: Any) -> str:
    """LIST, DICT, COUNTER or VALUE."""
    if isinstance(value, list):
        return "LIST"
    if isinstance(value, dict):
        return "DICT"
    return "COUNTER" if is_number(value) else "VALUE"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(text: str) -> int | float | None:
    """The value of a JSON number; None for other text, or a number beyond 1e308."""
    if _JSON_NUMBER.fullmatch(text) is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text) if len(text) <= 310 and abs(int(text)) <= int(LARGEST) else None
    value = float(text)
    return value if abs(value) <= LARGEST else None


def as_item(value: Any) -> Item:
    """A member of a LIST: an object as it is, anything else under `value`."""
    return value if isinstance(value, dict) else {"value": value}


def items_of(value: Any) -> list[Item] | None:
    """The items of a LIST, the entries of a DICT as items; None for a COUNTER or VALUE."""
    if isinstance(value, list):
        return [as_item(element) for element in value]
    if isinstance(value, dict):
        return [{"key": key, "value": element} for key, element in value.items()]
    return None


def look_up(item: Any, steps: Sequence[str]) -> Any:
    """The value of a field in an item (None for null), or MISSING.

    Each step is looked for in the item, in its properties, and then by its alternative name.
    """
    for name in steps:
        if not isinstance(item, dict):
            return MISSING
        properties = item.get("properties")
        if not isinstance(properties, dict):
            properties = {}
        if name not in item and name not in properties:
            name = ALIASES.get(name, name)
        item = item[name] if name in item else properties.get(name, MISSING)
    return item


def given(item: Any, field: Field | str) -> Any:
    """The value of a field, or of a field of one step by its name; None when it is missing."""
    value = look_up(item, (field,) if isinstance(field, str) else field.steps)
    return None if value is MISSING else value


def flat(item: Item) -> Item:
    """The item with its properties as top-level fields; its own fields of the same names take precedence."""
    if not isinstance(properties := item.get("properties"), dict):
        return item
    return {**properties, **{name: member for name, member in item.items() if name != "properties"}}


def names_in(items: Iterable[Item]) -> set[str]:
    """Every name that a first step can have: top-level fields and properties."""
    return {name for item in items for name in (*item, *flat(item))}


def check_field(items: Sequence[Item], field: Field, also: Iterable[str] = ()) -> None:
    """Raises ScriptError `name` when no item of a non-empty input has the field; a null value counts as present.

    `also`: further names for the suggestion in the message.
    """
    if items and not any(look_up(item, field.steps) is not MISSING for item in items):
        raise unknown_field(field, names_in(items).union(also))


def unknown_field(field: Field, names: Iterable[str]) -> ScriptError:
    guess = nearest(field.steps[-1] if len(field.steps) > 1 else field.text, names)
    return ScriptError("name", f"no item has a field {field.text[:100]!r}", field.place, guess)


def text_of(value: Any) -> str:
    """A value as a text: numbers in shortest form, whole ones without a point, the rest as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def to_json(value: Any) -> bytes:
    """Compact JSON; whole numbers of any size stay exact."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a whole number beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def item_bytes(item: Any) -> int:
    """The size of an item as compact JSON. Raises ScriptError `limit` for one that is too large or nested too deep."""
    try:
        size = len(orjson.dumps(item))
    except TypeError:
        check_levels(item)
        size = len(to_json(item))
    if size > MAX_ITEM_BYTES:
        raise ScriptError("limit", TOO_LARGE)
    return size


def check_levels(value: Any) -> None:
    """Raises ScriptError `limit` when a value is nested more than 200 deep."""
    if is_deeper(value, MAX_LEVELS):
        raise ScriptError("limit", f"a value is nested more than {MAX_LEVELS} deep")


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a value is nested more than so many levels deep."""
    level: list[Any] = [value]
    for _ in range(levels):
        nested = (value for value in level if isinstance(value, list | dict))
        level = [x for value in nested for x in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return False
    return True
