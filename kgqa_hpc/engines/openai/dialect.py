"""The parameters that a server accepts, learned from its refusals.

Hosted models refuse parameters that others need: a temperature, a seed, `max_tokens` in place of
`max_completion_tokens`. A refusal names the parameter in `error.param`, in the `loc` of a validation error, or in
its words. Such a parameter is left out of all later requests to this server, and is named in the provenance.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

LIMITS = ("max_tokens", "max_completion_tokens")
# Parameters that no request can omit.
_NEEDED = {"model", "messages", "response_format", "grammar", *LIMITS}
_REFUSAL = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|extra|not permitted|not allowed|unexpected|invalid|cannot find"
    r"|only the default|deprecated|not available|does not accept|incompatible",
    re.IGNORECASE,
)
_PROMPT_TOO_LONG = re.compile(r"context|too long|prompt is|input tokens", re.IGNORECASE)
_AT_MOST = re.compile(
    r"(?:at most|less than or equal to|no more than|maximum[^.\d]{0,60}?|<=|\[\d+, ?|between \d+ and)\s*`?(\d{2,7})"
)
_UNKNOWN = re.compile(r"unsupported|not support|unknown|unrecogni[sz]ed|extra|not permitted", re.IGNORECASE)
_NAME = re.compile(r"[a-z][a-z0-9_]+")


class Dialect:
    """The parameters of one server. `omitted` grows with its refusals."""

    def __init__(self, omitted: tuple[str, ...] = ()) -> None:
        self.omitted = set(omitted)
        self.limit_key = LIMITS[0]
        self.most_tokens = 0  # the server's limit of answer tokens, if it named one; 0: none
        self._learned: list[str] = []
        self._limit_keys = {LIMITS[0]}  # that were tried

    def apply(self, body: dict[str, Any], max_tokens: int) -> dict[str, Any]:
        """The body with the limit of answer tokens, without the parameters that this server refuses."""
        body[self.limit_key] = min(max_tokens, self.most_tokens) if self.most_tokens else max_tokens
        return {name: value for name, value in body.items() if name not in self.omitted}

    def learns(self, sent: Mapping[str, Any], error: Any, words: str) -> bool:
        """Learn from the refusal of `sent`; returns whether the next request will differ."""
        if _PROMPT_TOO_LONG.search(words):
            return False
        named = set(_explicit(error))
        if _REFUSAL.search(words):
            named.update(_NAME.findall(words))
        refused = sorted(name for name in sent if name in named and name not in _NEEDED)
        if refused:
            self._omit(*refused)
            return True
        return self._learns_limit(sent, named, words)

    def omit_blindly(self) -> str | None:
        """Omit one more parameter that a server may refuse without naming it; returns whether there was one."""
        for name in ("seed", "temperature"):
            if name not in self.omitted:
                self._omit(name)
                return name
        return None

    @property
    def learned(self) -> str:
        """The changes learned, for the provenance: omitted names, a renamed limit, a lower limit."""
        renamed = [f"max_tokens as {self.limit_key}"] if self.limit_key != LIMITS[0] else []
        lowered = [f"max_tokens at most {self.most_tokens}"] if self.most_tokens else []
        return ", ".join([*self._learned, *renamed, *lowered])

    def _learns_limit(self, sent: Mapping[str, Any], named: set[str], words: str) -> bool:
        key = next((name for name in LIMITS if name in sent), None)
        if key is None or not (named | set(_NAME.findall(words))) & set(LIMITS):
            return False
        if key != self.limit_key:  # renamed meanwhile, by another request
            return True
        other_limit = LIMITS[key == LIMITS[0]]
        if (most := _AT_MOST.search(words)) and 0 < int(most[1]) < sent[key]:
            self.most_tokens = int(most[1])
            return True
        if other_limit in self._limit_keys or not (_UNKNOWN.search(words) or other_limit in words):
            return False
        self.limit_key = other_limit
        self._limit_keys.add(other_limit)
        return True

    def _omit(self, *names: str) -> None:
        self._learned += [name for name in names if name not in self.omitted]
        self.omitted.update(names)


def _explicit(error: Any) -> Iterator[str]:
    """Parameters that an error's own fields name: OpenAI's `param`, the `loc` of pydantic's validation errors."""
    if isinstance(error, list):
        for inner in error[:20]:
            yield from _explicit(inner)
    if not isinstance(error, dict):
        return
    if isinstance(param := error.get("param"), str):
        yield param.split(".")[0]
    if isinstance(loc := error.get("loc"), list):
        yield from (part for part in loc[:3] if isinstance(part, str) and part != "body")
    for key in ("error", "detail", "message", "errors"):
        if isinstance(inner := error.get(key), dict | list):
            yield from _explicit(inner)


def error_words(body: Any) -> str:
    """The message of an error in any of the forms that servers give it."""
    if isinstance(body, list) and body:
        return error_words(body[0])
    if not isinstance(body, dict):
        return str(body)
    for key in ("error", "message", "detail", "msg"):
        value = body.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict | list) and value:
            return error_words(value)
    return str(body)


def error_code(body: Any) -> str:
    """The code of an error (`insufficient_quota`, `content_filter`), empty where there is none."""
    error = body.get("error", body) if isinstance(body, dict) else None
    code = error.get("code") or error.get("type") if isinstance(error, dict) else None
    return str(code) if code else ""
