"""Parser of a model's text into the fields of a schema.

Three stages. Strict: the whole text is one JSON object. Salvage: a thought, a code fence or prose surrounds the JSON;
the answer is the only complete object with the schema's fields (identical copies are allowed). Repair: the text from
the first to the last brace is a malformed object (a trailing comma, single quotes, an unescaped quotation mark); the
value of each field is the text between its key and the next key. Otherwise Unparseable is raised, with a reason from
a small vocabulary. The parser never guesses: it refuses an object inside a string, two different objects, a repeated
key and truncated text, because a retry costs seconds and a wrong field stays in the dataset.

Fields are those of prompts/files.py: strings, booleans, numbers, lists of them or of flat objects.

Limits: a text has at most LARGEST characters, of which at most SALVAGEABLE are searched or mended, and at most 64
nested brackets outside of strings. No regular expression here can backtrack, so time and memory are linear in the
length of any text.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from math import inf
from string import ascii_letters, digits
from sys import maxsize
from typing import Any, NamedTuple

import orjson

from kgqa_hpc.text.streams import too_deep

# All reasons for an unusable answer; those that end in a colon are followed by the name of a field.
REASONS = (
    "empty",  # no text, or only thoughts
    "truncated",  # the text stops inside an object
    "too_large",  # the text is longer than LARGEST
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
LARGEST = 1_000_000  # characters; a thousand times the length that prompts ask for
SALVAGEABLE = 40_000  # characters of a text that is searched or repaired, including prose and thoughts
_ATTEMPTS = 100  # number of opening braces to try; prose has few

Fields = Mapping[str, Mapping[str, Any]]  # the `properties` of a JSON schema


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


def parse_json(text: str, schema: Mapping[str, Any], *, last_object: bool = False) -> Parsed:
    """Parse `text` as an object of `schema`. Raises Unparseable, and no other exception for any text.

    `schema`: a JSON schema of an object, or its `properties` alone.
    `last_object`: take the last JSON object in free text that has one of the fields; earlier text is ignored. For
    prompts that let the model write drafts first, as the published prompts do: drafts are objects too.
    """
    fields: Fields = schema
    if "properties" in schema and not isinstance(schema["properties"].get("type"), str):
        fields = schema["properties"]  # a JSON schema; a field called `properties` would have a type
    if len(text) > LARGEST:
        raise Unparseable("too_large")
    text = text.strip()
    if not text:
        raise Unparseable("empty")
    if too_deep(text.encode("utf-8", "replace")):
        raise Unparseable("not_json")
    if last_object:
        return _last_object(text, fields)
    data = _strict(text)
    if data is None and len(text) <= SALVAGEABLE:
        text = _unwrap(text)
        if not text:
            raise Unparseable("empty")
        data = _strict(text)
    if data is not None:
        return _checked(data, fields, repaired=not data.keys() <= fields.keys())
    if len(text) > SALVAGEABLE:
        raise Unparseable("not_json")
    return _checked(_salvage(text, tuple(fields)), fields, repaired=True)


def _checked(data: Mapping[str, Any], fields: Fields, repaired: bool) -> Parsed:
    value = _members(data, fields)
    filled = [
        name
        for name, field in fields.items()
        if (longest := field.get("items", field).get("maxLength")) is not None
        and longest in map(len, [data[name]] if isinstance(data[name], str) else data[name])
    ]
    return Parsed(value, repaired, tuple(filled))


def _members(data: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The checked values of the fields; other keys are dropped. The first faulty field gives the reason."""
    value = {}
    for name, field in fields.items():
        if name not in data:
            raise Unparseable(f"missing:{name}")
        value[name] = _value(name, field, data[name])
    return value


