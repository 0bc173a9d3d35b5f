"""Parser of a model's text into the fields of a schema.

Three stages. Strict: the whole text is one JSON object. Salvage: a thought, a code fence or prose surrounds the JSON;
the answer is the only complete object with the schema's fields (identical copies are allowed). Repair: the text from
the first to the last brace is a malformed object (a trailing comma, single quotes, an unescaped quotation mark); the
value of each field is the text between its key and the next key. Otherwise Unparseable is raised, with a reason from
a small vocabulary. The parser never guesses: it refuses an object inside a string, two different objects, a repeated
key and truncated text, because a retry costs seconds and a wrong field stays in the dataset.

Limits: a text has at most LARGEST characters, of which at most SALVAGEABLE are searched or mended, and at most DEEPEST
nested brackets. No regular expression here can backtrack, so time and memory are linear in the length of any text.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from string import ascii_letters, digits
from typing import Any

import orjson

from kgqa_hpc.steps.answer_fields import Fields, Parsed, Unparseable, checked_fields

LARGEST = 1_000_000  # characters; a thousand times the length that prompts ask for
SALVAGEABLE = 40_000  # characters of a text that is searched or repaired, including prose and thoughts
DEEPEST = 64  # brackets within brackets; schemas need two
_ATTEMPTS = 100  # number of opening braces to try; prose has few


def parse_json(text: str, fields: Fields) -> Parsed:
    """Parse `text` as an object with the `fields` of a schema.

    Raises Unparseable, and no other exception for any text.
    """
    if len(text) > LARGEST:
        raise Unparseable("too_large")
    text = text.strip()
    if not text:
        raise Unparseable("empty")
    if _too_deep(text):
        raise Unparseable("not_json")
    data = _strict(text, fields)
    if data is None and len(text) <= SALVAGEABLE:
        text = _unwrap(text)
        if not text:
            raise Unparseable("empty")
        data = _strict(text, fields)
    if data is not None:
        # Such a text, as most are, surely holds no control characters or surrogates.
        clean = text.isascii() and "\\" not in text and "\x7f" not in text
        return checked_fields(data, fields, repaired=not data.keys() <= fields.keys(), clean=clean)
    if len(text) > SALVAGEABLE:
        raise Unparseable("not_json")
    return checked_fields(_salvage(text, tuple(fields)), fields, repaired=True)


def parse_last_object(text: str, fields: Fields) -> Parsed:
    """Parse the last JSON object in free text that has one of the `fields`; earlier text is ignored.

    For prompts that let the model write drafts first, as the published prompts do: drafts are objects too, and
    `parse_json` would refuse several different objects. Raises Unparseable.
    """
    if len(text) > LARGEST:
        raise Unparseable("too_large")
    if not text.strip():
        raise Unparseable("empty")
    if len(text) > SALVAGEABLE or _too_deep(text):
        raise Unparseable("not_json")
    objects, remainder = _complete_objects(text)
    candidates = [candidate for candidate, _ in objects if any(name in candidate for name in fields)]
    if not candidates:
        raise Unparseable("truncated" if "{" in remainder and "}" not in remainder else "not_json")
    return checked_fields(candidates[-1], fields, repaired=False)


def _too_deep(text: str) -> bool:
    """Whether brackets are nested deeper than DEEPEST; brackets in strings count too, as no real answer has so many."""
    # Splitting is several times faster than counting for texts with few brackets, as nearly all are.
    if len(text.split("{", DEEPEST)) + len(text.split("[", DEEPEST)) - 2 < DEEPEST:
        return False
    return max(accumulate((c in "{[") - (c in "}]") for c in text if c in "{[]}")) > DEEPEST


def _strict(text: str, names: Iterable[str]) -> dict[str, Any] | None:
    """The object, if the whole text is one JSON object. Raises Unparseable for other JSON or a repeated key."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(data, dict):
        raise Unparseable("not_object")
    # If the number of quotes is twice that of the object's keys and strings, the text has no other or repeated key.
    if text.count('"') == 2 * (len(data) + _strings(data)):
        return data
    # Only repeated keys need the slow parser. `"name"` rarely occurs within strings, where quotes are escaped.
    # The sequence \\u00 may belong to an escaped key, and lists may hold objects with any keys.
    nested = any(isinstance(value, dict | list) for value in data.values())
    if nested or "\\u00" in text or any(text.count(f'"{name}"') > 1 for name in names):
        # Raises Unparseable for a key that any object has twice; an integer may have thousands of digits.
        try:
            _decoder.decode(text)
        except (ValueError, RecursionError) as problem:
            raise problem if isinstance(problem, Unparseable) else Unparseable("not_json") from None
    return data


