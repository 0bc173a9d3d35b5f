"""Reader of a server's reply: the answer, an error, the requested pause, and the parameters that a refusal names.

A reply is foreign data. It is read up to a limit; its token counts are clamped.

Hosted models refuse parameters that others need: a temperature, a seed, `max_tokens` in place of
`max_completion_tokens`. A refusal names the parameter in `error.param`, in the `loc` of a validation error, or in
its words. Such a parameter is left out of all later requests to this server, and is named in the provenance.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from kgqa_hpc.engines.engine import Finish, Request, Response, count_of, one_line
from kgqa_hpc.engines.models import THINK
from kgqa_hpc.text.streams import parse_json

if TYPE_CHECKING:
    import aiohttp

# Largest reply in bytes; a completion of 100,000 tokens with all additions of a server is below 2 MB.
LARGEST_REPLY = 16 << 20
LONGEST_S = 3600.0  # longest pause, in seconds, that a server may request
_PIECE = 1 << 16
_FINISH: dict[Any, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    # reasons of Z.ai
    "sensitive": "refusal",
    "model_context_window_exceeded": "length",
    # reasons of Gemini
    **dict.fromkeys(("safety", "recitation", "blocklist", "prohibited_content", "spii"), "refusal"),
}
# Reasons to stop, of OpenRouter, Z.ai and DeepSeek: the provider failed in the middle of an answer.
_BROKEN_OFF = ("error", "network_error", "insufficient_system_resource")
_STATUS = re.compile("[45][0-9][0-9]")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
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


@dataclass(eq=False)
class Trouble(Exception):
    """A request failed; `words` gives the reason."""

    words: str
    again: bool = False  # a repetition may succeed
    fatal: bool = False  # no request can succeed
    overloaded: bool = False
    unseen: bool = False  # the server never received the request, so the request is not the cause
    status: int = 0
    retry_after: float | None = None
    cure: str = ""

    def __str__(self) -> str:
        return self.words


async def read_body(reply: aiohttp.ClientResponse) -> bytes:
    """The body, unpacked by aiohttp a piece at a time. Raises ValueError above LARGEST_REPLY."""
    body = bytearray()
    async for piece in reply.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > LARGEST_REPLY:
            raise ValueError(f"it is larger than {LARGEST_REPLY >> 20} MiB")
    return bytes(body)


def read_answer(request: Request, body: Any) -> Response:
    """The response to `request`. Raises ValueError for a body without a choice."""
    try:
        choice = body["choices"][0]
        # Gemini's may have details after a colon, and no message beside it.
        reason = choice.get("finish_reason")
        finish = _FINISH.get(reason.lower().partition(":")[0] if isinstance(reason, str) else None, "error")
        message = dict_of(choice.get("message")) if finish == "refusal" else choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError(f"an answer without a choice: {one_line(str(body)[:400])}") from None
    usage = dict_of(body.get("usage"))
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    read, written, both = (count_of(usage.get(name)) for name in names)
    written = max(written, both - read)  # xAI and Gemini count the tokens of thoughts only in the total
    cached = dict_of(usage.get("prompt_tokens_details")).get("cached_tokens")  # OpenAI, Moonshot, DeepSeek
    reused = count_of(cached or usage.get("cached_tokens") or usage.get("prompt_cache_hit_tokens"))

    text = _text(content)
    # The thought is a field of its own, a part of the content (Mistral), or stands in the text before `</think>`.
    thoughts = [message.get("reasoning_content"), message.get("reasoning")]
    thoughts += [dict_of(part).get("thinking") for part in content] if isinstance(content, list) else []
    thought = next(filter(None, map(_text, thoughts)), "")
    if not thought and "</think>" in text and not text.lstrip().startswith("{"):
        thought, text = THINK.split(text.lstrip())
        text = text.lstrip()

    error = None
    if isinstance(refusal, str) and refusal:
        finish, text = "refusal", refusal
    if finish == "refusal":
        text = text or str(reason)
        error = f"refused: {one_line(text)}"
    elif finish == "error":
        cause = choice.get("error") or f"finish_reason {reason}"
        error = f"the model did not answer: {one_line(str(cause))}"
    elif finish == "length" and not text:
        error = "no answer within the limit of tokens: raise engine.thinking_tokens if the model thinks"
    return Response(request.id, text, finish, read, written, reused, error, thought)


def _text(content: Any) -> str:
    """A text, which may be given as a list of parts; empty for anything else."""
    if isinstance(content, list):
        return "".join(_text(dict_of(part).get("text")) for part in content)
    return content if isinstance(content, str) else ""


def dict_of(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def inner_error(body: Any) -> tuple[int, Any]:
    """Status and error in the body of a reply of status 200, as OpenRouter sends them; 200 without an error.

    An error that names no status has 502.
    """
    choices = dict_of(body).get("choices")
    error = dict_of(body).get("error")
    if choices:
        choice = dict_of(choices[0]) if isinstance(choices, list) else {}
        reason = choice.get("finish_reason")
        error = (choice.get("error") or f"finish_reason {reason}") if reason in _BROKEN_OFF else None
    code = str(dict_of(error).get("code"))
    return (int(code) if _STATUS.fullmatch(code) else 502) if error else 200, error


def read_error(data: bytes) -> Any:
    """The body of an error reply, parsed as JSON if possible, else its text."""
    try:
        return parse_json(data)
    except ValueError:
        return data[:2000].decode("utf-8", "replace")


def error_words(body: Any) -> str:
    """The message of an error in any of the forms that servers give it."""
    if isinstance(body, list) and body:
        return error_words(body[0])
    for key in ("error", "message", "detail", "msg"):
        value = dict_of(body).get(key)
        if isinstance(value, str) and value:
            raw = dict_of(body.get("metadata")).get("raw")  # OpenRouter puts the provider's own words there
            return f"{value}: {raw}" if isinstance(raw, str) and raw else value
        if isinstance(value, dict | list) and value:
            return error_words(value)
    return str(body)


def error_code(body: Any) -> str:
    """The code of an error (`insufficient_quota`, `content_filter`), empty where there is none."""
    error = dict_of(dict_of(body).get("error", body))
    return str(error.get("code") or error.get("type") or "")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a refusal asks to wait, at most an hour: Retry-After (seconds or a date), retry-after-ms, or
    the time until an exhausted rate limit is reset. None if the headers have neither.
    """
    value = headers.get("retry-after")
    milliseconds, seconds = _number(headers.get("retry-after-ms")), _number(value)
    if milliseconds is not None:
        seconds = milliseconds / 1000
    elif seconds is None and value:
        with suppress(TypeError, ValueError, OverflowError):
            seconds = max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    if seconds is None:
        seconds = exhausted(headers)
    return None if seconds is None else min(seconds, LONGEST_S)


