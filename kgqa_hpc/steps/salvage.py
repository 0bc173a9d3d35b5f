"""Get at an object that does not stand alone or has a flaw, without ever choosing between two readings.

`unwrap` takes off thoughts and a fence. `salvage` then looks for complete objects in what is left: one that
fits, and no other that differs, is the answer. If there is none, the text from the first brace to the last
may be an object with a flaw (a trailing comma, single quotes, a bare quotation mark): json-repair mends it,
and the result counts only if each field holds exactly the text that stands between its key and the next
one.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import json_repair

_CLOSED_THOUGHT = re.compile(r"\s*<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL)
_OPEN_THOUGHT = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")
_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning)>")
_FENCED = re.compile(r"```[A-Za-z0-9]*[ \t]*\n?(.*?)\s*```\Z", re.DOTALL)
_ATTEMPTS = 100  # opening braces that are tried; prose has a handful


class Refused(ValueError):
    """There is no reading, or more than one; the message is a reason of steps/parse.py."""


def unwrap(text: str) -> str:
    """`text` without leading thoughts and without the one fence around all of it; empty if only a thought
    began.

    A reasoning model's template may swallow the opening tag; then a closing tag ends the thought unless an
    object is open before it.
    """
    while match := _CLOSED_THOUGHT.match(text):
        text = text[match.end() :]
    if _OPEN_THOUGHT.match(text):
        return ""
    text = text.strip()
    end = None if text.startswith(("{", "[", "```")) else _THOUGHT_END.search(text)
    if end and text.count("{", 0, end.start()) == text.count("}", 0, end.start()):
        text = text[end.end() :].strip()
    fenced = _FENCED.match(text)
    return fenced[1].strip() if fenced else text


def salvage(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The one object with fields of `names` in `text`. Raises Refused with the reason."""
    objects, outside, depths = _complete_objects(text)
    rivals = [
        (found, depth) for found, depth in zip(objects, depths, strict=True) if any(n in found for n in names)
    ]
    if not rivals:
        return _mend(text, names)
    if _keys(names).search(outside):
        raise Refused("ambiguous")  # a fragment of another object, perhaps the one this was quoted in
    last, depth = rivals[-1]
    if depth != 0:
        raise Refused("ambiguous")  # inside braces that were never closed
    answer = {name: last[name] for name in names if name in last}
    if any(name in found and found[name] != answer.get(name) for found, _ in rivals for name in names):
        raise Refused("ambiguous")
    return answer


def _complete_objects(text: str) -> tuple[list[dict[str, Any]], str, list[int]]:
    """All complete objects, the text outside of them, and how many braces are open before each."""
    objects: list[dict[str, Any]] = []
    depths: list[int] = []
    outside: list[str] = []
    done, depth, failures = 0, 0, 0
    start = text.find("{")
    while start >= 0:
        try:
            found, end = _decoder.raw_decode(text, start)
        except Refused:
            raise
        except RecursionError:
            raise Refused("not_json") from None
        except ValueError:
            failures += 1
            if failures > _ATTEMPTS:
                raise Refused("not_json") from None
            start = text.find("{", start + 1)
            continue
        between = text[done:start]
        outside.append(between)
        depth += between.count("{") - between.count("}")
        objects.append(found)
        depths.append(depth)
        done = end
        start = text.find("{", end)
    outside.append(text[done:])
    return objects, "\n".join(outside), depths


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in items}) < len(items):
        raise Refused("ambiguous")
    return dict(items)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Line breaks within strings are let through: models write them, and they leave no doubt.
_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant, strict=False)


@lru_cache(maxsize=64)
def _keys(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds each of `names` where it stands as a key, quoted in any way or bare."""
    any_name = "|".join(re.escape(name) for name in names)
    return re.compile(
        rf"[\"'“”‘’`](?P<quoted>{any_name})[\"'“”‘’`]\s*:|(?<=[{{,])\s*(?P<bare>{any_name})\s*:"
    )


def _mend(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    """One object with a flaw, from the first brace to the last."""
    first, last = text.find("{"), text.rfind("}")
    if first < 0:
        raise Refused("not_json")
    keys = list(_keys(names).finditer(text))
    if not keys:
        raise Refused("truncated" if last < first else "not_json")
    if last < keys[-1].end() or '"' in text[last:]:
        raise Refused("truncated")
    found = [key["quoted"] or key["bare"] for key in keys]
    if len(set(found)) < len(found):
        raise Refused("ambiguous")
    missing = [name for name in names if name not in found]
    if missing:
        raise Refused(f"missing:{missing[0]}")
    if text[first + 1 : keys[0].start()].strip():
        raise Refused("not_json")
    try:
        mended = json_repair.loads(text[first : last + 1], skip_json_loads=True)
    except _REPAIR_FAILS:
        raise Refused("not_json") from None
    if not isinstance(mended, dict):
        raise Refused("not_json")
    ends = [key.start() for key in keys[1:]] + [last]
    for name, key, end in zip(found, keys, ends, strict=True):
        if name not in mended or not _same(mended[name], text[key.end() : end]):
            raise Refused("not_json")
    return {name: mended[name] for name in names}


# What a parser of broken text may raise on text that is more broken than it foresaw.
_REPAIR_FAILS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_QUOTED = re.compile(r"\s*[\"'“‘](.*)[\"'”’]\s*,?\s*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SKIPPED = re.compile(r"[\s\"'“”‘’\\]+")


def _same(value: Any, written: str) -> bool:
    """Whether `value` is what `written` (key and braces taken off) says, quotes and white space aside."""
    if isinstance(value, str):
        match = _QUOTED.fullmatch(written)
        return match is not None and _SKIPPED.sub("", value) == _SKIPPED.sub(
            "", _ESCAPE.sub(_unescape, match[1])
        )
    literal = written.strip().removesuffix(",").strip()
    if isinstance(value, bool):
        return literal.lower() == str(value).lower()
    return literal == str(value)


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[2] not in "\"\\/'bfnrt":
        raise Refused("not_json")  # no escape there is: half a character, LaTeX, or a slip
    return " " if match[2] in "bfnrt" else match[2]
