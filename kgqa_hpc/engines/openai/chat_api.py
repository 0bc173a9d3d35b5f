"""One question to one OpenAI-compatible server, and what its failure means.

Written over aiohttp for three reasons: a reply is bounded while it is read (the official client unpacks a reply
of any size), 512 requests in flight cost a fraction of the processor time (tools/bench_openai_client.py), and
retries must adapt to the servers and be counted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from kgqa_hpc.engines.clean import one_line
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.engines.schema import Remembered, Schema, as_sent, without_patterns
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text import bounded_json

Mode = Literal["json_schema", "json_schema_no_pattern", "json_object", "none"]

_OVERLOADED = {429, 503, 529}
_AGAIN = {408, 409, 425, 429}


def _strict(schema: Schema) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": as_sent(schema), "strict": True},
    }


# What each mode sends as `response_format`.
_FORMATS: dict[Mode, Callable[[Schema], dict[str, Any]]] = {
    "json_schema": _strict,
    "json_schema_no_pattern": lambda schema: _strict(without_patterns(schema)),
    "json_object": lambda schema: {"type": "json_object"},
}


class Trouble(Exception):
    """No answer. `again`: another try may help; `fatal`: no request will ever be answered; `unseen`: the server
    never saw the request, so it cannot be the request's fault.
    """

    def __init__(
        self,
        words: str,
        *,
        again: bool = False,
        fatal: bool = False,
        overloaded: bool = False,
        unseen: bool = False,
        retry_after: float | None = None,
        cure: str = "",
    ) -> None:
        super().__init__(words)
        self.again, self.fatal, self.overloaded, self.unseen = again, fatal, overloaded, unseen
        self.retry_after, self.cure = retry_after, cure


class ChatApi:
    """The chat endpoint of one server. Used from one event loop; `close` it there."""

    def __init__(self, url: str, settings: OpenAISettings) -> None:
        try:
            import aiohttp

            from kgqa_hpc.engines.openai import reply
        except ImportError as problem:
            raise EngineConfigError(
                f"the openai engine needs the package aiohttp: {problem}", "pip install 'kgqa_hpc[openai]'"
            ) from None
        self._aiohttp, self._reply = aiohttp, reply
        self._settings = settings
        self._key = os.environ.get(settings.api_key_env, "").strip()
        self._limit_key = "max_tokens"  # newer hosted models know only max_completion_tokens
        self._session: aiohttp.ClientSession | None = None
        self.clamped = 0  # token counts of this server that could not be true
        self._formats = {mode: Remembered(make) for mode, make in _FORMATS.items()}
        self.url = url

    async def ask(self, request: Request, mode: Mode) -> Response:
        """The server's answer. Raises Trouble."""
        aiohttp = self._aiohttp
        limit = self._settings.timeout_s
        try:
            async with asyncio.timeout(limit):  # also for a body that trickles for ever
                status, headers, data = await self._post(self._body(request, mode))
            body = self._reply.read_json(data) if status == 200 else None
            if status == 200:
                response, clamped = self._reply.read_answer(request, body)
                self.clamped += clamped
                return response
        except (TimeoutError, aiohttp.ServerTimeoutError):
            words = f"{self.url}: no answer within {limit:g} s"
            raise Trouble(words, again=True, overloaded=True) from None
        except self._reply.BrokenReply as problem:
            raise Trouble(self._clean(f"{self.url}: broken answer: {problem}"), again=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            name = type(problem).__name__
            unseen = isinstance(problem, aiohttp.ClientConnectorError)
            raise Trouble(self._clean(f"{self.url}: {problem or name}"), again=True, unseen=unseen) from None
        words = self._words(data)
        if self._learns_from(status, words):
            return await self.ask(request, mode)
        raise self._trouble(status, words, headers)

    async def obeys(self, request: Request, mode: Mode) -> bool:
        """Whether a server that accepts the mode also keeps to it: the answer is JSON."""
        response = await self.ask(request, mode)
        if mode == "none" or response.finish != "stop":
            return True  # nothing to keep to, or cut off before it could be seen
        try:
            return isinstance(bounded_json.loads(response.text), dict)
        except ValueError:
            return False

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()

    async def _post(self, body: bytes) -> tuple[int, Any, bytes]:
        if self._session is None:
            self._session = self._new_session()
        async with self._session.post(
            f"{self.url.rstrip('/')}/chat/completions", data=body, allow_redirects=False
        ) as reply:
            return reply.status, reply.headers, await self._reply.read_body(reply)

    def _new_session(self) -> Any:
        aiohttp = self._aiohttp
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        loopback = urlsplit(self.url).hostname in {"localhost", "127.0.0.1", "::1"}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._settings.concurrency, keepalive_timeout=30.0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(self._settings.timeout_s, 30.0)),
            headers=headers,
            auto_decompress=False,
            # A proxy of the environment must not get between us and our own machine.
            trust_env=not loopback,
        )

    def _body(self, request: Request, mode: Mode) -> bytes:
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": request.messages,
            "temperature": request.temperature,
            "seed": request.seed,
            self._limit_key: request.max_tokens,
            **self._settings.passed_through,
        }
        if request.schema is not None and mode != "none":
            body["response_format"] = self._formats[mode](request.schema)
        try:
            return orjson.dumps(body)
        except TypeError:  # lone surrogates
            text = str(body["messages"]).encode("utf-8", "replace").decode()
            raise Trouble(f"the prompt holds what is no text: {one_line(text)}") from None

    def _learns_from(self, status: int, words: str) -> bool:
        if status == 400 and self._limit_key == "max_tokens" and "max_completion_tokens" in words:
            self._limit_key = "max_completion_tokens"
            return True
        return False

    def _words(self, data: bytes) -> str:
        """What an error says of itself, in one clean line."""
        try:
            body = bounded_json.loads(data)
            error = body.get("error", body) if isinstance(body, dict) else body
            said = error.get("message", error) if isinstance(error, dict) else error
        except ValueError:
            said = data[:2000].decode("utf-8", "replace")
        return self._clean(str(said)[:2000])

    def _trouble(self, status: int, said: str, headers: Any) -> Trouble:
        words = f"{self.url}: HTTP {status}: {said}"
        name = self._settings.api_key_env
        if status in (401, 403):
            cure = f"set a valid key in the environment variable {name}"
            return Trouble(words if self._key else f"{words} ({name} is not set)", fatal=True, cure=cure)
        if status == 404:
            return Trouble(words, fatal=True, cure="check engine.base_url (often …/v1) and engine.model")
        if "insufficient_quota" in words:
            return Trouble(words, fatal=True, cure="the account has no credit left")
        return Trouble(
            words,
            again=status >= 500 or status in _AGAIN,
            overloaded=status in _OVERLOADED,
            retry_after=_seconds(headers.get("retry-after")),
        )

    def _clean(self, words: str) -> str:
        """One line without the key."""
        return one_line(words.replace(self._key, "***") if self._key else words)


def _seconds(value: str | None) -> float | None:
    """Of a Retry-After header, at most an hour; dates are left to the back-off."""
    try:
        number = float(value) if value else -1.0
    except ValueError:
        return None
    return min(number, 3600.0) if number >= 0 else None
