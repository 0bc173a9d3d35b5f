"""What pydantic finds wrong, in our words: where, and what must stand there."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import ValidationError

Place = tuple[str | int, ...]

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "unknown key",
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "must be a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be a text",
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "must be a mapping of keys to values"),
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
}
_LONGEST = 40  # characters of a wrong value that are shown
# What pydantic puts into a place for the branches of an alternative (`str | list[str]`).
_BRANCHES = frozenset(["str", "int", "float", "bool", "dict", "list", "constrained-str", "nullable"])


class Told(NamedTuple):
    """One thing that is wrong: its place (keys and positions), a sentence, pydantic's type of it, and the value."""

    place: Place
    text: str
    type: str
    value: Any


def told(problem: ValidationError) -> list[Told]:
    """Everything that is wrong, each place once.

    Of an alternative the branch counts that got farther into the value; where none did, both are named.
    """
    found: dict[Place, Told] = {}
    loose: set[Place] = set()  # of a branch, so that a deeper problem outweighs it
    for error in problem.errors(include_url=False):
        place = tuple(part for part in error["loc"] if not _is_branch(part))
        one = Told(place, _sentence(error), error["type"], error["input"])
        if len(place) < len(error["loc"]) and place in found:
            one = one._replace(text=_either(found[place].text, one.text))
        if len(place) < len(error["loc"]):
            loose.add(place)
        found[place] = one
    return [
        one
        for place, one in found.items()
        if place not in loose or not any(other != place and other[: len(place)] == place for other in found)
    ]


def _is_branch(part: str | int) -> bool:
    return isinstance(part, str) and (part in _BRANCHES or "[" in part or part.startswith("function-"))


def _sentence(error: Any) -> str:
    context = error.get("ctx") or {}
    for ours in ("words", "text"):  # an error that we raised ourselves
        if ours in context:
            return str(context[ours])
    if error["type"] not in _WORDS:
        return str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be", 1)
    sentence = _WORDS[error["type"]].format_map({k: str(v).replace("'", "") for k, v in context.items()})
    return sentence + _shown(error["type"], error["input"])


def _shown(kind: str, value: Any) -> str:
    """The wrong value, where it is one word or number and helps."""
    if kind in ("missing", "extra_forbidden") or not isinstance(value, str | int | float):
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f", not {text}" if text and len(text) <= _LONGEST and text.isprintable() else ""


def _either(one: str, other: str) -> str:
    first, other = one.partition(", not ")[0], other.removeprefix("must be ")
    return one if other in one else f"{first} or {other}"