def _strings(data: dict[str, Any]) -> int:
    """Number of strings in the values, including those in lists; deeper strings are not counted."""
    number = 0
    for value in data.values():
        if type(value) is str:
            number += 1
        elif type(value) is list:
            number += [*map(type, value)].count(str)
    return number


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in items}) < len(items):
        raise Unparseable("ambiguous")
    return dict(items)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Line breaks within strings are accepted: models write them, and they are unambiguous.
_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant, strict=False)

_THOUGHTS = tuple((f"<{word}>", f"</{word}>") for word in ("think", "thinking", "thought", "reasoning"))


def _unwrap(text: str) -> str:
    """`text` without leading thoughts and without a code fence around the rest; empty for an unfinished thought.

    The template of a reasoning model may already contain the opening tag; then a closing tag ends the thought, unless
    an object begins before it.
    """
    start = 0
    while closing := next((end for begin, end in _THOUGHTS if text.startswith(begin, start)), None):
        end = text.find(closing, start)
        if end < 0:
            return ""
        start = end + len(closing)
        while start < len(text) and text[start].isspace():
            start += 1
    text = text[start:].strip()
    if not text.startswith(("{", "[", "```")):
        ends = [(at, at + len(end)) for _, end in _THOUGHTS if (at := text.find(end)) >= 0]
        if ends and text.count("{", 0, min(ends)[0]) == text.count("}", 0, min(ends)[0]):
            text = text[min(ends)[1] :].strip()
    if len(text) >= 6 and text.startswith("```") and text.endswith("```"):  # ```json … ```
        return text[3:-3].lstrip(f"{ascii_letters}{digits}").strip()
    return text


def _salvage(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The one object with fields of `names` in `text`. Raises Unparseable with the reason."""
    objects, outside = _complete_objects(text)
    rivals = [(candidate, depth) for candidate, depth in objects if any(name in candidate for name in names)]
    if not rivals:
        return _mend(text, names)
    if _keys(names).search(outside):
        raise Unparseable("ambiguous")  # a fragment of another object, which may quote this object
    last, depth = rivals[-1]
    if depth != 0:
        raise Unparseable("ambiguous")  # inside unclosed braces
    answer = {name: last[name] for name in names if name in last}
    if any(
        name in candidate and candidate[name] != answer.get(name) for candidate, _ in rivals for name in names
    ):
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
        between = text[done:start]
        outside.append(between)
        depth += between.count("{") - between.count("}")
        objects.append((value, depth))
        done = end
        start = text.find("{", end)
    outside.append(text[done:])
    return objects, "\n".join(outside)


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
    if begin < 0:
        raise Unparseable("not_json")
    keys = list(_keys(names).finditer(text))
    if not keys:
        raise Unparseable("truncated" if last < begin else "not_json")
    if last < keys[-1].end() or '"' in text[last:]:
        raise Unparseable("truncated")
    key_names = [key["quoted"] or key["bare"] for key in keys]
    if len(set(key_names)) < len(key_names):
        raise Unparseable("ambiguous")
    missing = [name for name in names if name not in key_names]
    if missing:
        raise Unparseable(f"missing:{missing[0]}")
    if text[begin + 1 : keys[0].start()].strip():
        raise Unparseable("not_json")
    ends = [key.start() for key in keys[1:]] + [last]
    return {
        name: _written(text[key.end() : end]) for name, key, end in zip(key_names, keys, ends, strict=True)
    }


_OPENING, _CLOSING = "\"'“‘", "\"'”’"
# A quotation mark before a comma or colon may end the string or belong to it.
_ENDS = {mark: re.compile(rf"(?<!\\){mark}\s*+[,:]") for mark in _CLOSING}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|\Z)", re.DOTALL)
_LITERALS = {"true": True, "false": False}


def _written(text: str) -> Any:
    """The value between two keys: a quoted text, true, false, or a number. Raises Unparseable."""
    text = text.strip().removesuffix(",").rstrip()
    if len(text) >= 2 and text[0] in _OPENING and text[-1] in _CLOSING:
        if _ENDS[text[-1]].search(text, 1):
            raise Unparseable("not_json")  # another key or entry may begin there
        return _ESCAPE.sub(_unescape, text[1:-1])
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Unparseable("not_json") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise Unparseable("not_json")


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[2] not in _ESCAPES:
        raise Unparseable("not_json")  # not an escape sequence of JSON: half a character, or LaTeX
    return _ESCAPES[match[2]]
