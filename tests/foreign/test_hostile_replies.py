"""Servers that answer to harm: every reply is an answer or one line of trouble, in bounded time and memory."""

import asyncio
import gzip
import json
import resource
import zlib
from contextlib import suppress
from typing import Any

import pytest

from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.replies import LARGEST_REPLY, Trouble
from kgqa_hpc.engines.openai.settings import OpenAISettings
from tests.foreign.watchdog import watched

ASKED = Request("r", ({"role": "user", "content": "hello"},))
MEMORY = 400 << 20  # bytes that reading any reply may take; the largest is 16 MiB
MESSAGE = b'{"choices": [{"message": {"content": "yes", "x": %s}, "finish_reason": "stop"}]}'


def with_length(body: bytes, head: str = "", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + end


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * levels + b"1" + closing * levels


GZIP, DEFLATE = "Content-Encoding: gzip\r\n", "Content-Encoding: deflate\r\n"
BOMB = gzip.compress(b" " * (LARGEST_REPLY * 8), 1, mtime=0)
TROUBLE = {
    "65 levels": with_length(nested(65)),
    "1,010 levels, which orjson reads and Python cannot print": with_length(nested(1010)),
    "1,010 levels in a message": with_length(MESSAGE % nested(1010)),
    "1,010 levels where the refusal is": with_length(
        b'{"choices": [{"message": {"refusal": %b}}]}' % nested(1010)
    ),
    "1,010 objects": with_length(nested(1010, b'{"choices":', b"}")),
    "1,010 levels in an error": with_length(
        b'{"error": {"message": %b}}' % nested(1010), status="400 Bad Request"
    ),
    "1,010 levels in an error of the server": with_length(nested(1010), status="500 No"),
    "8 million levels": with_length(b"[" * (8 << 20)),
    "a flood": with_length(b" " * (LARGEST_REPLY + 1)),
    "a flood in chunks": chunked(*[b" " * (1 << 20)] * 17),
    "a flood without an end": b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (LARGEST_REPLY + 1),
    "a gzip bomb": with_length(BOMB, GZIP),
    "a gzip bomb in chunks": chunked(BOMB).replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1),
    "a deflate bomb": with_length(zlib.compress(b" " * (LARGEST_REPLY * 8), 1), DEFLATE),
    "a gzip of a gzip": with_length(gzip.compress(BOMB, mtime=0), GZIP),
    "an error that is a bomb": with_length(BOMB, GZIP, "400 Bad Request"),
    "no gzip": with_length(b'{"choices": []}', GZIP),
    "a chunk larger than it says": chunked(b"x", end=b"ffffffffffffffff\r\nx"),
    "a chunk whose size is no number": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a size without an end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * (4 << 20),
    "a length that is a lie": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
    "a length that is no number": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "a header of four megabytes": b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * (4 << 20) + b"\r\n\r\n{}",
    "a hundred thousand headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: y\r\n" * 100_000 + b"\r\n{}",
    "a first line without an end": b"HTTP/1.1 200 " + b"x" * (4 << 20),
    "ten thousand other answers first": b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
    "a list": with_length(b"[]"),
    "a number": with_length(b"9" * 100_000),
    "a text": with_length(b'"' + b"\\u202e" * 100_000 + b'"'),
    "choices that are a text": with_length(b'{"choices": "%b"}' % (b"x" * (1 << 20))),
    "a choice that is a number": with_length(b'{"choices": [1]}'),
    "a message that is a list": with_length(b'{"choices": [{"message": [[]]}]}'),
    "half of a character": with_length(b'{"choices": "\xff\xfe'),
}


class Raw:
    """Answers every connection with the same bytes and hangs up."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.reply)
            await writer.drain()
        writer.close()


async def asked(reply: bytes) -> Any:
    async with await asyncio.start_server(Raw(reply), "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        api = ChatApi(url, OpenAISettings(model="m"), timeout_s=60)
        try:
            return await api.ask(ASKED, "none")
        finally:
            await api.close()


@pytest.mark.parametrize("name", TROUBLE)
def test_a_hostile_reply_is_one_line_of_trouble(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with watched(name), pytest.raises(Trouble) as caught:
        asyncio.run(asked(TROUBLE[name]))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1_000
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 10_000, '"' * 100_000, "\\" * 100_000])
def test_what_a_model_writes_is_no_nesting_of_the_reply(content: str) -> None:
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    with watched():
        got = asyncio.run(asked(with_length(json.dumps({"choices": [choice]}).encode())))
    assert got.text == content
