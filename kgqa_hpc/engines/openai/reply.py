"""Reader of a server's reply, with limits on bytes, nesting and numbers.

A reply is foreign data. It is read up to a limit, packed or not; its JSON is read by a parser with a
bounded depth; its token counts are clamped, and the number of clamped counts is kept.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from kgqa_hpc.engines.clean import one_line
from kgqa_hpc.engines.engine import Finish, Request, Response, count_of
from kgqa_hpc.engines.thinking import THINK
from kgqa_hpc.text import bounded_json

if TYPE_CHECKING:
    import aiohttp

# Largest reply in bytes; a completion of 100,000 tokens with all additions of a server is below 2 MB.
LARGEST_REPLY = 16 << 20
_PIECE = 1 << 16
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
_PACKED = {"gzip": 31, "x-gzip": 31, "deflate": 47}  # zlib's window bits


class BrokenReply(ValueError):
    """The body of a reply is not a valid answer."""


async def read_body(reply: aiohttp.ClientResponse) -> bytes:
    """The body, unpacked. Raises BrokenReply above LARGEST_REPLY, before or after unpacking."""
    packing = reply.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = None
    if packing in _PACKED:
        unpack = zlib.decompressobj(_PACKED[packing])
    elif packing != "identity":
        raise BrokenReply(f"it is packed with {one_line(packing, 40)}, which nobody asked for")
    parts, size = [], 0
    async for piece in reply.content.iter_chunked(_PIECE):
        if unpack is not None:
            try:
                piece = unpack.decompress(piece, LARGEST_REPLY + 1 - size)
            except zlib.error:
                raise BrokenReply("its packing is damaged") from None
        size += len(piece)
        if size > LARGEST_REPLY:
            raise BrokenReply(f"it is larger than {LARGEST_REPLY >> 20} MiB")
        parts.append(piece)
    return b"".join(parts)


def read_json(body: bytes) -> Any:
    """JSON of bounded depth. Raises BrokenReply."""
    try:
        return bounded_json.loads(body)
    except orjson.JSONDecodeError as problem:
        raise BrokenReply(f"it is not JSON: {problem}") from None


def read_answer(request: Request, body: Any) -> tuple[Response, int]:
    """The response to `request`, and the number of its impossible token counts.

    Raises BrokenReply for a body without a choice.
    """
    choice = _member(_member(body, "choices"), 0)
    message = _member(choice, "message")
    if not isinstance(choice, dict) or not isinstance(message, dict):
        _refuse(body)
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
    read, written, reused = (count_of(number) for number in counts)
    clamped = sum(
        number is not None and count != number
        for number, count in zip(counts, (read, written, reused), strict=True)
    )
    text, reason = message.get("content"), choice.get("finish_reason")
    thought, text = _thought_in(message, text if isinstance(text, str) else "")
    finish = _FINISH.get(reason.lower() if isinstance(reason, str) else None, "error")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        finish, text = "refusal", refusal
    error = None
    if finish == "refusal":
        error = f"refused: {one_line(text or str(reason))}"
    elif finish == "error":
        error = f"the model did not answer: {one_line(str(choice.get('error') or reason))}"
    return Response(request.id, text, finish, read, written, reused, error, thought), clamped


def _thought_in(message: dict[str, Any], text: str) -> tuple[str, str]:
    """The thought and the answer. The thought is a field of its own, or stands in the text before `</think>`."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(thought := message.get(name), str) and thought:
            return thought, text
    if "</think>" in text and not text.lstrip().startswith("{"):
        thought, answer = THINK.split(text.lstrip())
        return thought, answer.lstrip()
    return "", text


def error_status(body: Any) -> int:
    """The status of an error inside a reply of status 200 (OpenRouter, for a provider behind it); otherwise 200."""
    error = body.get("error") if isinstance(body, dict) and not body.get("choices") else None
    if error is None:
        return 200
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def _member(value: Any, key: str | int) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        _refuse(value)


def _refuse(body: Any) -> NoReturn:
    raise BrokenReply(f"an answer without a choice: {one_line(str(body)[:400])}")