_TYPES: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": int | float,
    "array": list,
    "object": dict,
}
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _value(name: str, field: Mapping[str, Any], entry: Any) -> Any:
    """The value of a field after all checks; strings without the white space around them."""
    kind = field["type"]
    if not isinstance(entry, _TYPES[kind]) or isinstance(entry, bool) != (kind == "boolean"):
        raise Unparseable(f"wrong_type:{name}")
    if kind == "object":
        return _members(entry, field["properties"])
    if kind == "array":
        if not field.get("minItems", 0) <= len(entry) <= field["maxItems"]:
            raise Unparseable(f"not_allowed:{name}")
        return [_value(name, field["items"], item) for item in entry]
    if kind != "string" or "enum" in field:
        allowed = (
            entry in field["enum"]
            if kind == "string"
            else field.get("minimum", -inf) <= entry <= field.get("maximum", inf)
        )
        if not allowed:
            raise Unparseable(f"not_allowed:{name}")
        return entry
    if len(entry) > field.get("maxLength", maxsize):
        raise Unparseable(f"too_long:{name}")
    if not entry.isprintable() and _NOT_TEXT.search(entry):
        raise Unparseable(f"not_text:{name}")
    text: str = entry.strip()
    if len(text) < field.get("minLength", 0):
        raise Unparseable(f"too_short:{name}" if text else f"empty:{name}")
    return text


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(items)
    if len(value) < len(items):
        raise Unparseable("ambiguous")
    return value


def _integer(digits: str) -> int | float:
    """The number; beyond 64 bits, which records cannot hold, the nearest float, as orjson reads it."""
    return int(digits) if len(digits) < 19 else orjson.loads(digits)


_HOOKS: dict[str, Any] = {
    "object_pairs_hook": _pairs,
    "parse_int": _integer,
    "parse_float": orjson.loads,  # refuses what a float cannot hold, such as 1e400
    "parse_constant": orjson.loads,  # refuses NaN and Infinity
}
_strict_decoder = json.JSONDecoder(**_HOOKS)
# Line breaks within strings are accepted: models write them, and they are unambiguous.
_decoder = json.JSONDecoder(**_HOOKS, strict=False)


def _strict(text: str) -> dict[str, Any] | None:
    """The object, if the whole text is one JSON object. Raises Unparseable for other JSON or a repeated key."""
    try:
        data = _strict_decoder.decode(text)
    except Unparseable:
        raise
    except (ValueError, RecursionError):  # ValueError also for an integer of thousands of digits
        return None
    if not isinstance(data, dict):
        raise Unparseable("not_object")
    return data


_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>\s*+", re.DOTALL)
_UNFINISHED = re.compile("<(?:think|thinking|thought|reasoning)>")
_END = re.compile("</(?:think|thinking|thought|reasoning)>")


def _unwrap(text: str) -> str:
    """`text` without leading thoughts and without a code fence around the rest; empty for an unfinished thought.

    The template of a reasoning model may already contain the opening tag; then a closing tag ends the thought, unless
    an object begins before it.
    """
    start = 0
    while thought := _THOUGHT.match(text, start):
        start = thought.end()
    text = text[start:]
    if _UNFINISHED.match(text):
        return ""
    if not text.startswith(("{", "[", "```")) and (end := _END.search(text)):
        thought_text = text[: end.start()]
        if thought_text.count("{") == thought_text.count("}"):
            text = text[end.end() :].strip()
    if len(text) >= 6 and text.startswith("```") and text.endswith("```"):  # ```json … ```
        return text[3:-3].lstrip(f"{ascii_letters}{digits}").strip()
    return text


# Matches strings, which stay unchanged, and Python's booleans, which the published criteria ask for (Appendix D.1).
_PYTHON = re.compile(r'"(?:[^"\\]|\\.)*+"?|\b(?:True|False)\b', re.DOTALL)


def _last_object(text: str, fields: Fields) -> Parsed:
    """The last object with one of the fields, checked. Raises Unparseable."""
    if len(text) > SALVAGEABLE:
        raise Unparseable("not_json")
    mended = _PYTHON.sub(lambda match: match[0] if match[0][0] == '"' else match[0].lower(), text)
    for form in dict.fromkeys((text, mended)):
        objects, outside = _complete_objects(form)
        candidates = [candidate for candidate, _ in objects if not candidate.keys().isdisjoint(fields)]
        if candidates:
            return _checked(candidates[-1], fields, form != text)
    raise Unparseable("truncated" if "{" in outside and "}" not in outside else "not_json")


