"""How a worker and its engine process talk: frames of JSON over a socket.

A frame is four bytes (length of the body, little-endian) and a body, the JSON array [verb, content]:

    worker → engine   hello {config, memory}   preflight [schemas]   count [texts]
                      requests [shared, rows]  cancel                close
    engine → worker   ready {info}   refused {error, message, cure}   checked   counts [n]
                      responses [rows]   beat progress

Many requests or responses travel in one frame, so that a round trip costs microseconds. A row is a request
or response as the array of its members; messages and schemas of requests stand in `shared`, each once, and in
the rows their places there: the long instructions are the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import orjson

from kgqa_hpc.engines.engine import EngineInfo, Request, Response

HEAD = 4
LONGEST = 1 << 30  # a larger length is not ours: the stream is out of step


class GarbledStream(ValueError):
    """The bytes are not frames."""


def frame(verb: str, content: Any = None) -> bytes:
    """One frame. Lone surrogates, which UTF-8 cannot hold, become '?'."""
    try:
        body = orjson.dumps([verb, content])
    except TypeError:
        body = orjson.dumps([verb, _speakable(content)])
    return len(body).to_bytes(HEAD, "little") + body


class Frames:
    """Cuts a stream of bytes into frames: feed it what arrived, iterate over what is whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[str, Any]]:
        self._buffer += data
        while len(self._buffer) >= HEAD:
            length = int.from_bytes(self._buffer[:HEAD], "little")
            if length > LONGEST:
                raise GarbledStream(f"a frame of {length:,} bytes")
            if len(self._buffer) < HEAD + length:
                return
            body = bytes(self._buffer[HEAD : HEAD + length])
            del self._buffer[: HEAD + length]
            try:
                verb, content = orjson.loads(body)
            except ValueError as problem:
                raise GarbledStream(str(problem)) from None
            yield verb, content


def write_requests(requests: Iterable[Request]) -> list[Any]:
    """Requests as they go over the wire. What is the same object in several of them is written once."""
    shared: list[Any] = []
    places: dict[int, int] = {}

    def place(value: Any) -> int:
        found = places.setdefault(id(value), len(shared))
        if found == len(shared):
            shared.append(value)
        return found

    rows = [
        (name, [*map(place, messages)], max_tokens, temperature, seed, place(schema))
        for name, messages, max_tokens, temperature, seed, schema in requests
    ]
    return [shared, rows]


def read_requests(content: list[Any]) -> list[Request]:
    """Requests as they came over the wire."""
    shared, rows = content
    return [
        Request(name, tuple([shared[n] for n in messages]), max_tokens, temperature, seed, shared[schema])
        for name, messages, max_tokens, temperature, seed, schema in rows
    ]


def write_responses(responses: Iterable[Response]) -> list[Any]:
    """Responses as they go over the wire."""
    return [tuple(response) for response in responses]


def read_responses(content: list[Any]) -> list[Response]:
    """Responses as they came over the wire."""
    return [Response(*row) for row in content]


def write_info(info: EngineInfo) -> dict[str, Any]:
    """Plain JSON types of an EngineInfo; `EngineInfo(**data)` is the inverse."""
    return {**asdict(info), "extra": dict(info.extra)}


def _speakable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_speakable(key): _speakable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(inner) for inner in value]
    return value
