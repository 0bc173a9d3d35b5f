"""Checks of what an engine of the user's own gives; each raises ExtensionError with the engine's name.

`entry` is the engine as messages name it: "engine echo of my-package 1.0".
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any, get_args

from kgqa_hpc.engines.engine import EngineInfo, Finish, Response, count_of, one_line
from kgqa_hpc.errors import ExtensionError

FINISHES = get_args(Finish)
_CURE = 'see "An engine" in docs/guide/extending.md'
_INFO = {"str": str, "int": int, "float": int | float}
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


def checked_info(entry: str, name: str, info: Any) -> EngineInfo:
    """The description of the engine that is registered as `name`, under this name."""
    if not isinstance(info, EngineInfo):
        raise ExtensionError(f"{entry}: info is {_brief(info)}, no EngineInfo", _CURE)
    for field in fields(info):
        value = getattr(info, field.name)
        if not isinstance(value, _INFO[str(field.type)]):
            raise ExtensionError(f"{entry}: info.{field.name} is {_brief(value)}, not a {field.type}", _CURE)
    return info if info.name == name else replace(info, name=name)


def checked_responses(entry: str, responses: Any) -> Iterator[Response]:
    """The responses, with an exception in `error` as its text and numbers of tokens as ints."""
    if not isinstance(responses, Iterable):
        words = f"generate() returned {_brief(responses)}, not an iterator of responses"
        raise ExtensionError(f"{entry}: {words}", _CURE)
    for response in responses:
        if not isinstance(response, Response):
            raise ExtensionError(f"{entry}: {_brief(response)} is no Response", _CURE)
        if isinstance(problem := response.error, BaseException):
            response = response._replace(error=f"{type(problem).__name__}: {problem}")
        if wrong := _wrong_field(response):
            raise ExtensionError(f"{entry}: response to {_brief(response.id)} has {wrong}", _CURE)
        counts = {name: getattr(response, name) for name in _COUNTS}
        counts = {name: count_of(int(n) if isinstance(n, Integral) else n) for name, n in counts.items()}
        yield response._replace(thought=response.thought or "", **counts)


def _wrong_field(response: Response) -> str:
    """The first field that has another type than documented, in words; "" if there is none."""
    if not isinstance(response.finish, str) or response.finish not in FINISHES:
        return f"finish {_brief(response.finish)}, not one of {', '.join(FINISHES)}"
    for name in ("id", "text", "thought", "error"):
        value = getattr(response, name)
        if not isinstance(value, str) and not (value is None and name in ("thought", "error")):
            return f"{name} {_brief(value)}, not a text"
    for name in _COUNTS:
        value = getattr(response, name)
        if not isinstance(value, Real | None):
            return f"{name} {_brief(value)}, not a number"
    return ""


def _brief(value: Any) -> str:
    return one_line(repr(value), 80)
