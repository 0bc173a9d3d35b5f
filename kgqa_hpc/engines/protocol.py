"""Protocol between a worker and its engine process: frames of JSON over a socket.

A frame is four bytes (length of the body, little-endian) and a body, the JSON array [verb, content]:

    worker → engine   hello {config, memory}   preflight [schemas]   requests [shared, rows]   cancel   close
    engine → worker   ready {info}   refused {error, message, cure}   checked {info}   responses [rows]
                      described {info}      beat progress         load {retries, throttled, waited_s}

Many requests or responses travel in one frame, so that a round trip costs microseconds. A row is a request
or response as the array of its members; messages and schemas of requests stand in `shared`, each once, and in
the rows their places there: the long instructions are the same for all.

The worker kills an engine whose frames cannot be read.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, get_args

import orjson

from kgqa_hpc import errors
from kgqa_hpc.engines.clean import one_line
from kgqa_hpc.engines.engine import EngineInfo, Finish, Request, Response, count_of
from kgqa_hpc.errors import InputError

HEAD = 4
LONGEST = 1 << 30  # a larger length means that the stream is corrupt
_FINISHES = frozenset(get_args(Finish))


def frame(verb: str, content: Any = None) -> bytes:
    """The bytes of a frame. Lone surrogates, which UTF-8 cannot encode, become '?'."""
    try:
        body = orjson.dumps([verb, content])
    except TypeError:
        body = json.dumps([verb, content], ensure_ascii=False).encode("utf-8", "replace")
    return len(body).to_bytes(HEAD, "little") + body


class Frames:
    """Splits a stream of bytes into frames: `feed` adds received bytes, iteration yields complete frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[str, Any]]:
        """The frames that `data` completes. Raises ValueError for bytes that are no frame."""
        self._buffer += data
        while len(self._buffer) >= HEAD:
            length = int.from_bytes(self._buffer[:HEAD], "little")
            if length > LONGEST:
                raise ValueError(f"a frame of {length:,} bytes")
            if len(self._buffer) < HEAD + length:
                return
            with memoryview(self._buffer) as buffer, buffer[HEAD : HEAD + length] as body:
                verb, content = orjson.loads(body)
            del self._buffer[: HEAD + length]
            yield verb, content


def write_requests(requests: Iterable[Request]) -> list[Any]:
    """Requests as they go over the wire. What is the same object in several of them is written once."""
    shared: list[Any] = []
    positions: dict[int, int] = {}

    def place(value: Any) -> int:
        position = positions.setdefault(id(value), len(shared))
        if position == len(shared):
            shared.append(value)
        return position

    rows = [
        (name, [*map(place, messages)], max_tokens, temperature, seed, place(schema))
        for name, messages, max_tokens, temperature, seed, schema in requests
    ]
    return [shared, rows]


def read_requests(content: list[Any]) -> list[Request]:
    """Parse requests that were received."""
    shared, rows = content
    return [
        Request(name, tuple([shared[n] for n in messages]), max_tokens, temperature, seed, shared[schema])
        for name, messages, max_tokens, temperature, seed, schema in rows
    ]


def write_responses(responses: Iterable[Response]) -> list[Any]:
    """Responses in the form in which they are sent."""
    return [tuple(response) for response in responses]


def read_responses(content: list[Any]) -> list[Response]:
    """Parse responses that were received; token counts, which may be those of a server, are bounded.

    Raises ValueError for a response without text, and for an unknown finish.
    """
    responses = []
    for name, text, finish, prompt, completion, cached, error, thought in content:
        if not isinstance(text, str) or finish not in _FINISHES:
            raise ValueError(f"a response of type {type(text).__name__} with finish {finish!r}")
        counts = count_of(prompt), count_of(completion), count_of(cached)
        responses.append(Response(name, text, finish, *counts, error, thought))
    return responses


def write_info(info: EngineInfo) -> dict[str, Any]:
    """An EngineInfo as plain JSON types; `read_info` is the inverse."""
    return {**asdict(info), "extra": dict(info.extra)}


def read_info(content: dict[str, Any]) -> EngineInfo:
    """Parse an EngineInfo that was received."""
    return EngineInfo(**{**content, "max_batch": max(content["max_batch"], 1)})


def read_refusal(content: dict[str, str]) -> InputError:
    """The error that the engine's child met, with its message and cure in printable characters."""
    kind = getattr(errors, content["error"], InputError)  # a package's own class is not known here
    texts = ("\n".join(map(one_line, content[key].split("\n"))) for key in ("message", "cure"))
    problem: InputError = kind(*texts)
    return problem
