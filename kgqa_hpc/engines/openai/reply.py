"""Reader of a server's reply, with limits on bytes, nesting and numbers: the answer, an error, the requested pause.

A reply is foreign data. It is read up to a limit, packed or not; its JSON is read by a parser with a
bounded depth; its token counts are clamped.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import orjson

from kgqa_hpc.engines.clean import one_line
from kgqa_hpc.engines.engine import Finish, Request, Response, count_of
from kgqa_hpc.engines.models import THINK
from kgqa_hpc.text.streams import parse_json

if TYPE_CHECKING:
    import aiohttp

# Largest reply in bytes; a completion of 100,000 tokens with all additions of a server is below 2 MB.
LARGEST_REPLY = 16 << 20
LONGEST_S = 3600.0  # of a requested pause
_PIECE = 1 << 16
_ANY_HEADER = 47  # zlib's window bits: gzip and deflate, told apart by their headers
_FINISH: dict[Any, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(eq=False)
class Trouble(Exception):
    """A request without answer, for the reason `words`."""

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


class BrokenReply(ValueError):
    """The body of a reply is not a valid answer."""


async def read_body(reply: aiohttp.ClientResponse) -> bytes:
    """The body, unpacked. Raises BrokenReply above LARGEST_REPLY, before or after unpacking."""
    packing = reply.headers.get("Content-Encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip", "x-gzip", "deflate"):
        raise BrokenReply(f"it is packed with {one_line(packing, 40)}, which nobody asked for")
    unpack = None if packing == "identity" else zlib.decompressobj(_ANY_HEADER)
    body = bytearray()
    async for piece in reply.content.iter_chunked(_PIECE):
        try:
            body += unpack.decompress(piece, LARGEST_REPLY + 1 - len(body)) if unpack else piece
        except zlib.error:
            raise BrokenReply("its packing is damaged") from None
        if len(body) > LARGEST_REPLY:
            raise BrokenReply(f"it is larger than {LARGEST_REPLY >> 20} MiB")
    return bytes(body)


def read_json(body: bytes) -> Any:
    """JSON of bounded depth. Raises BrokenReply."""
    try:
        return parse_json(body)
    except orjson.JSONDecodeError as problem:
        raise BrokenReply(f"it is not JSON: {problem}") from None


def read_answer(request: Request, body: Any) -> Response:
    """The response to `request`. Raises BrokenReply for a body without a choice."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content, reason, refusal = message.get("content"), choice.get("finish_reason"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BrokenReply(f"an answer without a choice: {one_line(str(body)[:400])}") from None
    usage = _object(body.get("usage"))
    cached = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
    read, written, reused = map(count_of, counts)

    text = content if isinstance(content, str) else ""
    # The thought is a field of its own, or stands in the text before `</think>`.
    thoughts = (message.get(name) for name in ("reasoning_content", "reasoning"))
    thought = next((thought for thought in thoughts if isinstance(thought, str) and thought), "")
    if not thought and "</think>" in text and not text.lstrip().startswith("{"):
        thought, text = THINK.split(text.lstrip())
        text = text.lstrip()

    finish = _FINISH.get(reason.lower() if isinstance(reason, str) else None, "error")
    error = None
    if isinstance(refusal, str) and refusal:
        finish, text = "refusal", refusal
    if finish == "refusal":
        error = f"refused: {one_line(text or str(reason))}"
    elif finish == "error":
        error = f"the model did not answer: {one_line(str(choice.get('error') or reason))}"
    return Response(request.id, text, finish, read, written, reused, error, thought)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def error_status(body: Any) -> int:
    """The status of an error inside a reply of status 200 (OpenRouter, for a provider behind it); otherwise 200."""
    error = body.get("error") if isinstance(body, dict) and not body.get("choices") else None
    code = _object(error).get("code")
    if error is None:
        return 200
    return code if isinstance(code, int) and 400 <= code < 600 else 502


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
        value = _object(body).get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict | list) and value:
            return error_words(value)
    return str(body)


def error_code(body: Any) -> str:
    """The code of an error (`insufficient_quota`, `content_filter`), empty where there is none."""
    error = _object(_object(body).get("error", body))
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