def _salvage(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The one object with fields of `names` in `text`. Raises Unparseable with the reason."""
    objects, outside = _complete_objects(text)
    rivals = [(candidate, depth) for candidate, depth in objects if not candidate.keys().isdisjoint(names)]
    if not rivals:
        return _mend(text, names)
    answer, depth = rivals[-1]
    differ = any(
        name in candidate and (name not in answer or candidate[name] != answer[name])
        for candidate, _ in rivals
        for name in names
    )
    # A key outside belongs to a fragment of another object, which may quote this object; a depth above 0 means that
    # the object stands inside unclosed braces.
    if differ or depth != 0 or _keys(names).search(outside):
        raise Unparseable("ambiguous")
    return answer


def _complete_objects(text: str) -> tuple[list[tuple[dict[str, Any], int]], str]:
    """All complete objects, each with the number of open braces before it, and the text outside the objects."""
    objects: list[tuple[dict[str, Any], int]] = []
    outside: list[str] = []
    done, depth, failures = 0, 0, 0
    start = text.find("{")
    while start >= 0:
        try:
            value, end = _decoder.raw_decode(text, start)
        except Unparseable:
            raise
        except (ValueError, RecursionError):
            failures += 1
            if failures > _ATTEMPTS:
                raise Unparseable("not_json") from None
            start = text.find("{", start + 1)
            continue
        outside.append(text[done:start])
        depth += outside[-1].count("{") - outside[-1].count("}")
        objects.append((value, depth))
        done, start = end, text.find("{", end)
    return objects, "\n".join([*outside, text[done:]])


@lru_cache(maxsize=64)
def _keys(names: tuple[str, ...]) -> re.Pattern[str]:
    """Pattern that matches each of `names` as a key, with any quotes or none."""
    any_name = "|".join(re.escape(name) for name in names)
    return re.compile(
        rf"[\"'“”‘’`](?P<quoted>{any_name})[\"'“”‘’`]\s*+:|(?<=[{{,])\s*+(?P<bare>{any_name})\s*+:"
    )


def _mend(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Parse a malformed object: the text from the first to the last brace. Raises Unparseable."""
    begin, last = text.find("{"), text.rfind("}")
    keys = list(_keys(names).finditer(text))
    if begin < 0 or (not keys and last > begin):
        raise Unparseable("not_json")
    if not keys or last < keys[-1].end() or '"' in text[last:]:
        raise Unparseable("truncated")
    key_names = [key["quoted"] or key["bare"] for key in keys]
    if len(set(key_names)) < len(key_names):
        raise Unparseable("ambiguous")
    if missing := [name for name in names if name not in key_names]:
        raise Unparseable(f"missing:{missing[0]}")
    if text[begin + 1 : keys[0].start()].strip():
        raise Unparseable("not_json")
    ends = [*(key.start() for key in keys[1:]), last]
    values = (_written(text[key.end() : end]) for key, end in zip(keys, ends, strict=True))
    return dict(zip(key_names, values, strict=True))


_OPENING, _CLOSING = "\"'“‘", "\"'”’"
# A quotation mark before a comma or colon may end the string or belong to it.
_ENDS = {mark: re.compile(rf"(?<!\\){mark}\s*+[,:]") for mark in _CLOSING}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|\Z)", re.DOTALL)


def _written(text: str) -> Any:
    """The value between two keys: a quoted text, true, false, or a number. Raises Unparseable."""
    text = text.strip().removesuffix(",").rstrip()
    if len(text) >= 2 and text[0] in _OPENING and text[-1] in _CLOSING:
        if _ENDS[text[-1]].search(text, 1):
            raise Unparseable("not_json")  # another key or entry may begin there
        return _ESCAPE.sub(_unescape, text[1:-1])
    try:
        value = orjson.loads(text.lower())
    except orjson.JSONDecodeError:
        raise Unparseable("not_json") from None
    if not isinstance(value, int | float):
        raise Unparseable("not_json")
    return value


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[2] not in _ESCAPES:
        raise Unparseable("not_json")  # not an escape sequence of JSON: half a character, or LaTeX
    return _ESCAPES[match[2]]
