"""Client of one OpenAI-compatible server: a request, its answer, the meaning of a failure, and the requested pause.

Written over aiohttp for three reasons: a reply is bounded while it is read (the official client unpacks a reply
of any size), 512 requests in flight cost a fraction of the processor time (tools/bench_openai_client.py), and
retries must adapt to the servers and be counted.
"""

import asyncio
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson

from kgqa_hpc.engines.clean import Redactor, one_line
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.openai.dialect import Dialect, error_code, error_words
from kgqa_hpc.engines.openai.modes import Forms, Mode, with_the_word_json
from kgqa_hpc.engines.openai.reply import BrokenReply, error_status, read_answer, read_body, read_json
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text import bounded_json

LONGEST_S = 3600.0  # of a requested pause
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

VERSION_S = 5.0
_OVERLOADED = {429, 503, 529}
_AGAIN = {408, 409, 425, 429}
# Codes of a refusal by the provider's filter, which is the answer to this prompt.
FILTERED = re.compile(
    r"content_filter|content_policy|responsibleaipolicy|moderation|flagged|data_inspection_failed",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(r"support.{0,40}parameter", re.IGNORECASE)  # OpenRouter: no provider takes the mode
_BROKE = re.compile(r"insufficient_quota|insufficient balance|payment required|billing", re.IGNORECASE)


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


class ChatApi:
    """The chat endpoint of one server. Used from one event loop at a time; `close` it there."""

    def __init__(self, url: str, settings: OpenAISettings) -> None:
        try:
            import aiohttp
        except ImportError as problem:
            raise EngineConfigError(
                f"the openai engine needs the package aiohttp: {problem}", "pip install 'kgqa_hpc[openai]'"
            ) from None
        self._aiohttp = aiohttp
        self._settings = settings
        self._key = os.environ.get(settings.api_key_env, "").strip()
        self._headers = settings.header_values()
        self._redact = Redactor(settings.secret_names)
        self._session: aiohttp.ClientSession | None = None
        self._temperature, self._passed_through = settings.sampling[0], settings.passed_through
        self._forms = Forms()
        self.dialect = Dialect(tuple(settings.omit))
        self._clamped = 0  # number of impossible token counts of this server
        self.fingerprint = ""  # `system_fingerprint` of its last reply
        self.rest_s = 0.0  # pause that the server requested with its last answer
        self.url = url

    async def ask(self, request: Request, mode: Mode) -> Response:
        """The server's answer. Raises Trouble."""
        aiohttp = self._aiohttp
        limit = self._settings.timeout_s
        while True:
            sent = self.body(request, mode)
            try:
                encoded = orjson.dumps(sent)
            except TypeError:  # lone surrogates
                text = str(sent["messages"]).encode("utf-8", "replace").decode()
                raise Trouble(f"the prompt holds what is no text: {one_line(text)}") from None
            try:
                async with (
                    asyncio.timeout(limit),  # the limit also ends a body that arrives byte by byte
                    self._open().post(
                        endpoint(self.url, "chat/completions"), data=encoded, allow_redirects=False
                    ) as reply,
                ):
                    status, headers, data = reply.status, reply.headers, await read_body(reply)
                if status == 200:
                    body = read_json(data)
                    status = error_status(body)
                    if status == 200:
                        return self.answer(request, body, headers)
            except (TimeoutError, aiohttp.ServerTimeoutError):
                words = f"{self.url}: no answer within {limit:g} s"
                raise Trouble(words, again=True, overloaded=True) from None
            except BrokenReply as problem:
                raise Trouble(self.clean(f"{self.url}: broken answer: {problem}"), again=True) from None
            except (aiohttp.ClientError, OSError, ValueError) as problem:
                name = type(problem).__name__
                unseen = isinstance(problem, aiohttp.ClientConnectorError)
                words = self.clean(f"{self.url}: {problem or name}")
                raise Trouble(words, again=True, unseen=unseen, cure=self._cure(problem)) from None
            error = error_in(data)
            words = self.clean(error_words(error)[:2000])
            if status in (400, 422) and self.dialect.learns(sent, error, words):
                print(f"openai: {self.url} {words}; sent from now on: {self.dialect.learned}", flush=True)
                continue
            if status in (400, 403, 451) and FILTERED.search(f"{error_code(error)} {words}"):
                return Response(request.id, words, "refusal", error=f"refused: {words}")
            raise self.trouble(status, words, error_code(error), headers)

    def _cure(self, problem: Exception) -> str:
        """Advice for a connection that failed for a reason that rarely passes by itself; otherwise empty."""
        if isinstance(problem, self._aiohttp.ClientConnectorDNSError):
            return "check the name of the host"
        if isinstance(problem, self._aiohttp.ClientConnectorCertificateError):
            return "name the certificate that signs it in the environment variable SSL_CERT_FILE"
        if "WRONG_VERSION_NUMBER" in str(problem):
            return f"the server does not speak https: try {self.url.replace('https:', 'http:')}"
        return ""

    def answer(self, request: Request, body: Any, headers: Any) -> Response:
        """The response in a reply of status 200. Raises BrokenReply."""
        response, clamped = read_answer(request, body)
        if response.thought and not self._settings.keep_thoughts:
            response = response._replace(thought="")
        before, self._clamped = self._clamped, self._clamped + clamped
        if (
            self._clamped.bit_length() > before.bit_length()
        ):  # the first, and whenever their number has doubled
            print(
                f"openai: {self._clamped} token counts of {self.url} were impossible and clamped", flush=True
            )
        if isinstance(mark := body.get("system_fingerprint"), str):
            self.fingerprint = one_line(mark, 80)
        self.rest_s = exhausted(headers) or 0.0
        return response

    @property
    def credentials(self) -> dict[str, str]:
        """The authorization header, and the headers of the configuration."""
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return {**key, **self._headers}

    async def version(self) -> str:
        """The server's version, from the paths of vLLM, SGLang or llama.cpp; empty if it has none of them."""
        root = urlsplit(self.url)
        for path, key in (("/version", "version"), ("/props", "build_info"), ("/get_server_info", "version")):
            try:
                async with asyncio.timeout(VERSION_S):
                    async with self._open().get(
                        f"{root.scheme}://{root.netloc}{path}", allow_redirects=False
                    ) as reply:
                        body = read_json(await read_body(reply))
            except (TimeoutError, self._aiohttp.ClientError, OSError, ValueError):
                continue
            if isinstance(body, dict) and isinstance(value := body.get(key), str) and value:
                return self.clean(value)[:80]
        return ""

    async def close(self) -> None:
        """Close its connections; the next request opens others, in its own event loop."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> Any:
        """The session, opened at its first use, within the event loop."""
        if self._session is None:
            aiohttp = self._aiohttp
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **self.credentials}
            loopback = urlsplit(self.url).hostname in {"localhost", "127.0.0.1", "::1"}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._settings.concurrency, keepalive_timeout=30.0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(self._settings.timeout_s, 30.0)),
                headers=headers,
                auto_decompress=False,
                # Requests to this machine must not go through a proxy of the environment.
                trust_env=not loopback,
            )
        return self._session

    def body(self, request: Request, mode: Mode) -> dict[str, Any]:
        """The JSON body of a request."""
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": with_the_word_json(request.messages) if mode == "json_object" else request.messages,
            "temperature": request.temperature or self._temperature,
            "seed": request.seed,
            **self._passed_through,
            **self._forms(mode, request.schema),
        }
        return self.dialect.apply(body, request.max_tokens + self._settings.thought_room)

    def trouble(self, status: int, message: str, code: str, headers: Any) -> Trouble:
        """The Trouble for a reply whose status is not 200."""
        words = f"{self.url}: HTTP {status}: {message}"
        name = self._settings.api_key_env
        if status in (401, 403):
            cure = f"set a valid key in the environment variable {name}"
            return Trouble(words if self._key else f"{words} ({name} is not set)", fatal=True, cure=cure)
        if status == 404 and not _UNSUPPORTED.search(message):
            return Trouble(words, fatal=True, cure="check engine.base_url (often …/v1) and engine.model")
        if status == 402 or (status in (400, 429) and _BROKE.search(f"{code} {message}")):
            return Trouble(words, fatal=True, cure="the account has no credit left")
        return Trouble(
            words,
            again=status >= 500 or status in _AGAIN,
            overloaded=status in _OVERLOADED,
            status=status,
            retry_after=retry_after(headers),
        )

    def clean(self, words: str) -> str:
        """The text on one line, with keys masked."""
        return one_line(self._redact.text(words))


def endpoint(url: str, path: str) -> str:
    """The address of `path` below `url`; a query (Azure's api-version) stays at the end."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))


def error_in(data: bytes) -> Any:
    """The body of an error reply, parsed as JSON if possible, else its text."""
    try:
        return bounded_json.loads(data)
    except ValueError:
        return data[:2000].decode("utf-8", "replace")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a refusal asks to wait, at most an hour: Retry-After (seconds or a date), retry-after-ms, or
    the time until an exhausted rate limit is reset. None if the headers have neither.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return min(milliseconds / 1000, LONGEST_S)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value:
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
        number = float(value) if value else -1.0
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _duration(value: str | None) -> float | None:
    """Seconds from "6m0s", "120ms", a number, or a time stamp."""
    seconds = _number(value)
    if seconds is not None:
        return seconds if seconds < 1e8 else max(seconds - time.time(), 0.0)
    parts = _PART.findall(value or "")
    if not value or "".join(number + unit for number, unit in parts) != value.strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
