"""Checks of an answer's fields against its schema, and the options of multiple-choice records by letter.

The schemas are those of prompts/front_matter.py: strings, booleans, numbers, lists of them or of flat objects. Strings
hold no control characters.
"""

import re
from collections.abc import Callable, Mapping
from string import ascii_uppercase
from sys import maxsize
from typing import Any, NamedTuple

# All reasons for an unusable answer; those that end in a colon are followed by the name of a field.
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
    """A parsed answer: the values of the schema's fields, in its order.

    `repaired`: the JSON was malformed and has been repaired. `filled`: names of string fields (or lists of strings)
    with a text of exactly the maximum length, which the engine's guided decoding probably cut off.
    """

    value: dict[str, Any]
    repaired: bool
    filled: tuple[str, ...] = ()


class Field(NamedTuple):
    """Reader of one field: `check(entry, clean)` returns its value or raises Unparseable.

    `longest`: the maximum length of a string, or of the strings in a list; at this length the field is `filled`.
    """

    check: Callable[[Any, bool], Any]
    longest: int | None = None


Fields = Mapping[str, Field]


def fields_of(schema: Mapping[str, Any]) -> Fields:
    """Readers of a schema's fields by name, for reuse on all its answers."""
    return {name: _MADE[field["type"]](name, field) for name, field in schema["properties"].items()}


def checked_fields(data: Mapping[str, Any], fields: Fields, repaired: bool, clean: bool = False) -> Parsed:
    """Check the schema's fields, strip whitespace of strings, drop other keys. Raises Unparseable.

    `clean`: the strings are known to hold no control characters or surrogates, so that check is skipped.
    """
    value = {}
    filled: tuple[str, ...] = ()
    for name, (check, longest) in fields.items():
        if name not in data:
            raise Unparseable(f"missing:{name}")
        entry = data[name]
        value[name] = check(entry, clean)
        if longest is not None and longest in map(len, (entry,) if entry.__class__ is str else entry):
            filled += (name,)
    return Parsed(value, repaired, filled)


def _boolean(name: str, field: Mapping[str, Any]) -> Field:
    def check(entry: Any, clean: bool) -> bool:
        if entry is not True and entry is not False:
            raise Unparseable(f"wrong_type:{name}")
        return bool(entry)

    return Field(check)


def _object(name: str, field: Mapping[str, Any]) -> Field:
    fields = fields_of(field)

    def check(entry: Any, clean: bool) -> dict[str, Any]:
        if not isinstance(entry, dict):
            raise Unparseable(f"wrong_type:{name}")
        return checked_fields(entry, fields, False, clean).value

    return Field(check)


def _list(name: str, field: Mapping[str, Any]) -> Field:
    check_item, longest = _MADE[field["items"]["type"]](name, field["items"])
    least, most = field.get("minItems", 0), field["maxItems"]

    def check(entry: Any, clean: bool) -> list[Any]:
        if not isinstance(entry, list):
            raise Unparseable(f"wrong_type:{name}")
        if not least <= len(entry) <= most:
            raise Unparseable(f"not_allowed:{name}")
        return [check_item(item, clean) for item in entry]

    return Field(check, longest)


def _string(name: str, field: Mapping[str, Any]) -> Field:
    least, most, allowed = field.get("minLength", 0), field.get("maxLength", maxsize), field.get("enum")

    def check(entry: Any, clean: bool) -> str:
        if not isinstance(entry, str):
            raise Unparseable(f"wrong_type:{name}")
        if allowed is not None:
            if entry not in allowed:
                raise Unparseable(f"not_allowed:{name}")
            return entry
        if len(entry) > most:
            raise Unparseable(f"too_long:{name}")
        if not (clean or entry.isprintable()) and _NOT_TEXT.search(entry):
            raise Unparseable(f"not_text:{name}")
        entry = entry.strip()
        if len(entry) < least:
            raise Unparseable(f"too_short:{name}" if entry else f"empty:{name}")
        return entry

    return Field(check, field.get("maxLength"))


_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _number(name: str, field: Mapping[str, Any]) -> Field:
    kinds = (int,) if field["type"] == "integer" else (int, float)
    least, most = field.get("minimum", float("-inf")), field.get("maximum", float("inf"))

    def check(entry: Any, clean: bool) -> Any:
        if isinstance(entry, bool) or not isinstance(entry, kinds):
            raise Unparseable(f"wrong_type:{name}")
        if not least <= entry <= most:
            raise Unparseable(f"not_allowed:{name}")
        return entry

    return Field(check)


_MADE: dict[str, Callable[[str, Mapping[str, Any]], Field]] = {
    "string": _string,
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
    "array": _list,
    "object": _object,
}


def choices_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Options by letter: the member `choices`, or the list `options`; empty for a record without options."""
    choices, options = fields.get("choices"), fields.get("options")
    if isinstance(choices, Mapping):
        return dict(choices)
    return dict(zip(ascii_uppercase, options or (), strict=False))


def right_letter(fields: Mapping[str, Any]) -> str:
    """The letter of the correct option of a multiple-choice record."""
    if isinstance(fields.get("choices"), Mapping):
        return str(fields["answer_letter"])
    return ascii_uppercase[fields["correct_option"]]


def with_choices(question: str, choices: Mapping[str, str], between: str = "\n") -> str:
    """The question followed by its options, `A. …`; the question alone without options."""
    return between.join([question, *(f"{letter}. {text}" for letter, text in choices.items())])