def exhausted(headers: Mapping[str, str]) -> float | None:
    """Seconds until the rate limit with nothing remaining is reset; None while something remains."""
    pauses = []
    for kind in ("requests", "tokens"):
        remaining = _number(headers.get(f"x-ratelimit-remaining-{kind}"))
        pause = _duration(headers.get(f"x-ratelimit-reset-{kind}"))
        if remaining is not None and remaining < 1 and pause is not None:
            pauses.append(pause)
    return max(pauses, default=None)


def _number(value: str | None) -> float | None:
    try:
        number = float(value or -1)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _duration(value: str | None) -> float | None:
    """Seconds from "6m0s", "120ms", a number, or a time stamp."""
    seconds = _number(value)
    if seconds is not None:
        return seconds if seconds < 1e8 else max(seconds - time.time(), 0.0)
    parts = _PART.findall(value or "")
    if not parts or "".join(number + unit for number, unit in parts) != (value or "").strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


class Dialect:
    """The parameters of one server: `configured` are left out from the start."""

    def __init__(self, configured: Sequence[str]) -> None:
        self._configured = configured
        self.omitted: dict[str, None] = dict.fromkeys(configured)
        self._limit_key = LIMITS[0]
        self._most_tokens = 0  # the server's limit of answer tokens, if a refusal named it; else 0

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
        if key != self._limit_key:  # the reply to another request has already changed the name
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
