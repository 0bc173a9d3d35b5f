"""From a model's text to the fields of a schema: the right ones or none.

Three stages. Strict: the whole text is one JSON object. Salvage: around it stand a thought, a fence or
prose, or its JSON has a flaw that can be mended without choosing (counted as repaired). Else Unparseable,
with a reason from a small vocabulary. Nothing is ever guessed: an object inside a string, two objects that
differ, a key that stands twice, a text that is cut off: all are refused, for a retry costs seconds and a
wrong field stays in a dataset for ever.

Bounded: at most LARGEST characters are looked at, at most SALVAGEABLE of them repaired; memory and time are
linear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from kgqa_hpc.steps.salvage import Refused, salvage, unwrap

LARGEST = 1_000_000  # characters; a thousand times what a prompt asks for
SALVAGEABLE = 40_000  # characters of a text that is mended, prose and thoughts included

# Every reason there is; those with a colon are followed by a field's name.
REASONS = (
    "empty",  # no text, or only thoughts
    "truncated",  # the text stops inside an object
    "too_large",  # above LARGEST
    "not_json",  # no object that can be read without guessing
    "not_object",  # JSON, but a list, string or number
    "ambiguous",  # several objects or keys that differ
    "not_text:",  # a string with lone surrogates or control characters
    "missing:",
    "wrong_type:",
    "empty:",
    "too_short:",
    "too_long:",
    "not_allowed:",  # not one of the enum, or out of bounds
)


class Unparseable(ValueError):
    """The text holds no usable answer; `reason` says why in the words of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Parsed(NamedTuple):
    """The fields of the schema, in its order.

    `repaired`: the text had to be mended to get at them. `filled`: strings exactly as long as they may be;
    an engine that enforces the schema while decoding cut them off there.
    """

    value: dict[str, Any]
    repaired: bool
    filled: tuple[str, ...] = ()


def parse_json(text: str, schema: Mapping[str, Any]) -> Parsed:
    """Read `text` as an object of the flat `schema` (prompts/flat_schema.py).

    Raises Unparseable. Never another exception, whatever the text.
    """
    if len(text) > LARGEST:
        raise Unparseable("too_large")
    text = text.strip()
    if not text:
        raise Unparseable("empty")
    properties = schema["properties"]
    data = _strict(text, properties)
    if data is None and len(text) <= SALVAGEABLE:
        text = unwrap(text)
        if not text:
            raise Unparseable("empty")
        data = _strict(text, properties)
    if data is not None:
        return _parsed(data, properties, repaired=not data.keys() <= properties.keys(), clean=_is_clean(text))
    if len(text) > SALVAGEABLE:
        raise Unparseable("not_json")
    try:
        found = salvage(text, tuple(properties))
    except Refused as problem:
        raise Unparseable(str(problem)) from None
    return _parsed(found, properties, repaired=True)


def _strict(text: str, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """The object, if the whole text is one. Raises Unparseable for other JSON or a key that stands twice."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(data, dict):
        raise Unparseable("not_object")
    # Two quotes for each key and each string: then there is no key but these, and none stands twice.
    strings = [*map(type, data.values())].count(str)
    if text.count('"') == 2 * (len(data) + strings):
        return data
    # A key that stands twice needs the slow reader; `"name"` can hardly occur elsewhere, for quotes in
    # strings are escaped. \\u00 may spell a key with escapes.
    if "\\u00" in text or any(text.count(f'"{name}"') > 1 for name in properties):
        refuse_repeated_keys(text)
    return data


def refuse_repeated_keys(text: str) -> None:
    """Raise Unparseable if any object in the valid JSON `text` has a key twice."""

    def pairs(items: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in items}) < len(items):
            raise Unparseable("ambiguous")

    try:
        json.loads(text, object_pairs_hook=pairs)
    except Unparseable:
        raise
    except (ValueError, RecursionError):  # an integer of thousands of digits, nesting beyond the reader
        raise Unparseable("not_json") from None


def _is_clean(text: str) -> bool:
    """Whether the strings in the JSON `text` surely need no search for what is not text: most need none."""
    return text.isascii() and "\\" not in text and "\x7f" not in text


def _parsed(
    data: Mapping[str, Any], properties: Mapping[str, Mapping[str, Any]], repaired: bool, clean: bool = False
) -> Parsed:
    """Check the schema's fields, strip strings, leave other keys out. Raises Unparseable."""
    value: dict[str, Any] = {}
    filled: list[str] = []
    for name, field in properties.items():
        if name not in data:
            raise Unparseable(f"missing:{name}")
        entry = data[name]
        kind = field["type"]
        if kind == "string":
            if not isinstance(entry, str):
                raise Unparseable(f"wrong_type:{name}")
            if len(entry) == field.get("maxLength"):
                filled.append(name)
            entry = _checked_string(name, entry, field, clean)
        elif kind == "boolean":
            if entry is not True and entry is not False:
                raise Unparseable(f"wrong_type:{name}")
        else:
            _check_number(name, entry, field)
        value[name] = entry
    return Parsed(value, repaired, tuple(filled))


def _checked_string(name: str, entry: str, field: Mapping[str, Any], clean: bool) -> str:
    if "enum" in field:
        if entry not in field["enum"]:
            raise Unparseable(f"not_allowed:{name}")
        return entry
    if len(entry) > field.get("maxLength", LARGEST):
        raise Unparseable(f"too_long:{name}")
    if not (clean or entry.isprintable()) and _NOT_TEXT.search(entry):
        raise Unparseable(f"not_text:{name}")
    entry = entry.strip()
    if len(entry) < field.get("minLength", 0):
        raise Unparseable(f"too_short:{name}" if entry else f"empty:{name}")
    return entry


_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _check_number(name: str, entry: Any, field: Mapping[str, Any]) -> None:
    kinds = (int,) if field["type"] == "integer" else (int, float)
    if isinstance(entry, bool) or not isinstance(entry, kinds):
        raise Unparseable(f"wrong_type:{name}")
    if not field.get("minimum", float("-inf")) <= entry <= field.get("maximum", float("inf")):
        raise Unparseable(f"not_allowed:{name}")
