"""The parameters of requests: those that enforce a schema, and those that a server accepts.

A schema is enforced in one of five modes:

grammar      our own grammar as `structural_tag` (vLLM, SGLang, LMDeploy)
gbnf         our own grammar as `grammar`, with lengths (llama.cpp)
json_schema  OpenAI's form, without patterns and lengths
json_object  any JSON
none         the parser, repair and retries

Hosted models refuse parameters that others need: a temperature, a seed, `max_tokens` in place of
`max_completion_tokens`. A refusal names the parameter in `error.param`, in the `loc` of a validation error, or in
its words. Such a parameter is left out of all later requests to this server, and is named in the provenance.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from kgqa_hpc.engines.grammar import Schema, as_sent, ebnf, structural_tag
from kgqa_hpc.errors import EngineConfigError

Mode = Literal["grammar", "gbnf", "json_schema", "json_object", "none"]
# Values of `engine.structured`, each with the modes that are tried in turn.
TRIED: dict[str, tuple[Mode, ...]] = {
    "auto": ("grammar", "gbnf", "json_schema", "json_object", "none"),
    "grammar": ("grammar", "gbnf"),
    "json_schema": ("json_schema",),
    "json_object": ("json_object",),
    "none": ("none",),
}
LIMITS = ("max_tokens", "max_completion_tokens")
# Parameters that no request can omit.
_NEEDED = {"model", "messages", "response_format", "grammar", *LIMITS}
_REFUSAL = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|extra|not permitted|not allowed|unexpected|invalid|cannot find"
    r"|only the default|deprecated|not available|does not accept|incompatible",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"unsupported|not support|unknown|unrecogni[sz]ed|extra|not permitted", re.IGNORECASE)
_PROMPT_TOO_LONG = re.compile(r"context|too long|prompt is|input tokens", re.IGNORECASE)
_AT_MOST = re.compile(
    r"(?:at most|less than or equal to|no more than|maximum[^.\d]{0,60}?|<=|\[\d+, ?|between \d+ and)\s*`?(\d{2,7})"
)
_NAME = re.compile(r"[a-z][a-z0-9_]+")


def parameters(schema: Schema) -> dict[Mode, dict[str, Any]]:
    """The parameters that each mode adds to a request."""
    form = {"name": "answer", "schema": as_sent(schema), "strict": True}
    compiled = {"response_format": {"type": "json_schema", "json_schema": form}}
    modes: dict[Mode, dict[str, Any]] = {
        "grammar": compiled,
        "gbnf": compiled,
        "json_schema": compiled,
        "json_object": {"response_format": {"type": "json_object"}},
        "none": {},
    }
    with suppress(
        EngineConfigError
    ):  # if our grammar cannot express the schema, the server compiles the schema
        modes["gbnf"] = {"grammar": ebnf(schema)}
        modes["grammar"] = {"response_format": structural_tag(schema)}
    return modes


def with_the_word_json(messages: tuple[dict[str, str], ...]) -> list[dict[str, str]]:
    """Messages for json_object: OpenAI, DeepSeek and others refuse prompts without the word."""
    if any("json" in message["content"].lower() for message in messages):
        return list(messages)
    last = messages[-1]
    return [*messages[:-1], {**last, "content": f"{last['content']}\n\nAnswer in JSON."}]


class Dialect:
    """The parameters of one server: `configured` are left out from the start."""

    def __init__(self, configured: list[str]) -> None:
        self._configured = configured
        self.omitted = dict.fromkeys(configured)
        self._limit_key = LIMITS[0]
        self._most_tokens = 0  # the server's limit of answer tokens, if it named one; 0: none

    def apply(self, body: dict[str, Any], max_tokens: int) -> dict[str, Any]:
        """The body with the limit of answer tokens, without the parameters that this server refuses."""
        body[self._limit_key] = min(max_tokens, self._most_tokens or max_tokens)
        return {name: value for name, value in body.items() if name not in self.omitted}

    @property
    def learned(self) -> str:
        """The changes learned, for the provenance: omitted names, a renamed limit, a lower limit."""
        changes = [name for name in self.omitted if name not in self._configured]
        changes += [f"max_tokens as {self._limit_key}"] if self._limit_key != LIMITS[0] else []
        changes += [f"max_tokens at most {self._most_tokens}"] if self._most_tokens else []
        return ", ".join(changes)

    def learns(self, sent: Mapping[str, Any], error: Any, words: str) -> bool:
        """Learn from the refusal of `sent`; returns whether the next request will differ."""
        if _PROMPT_TOO_LONG.search(words):
            return False
        explicit, mentioned = set(_explicit(error)), set(_NAME.findall(words))
        named = explicit | mentioned if _REFUSAL.search(words) else explicit
        if refused := sorted(name for name in sent if name in named and name not in _NEEDED):
            self.omitted |= dict.fromkeys(refused)
            return True
        key = next((name for name in LIMITS if name in sent), None)
        if key is None or not (explicit | mentioned) & set(LIMITS):
            return False
        if key != self._limit_key:  # renamed meanwhile, by another request
            return True
        if (most := _AT_MOST.search(words)) and 0 < int(most[1]) < sent[key]:
            self._most_tokens = int(most[1])
            return True
        if key == LIMITS[0] and (_UNKNOWN.search(words) or LIMITS[1] in words):
            self._limit_key = LIMITS[1]
            return True
        return False

    def omit_blindly(self) -> bool:
        """Omit one more parameter that a server may refuse without naming it; returns whether there was one."""
        name = next((name for name in ("seed", "temperature") if name not in self.omitted), None)
        if name is not None:
            self.omitted[name] = None
        return name is not None


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
