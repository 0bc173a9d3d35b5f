"""Protocol between a worker and its engine process: frames of JSON over a socket.

A frame is four bytes (length of the body, little-endian) and a body, the JSON array [verb, content]:

    worker → engine   hello {config, memory}   preflight [schemas]   requests [shared, rows]   cancel   close
    engine → worker   ready {info}   refused {error, message, cure}   checked {info}   responses [rows]
                      described {info}      beat progress         load {retries, throttled, waited_s}

Many requests or responses travel in one frame, so that a round trip costs microseconds. A row is a request
or response as the array of its members; messages and schemas of requests stand in `shared`, each once, and in
the rows their places there: the long instructions are the same for all.

The worker checks every frame: other content is a GarbledStream, and the engine is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import Any, get_args

import orjson

from kgqa_hpc import errors
from kgqa_hpc.engines.clean import one_line
from kgqa_hpc.engines.engine import (
    LOAD,
    OBSERVED,
    EngineInfo,
    Finish,
    Request,
    Response,
    ServerLoad,
    count_of,
    number_of,
)
from kgqa_hpc.errors import InputError

HEAD = 4
LONGEST = 1 << 30  # a larger length means that the stream is corrupt


class GarbledStream(ValueError):
    """The bytes are not valid frames."""


def frame(verb: str, content: Any = None) -> bytes:
    """The bytes of a frame. Lone surrogates, which UTF-8 cannot encode, become '?'."""
    try:
        body = orjson.dumps([verb, content])
    except TypeError:
        body = orjson.dumps([verb, _speakable(content)])
    return len(body).to_bytes(HEAD, "little") + body


class Frames:
    """Splits a stream of bytes into frames: `feed` adds received bytes, iteration yields complete frames."""

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
            try:
                with memoryview(self._buffer) as buffer, buffer[HEAD : HEAD + length] as body:
                    whole = orjson.loads(body)
            except ValueError as problem:
                raise GarbledStream(str(problem)) from None
            del self._buffer[: HEAD + length]
            if not (isinstance(whole, list) and len(whole) == 2 and isinstance(whole[0], str)):
                raise GarbledStream("a frame that is no [verb, content]")
            yield whole[0], whole[1]


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


def read_responses(content: Any) -> list[Response]:
    """Responses as they came over the wire, token counts bounded. Raises GarbledStream."""
    if not isinstance(content, list):
        raise GarbledStream("responses that are no list")
    return [_response(row) for row in content]


def write_info(info: EngineInfo) -> dict[str, Any]:
    """An EngineInfo as plain JSON types; `read_info` is the inverse."""
    return {**asdict(info), "extra": dict(info.extra)}


def read_info(content: Any) -> EngineInfo:
    """Parse an EngineInfo that was received. Raises GarbledStream."""
    if not isinstance(content, dict) or content.keys() != {f.name for f in fields(EngineInfo)}:
        raise GarbledStream("an engine's description that is none")
    names = ("name", "version", "model", "digest", "quantisation", "settings", *OBSERVED)
    texts = (content[name] for name in names)
    if not all(isinstance(text, str) for text in texts) or not isinstance(content["extra"], dict):
        raise GarbledStream("an engine's description with wrong types")
    try:
        orjson.dumps(content["extra"])  # at most 254 levels: deeper ones could not be copied or kept
    except TypeError:
        raise GarbledStream("an engine's description nested too deeply") from None
    numbers = {name: count_of(content[name]) for name in ("max_batch", "window")}
    stall = float(count_of(content["stall_s"]))
    return EngineInfo(**{**content, **numbers, "max_batch": max(numbers["max_batch"], 1), "stall_s": stall})


def read_load(content: Any) -> ServerLoad:
    """Parse counts of server failures that were received. Raises GarbledStream."""
    if not isinstance(content, dict):
        raise GarbledStream("troubles that are no mapping")
    return {name: number_of(content.get(name)) for name in LOAD}


def read_refusal(content: Any) -> InputError:
    """The error that the engine's child met, with its message and cure. Raises GarbledStream."""
    try:
        words = content["error"], content["message"], content["cure"]
    except (TypeError, KeyError):
        raise GarbledStream("a refusal without words") from None
    if not all(isinstance(word, str) for word in words):
        raise GarbledStream("a refusal that is no text")
    kind = getattr(errors, words[0], InputError)
    if not (isinstance(kind, type) and issubclass(kind, InputError)):
        kind = InputError
    problem: InputError = kind(*("\n".join(map(one_line, text.split("\n"))) for text in words[1:]))
    return problem


_FINISHES = frozenset(get_args(Finish))


def _response(row: Any) -> Response:
    if not isinstance(row, list) or len(row) != len(Response._fields):
        raise GarbledStream("a response of another length")
    name, text, finish, prompt, completion, cached, error, thought = row
    if not (type(name) is type(text) is type(thought) is str) or not isinstance(finish, str):
        raise GarbledStream("a response that is no text")
    if finish not in _FINISHES or not (error is None or type(error) is str):
        raise GarbledStream(f"a response with the finish {finish[:40]!r}")
    counts = count_of(prompt), count_of(completion), count_of(cached)
    return Response(name, text, finish, *counts, error, thought)  # type: ignore[arg-type]


def _speakable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_speakable(key): _speakable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(inner) for inner in value]
    return value
