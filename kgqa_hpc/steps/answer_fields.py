"""The fields of an answer, checked against its schema: types, bounds, and text that is text.

The schemas are those of prompts/flat_schema.py: strings, booleans, numbers, lists of them or of flat objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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

    `repaired`: the text had to be mended to get at them. `filled`: strings, and lists with one, exactly as long as
    they may be; an engine that enforces the schema while decoding cut them off there.
    """

    value: dict[str, Any]
    repaired: bool
    filled: tuple[str, ...] = ()


def checked_fields(
    data: Mapping[str, Any], properties: Mapping[str, Mapping[str, Any]], repaired: bool, clean: bool = False
) -> Parsed:
    """Check the schema's fields, strip strings, leave other keys out. Raises Unparseable."""
    value = {}
    filled: tuple[str, ...] = ()
    for name, field in properties.items():
        if name not in data:
            raise Unparseable(f"missing:{name}")
        entry = data[name]
        value[name] = _CHECKS[field["type"]](name, entry, field, clean)
        if entry.__class__ is not bool and _is_filled(entry, field):
            filled += (name,)
    return Parsed(value, repaired, filled)


def _is_filled(entry: Any, field: Mapping[str, Any]) -> bool:
    if entry.__class__ is list:
        return any(_is_filled(one, field["items"]) for one in entry)
    return entry.__class__ is str and len(entry) == field.get("maxLength")


def _checked_boolean(name: str, entry: Any, field: Mapping[str, Any], clean: bool) -> bool:
    if entry is not True and entry is not False:
        raise Unparseable(f"wrong_type:{name}")
    return bool(entry)


def _checked_object(name: str, entry: Any, field: Mapping[str, Any], clean: bool) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise Unparseable(f"wrong_type:{name}")
    return checked_fields(entry, field["properties"], False, clean).value


def _checked_list(name: str, entry: Any, field: Mapping[str, Any], clean: bool) -> list[Any]:
    if not isinstance(entry, list):
        raise Unparseable(f"wrong_type:{name}")
    if not field.get("minItems", 0) <= len(entry) <= field["maxItems"]:
        raise Unparseable(f"not_allowed:{name}")
    items = field["items"]
    check = _CHECKS[items["type"]]
    return [check(name, one, items, clean) for one in entry]


def _checked_string(name: str, entry: Any, field: Mapping[str, Any], clean: bool) -> str:
    if not isinstance(entry, str):
        raise Unparseable(f"wrong_type:{name}")
    if "enum" in field:
        if entry not in field["enum"]:
            raise Unparseable(f"not_allowed:{name}")
        return entry
    if "maxLength" in field and len(entry) > field["maxLength"]:
        raise Unparseable(f"too_long:{name}")
    if not (clean or entry.isprintable()) and _NOT_TEXT.search(entry):
        raise Unparseable(f"not_text:{name}")
    entry = entry.strip()
    if "minLength" in field and len(entry) < field["minLength"]:
        raise Unparseable(f"too_short:{name}" if entry else f"empty:{name}")
    return entry


_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _checked_number(name: str, entry: Any, field: Mapping[str, Any], clean: bool) -> Any:
    kinds = (int,) if field["type"] == "integer" else (int, float)
    if isinstance(entry, bool) or not isinstance(entry, kinds):
        raise Unparseable(f"wrong_type:{name}")
    if not field.get("minimum", float("-inf")) <= entry <= field.get("maximum", float("inf")):
        raise Unparseable(f"not_allowed:{name}")
    return entry


_CHECKS: dict[str, Callable[[str, Any, Mapping[str, Any], bool], Any]] = {
    "string": _checked_string,
    "boolean": _checked_boolean,
    "integer": _checked_number,
    "number": _checked_number,
    "array": _checked_list,
    "object": _checked_object,
}
