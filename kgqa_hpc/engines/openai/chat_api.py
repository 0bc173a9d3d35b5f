"""Client of one OpenAI-compatible server: a request, its answer, the meaning of a failure.

A schema is enforced in one of five modes:

grammar      our own grammar as `structural_tag` (vLLM, SGLang, LMDeploy)
gbnf         our own grammar as `grammar`, with lengths (llama.cpp)
json_schema  OpenAI's form, without patterns and lengths
json_object  any JSON
none         the parser, repair and retries

Written over aiohttp for three reasons: a reply is bounded while it is read (the official client unpacks a reply
of any size), 512 requests in flight cost a fraction of the processor time (tools/bench_openai_client.py), and
retries must adapt to the servers and be counted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import orjson

from kgqa_hpc.engines.engine import Redactor, Request, Response, one_line
from kgqa_hpc.engines.grammar import Schema, as_sent, ebnf, remembered, structural_tag
from kgqa_hpc.engines.http import PASSING
from kgqa_hpc.engines.openai import replies
from kgqa_hpc.engines.openai.replies import Dialect, Trouble
from kgqa_hpc.engines.openai.settings import ChatSettings
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.streams import parse_json

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
Mode = Literal["grammar", "gbnf", "json_schema", "json_object", "none"]
VERSION_S = 5.0
JSON = {"Content-Type": "application/json"}
_OVERLOADED = {429, 503, 529}
# Error codes of a provider's content filter: a refusal of this prompt, not a failure of the server.
_FILTERED = re.compile(
    r"content_filter|content_policy|responsibleaipolicy|moderation|flagged|data_inspection_failed",
    re.IGNORECASE,
)
# OpenRouter's message that no provider supports the requested mode.
_UNSUPPORTED = re.compile(r"(support|handle).{0,40}parameter", re.IGNORECASE)
# Refusals of the model's name and of the key with status 400, by OpenRouter, LiteLLM, Mistral, DeepSeek; Gemini, xAI.
_NO_MODEL = re.compile(r"(in|not a )valid model( name| id\b|:)|model not exist", re.IGNORECASE)
_BAD_KEY = re.compile(r"incorrect api key|api key (not valid|not found|expired)", re.IGNORECASE)
_BROKE = re.compile(r"insufficient_quota|insufficient balance|payment required|billing", re.IGNORECASE)


def parameters(schema: Schema) -> dict[Mode, dict[str, Any]]:
    """The parameters that each mode adds to a request. Raises EngineConfigError for a schema without a grammar."""
    form = {"name": "answer", "schema": as_sent(schema), "strict": True}
    return {
        "grammar": {"response_format": structural_tag(schema)},
        "gbnf": {"grammar": ebnf(schema)},
        "json_schema": {"response_format": {"type": "json_schema", "json_schema": form}},
        "json_object": {"response_format": {"type": "json_object"}},
        "none": {},
    }


class ChatApi:
    """The API of one server. Used from one event loop at a time; `close` it there."""

    def __init__(self, url: str, settings: ChatSettings, *, timeout_s: float = 600.0) -> None:
        try:
            import aiohttp
        except ImportError as problem:
            raise EngineConfigError(
                f"the openai engine needs the package aiohttp: {problem}", "pip install 'kgqa_hpc[openai]'"
            ) from None
        self._aiohttp = aiohttp
        self._settings, self._timeout_s = settings, timeout_s
        self._credentials = settings.credentials()
        self._redact = Redactor(settings.secret_names)
        self._session: aiohttp.ClientSession | None = None
        self._temperature, self._passed_through = settings.sampling.temperature, settings.passed_through
        self._parameters = remembered(parameters)
        self.dialect = Dialect(settings.omit)
        self.fingerprint = ""  # `system_fingerprint` in the server's last reply
        self.rest_s = 0.0  # pause that the server requested with its last answer
        self.url = url

    async def ask(self, request: Request, mode: Mode) -> Response:
        """The server's answer. Raises Trouble."""
        while True:
            sent = self.body(request, mode)
            address, options = self.address("chat/completions"), {"data": orjson.dumps(sent), "headers": JSON}
            async with self.reply("POST", address, self._timeout_s, **options) as reply:
                status, data = reply.status, await replies.read_body(reply)
                if status != 200:
                    error = replies.read_error(data)
                else:
                    status, error = replies.inner_error(body := parse_json(data))
                    if not error:
                        return self.answer(request, body, reply.headers)
            words = self.words(error)
            if status in (400, 422) and self.dialect.learns(sent, error, words):
                print(f"openai: {self.url} {words}; sent from now on: {self.dialect.learned}", flush=True)
                continue
            if status in (400, 403, 451) and (refusal := self.refusal(request, error)):
                return refusal
            raise self.trouble(status, error, reply.headers)

    def body(self, request: Request, mode: Mode) -> dict[str, Any]:
        """The JSON body of a request."""
        messages = request.messages
        # In this mode, OpenAI, DeepSeek and others refuse prompts that do not contain the word "json".
        if mode == "json_object" and not any("json" in message["content"].lower() for message in messages):
            last = {**messages[-1], "content": f"{messages[-1]['content']}\n\nAnswer in JSON."}
            messages = (*messages[:-1], last)
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": messages,
            "temperature": request.temperature or self._temperature,
            "seed": request.seed,
            **self._passed_through,
            **({} if request.schema is None else self._parameters(request.schema)[mode]),
        }
        return self.dialect.apply(body, request.max_tokens + self._settings.thought_room)

    def answer(self, request: Request, body: Any, headers: Mapping[str, str]) -> Response:
        """The response in a reply of status 200. Raises ValueError."""
        response = replies.read_answer(request, body)
        if isinstance(mark := body.get("system_fingerprint"), str):
            self.fingerprint = self._clean(mark)[:80]
        self.rest_s = replies.exhausted(headers) or 0.0
        return response if self._settings.keep_thoughts else response._replace(thought="")

    def refusal(self, request: Request, error: Any) -> Response | None:
        """The response for a prompt that the provider's filter refused; None for any other error."""
        words = self.words(error)
        if not _FILTERED.search(f"{replies.error_code(error)} {words}"):
            return None
        return Response(request.id, words, "refusal", error=f"refused: {words}")

    def trouble(self, status: int, error: Any, headers: Mapping[str, str]) -> Trouble:
        """The Trouble for a reply whose status is not 200."""
        message = self.words(error)
        trouble = Trouble(f"{self.url}: HTTP {status}: {message}", status=status)
        if status in (401, 403) or (status == 400 and _BAD_KEY.search(message)):
            names = self._settings.secret_names
            trouble.words += (
                "" if "Authorization" in self._credentials or names[1:] else f" ({names[0]} is not set)"
            )
            trouble.cure = f"set a valid key in the environment variable {' or '.join(names)}"
        elif (
            status == 405
            or (status == 404 and not _UNSUPPORTED.search(message))
            or (status == 400 and _NO_MODEL.search(message))
        ):
            trouble.cure = "check engine.base_url (often …/v1) and engine.model"
        elif 300 <= status < 400:  # not followed, because the key would travel to another server
            trouble.cure = f"it leads to {self._clean(headers.get('location', ''))}: correct engine.base_url"
        elif status == 402 or (
            status in (400, 429) and _BROKE.search(f"{replies.error_code(error)} {message}")
        ):
            trouble.cure = "the account has no credit left"
        else:
            trouble.again, trouble.overloaded = status in PASSING, status in _OVERLOADED
            trouble.retry_after = replies.retry_after(headers)
        trouble.fatal = bool(trouble.cure)
        return trouble

    def words(self, error: Any) -> str:
        """The message of an error, on one line, with keys masked."""
        return self._clean(replies.error_words(error)[:2000])

    def _clean(self, words: str) -> str:
        return one_line(self._redact.text(words))

    def address(self, path: str) -> str:
        """The address of `path` below the server's; a query (Azure's api-version) stays at the end."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))

    @asynccontextmanager
    async def reply(
        self, method: str, address: str, limit_s: float, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The reply to a request, whose body is read inside the block. Raises Trouble for any failure to read it."""
        aiohttp = self._aiohttp
        try:
            async with (
                asyncio.timeout(limit_s),  # the limit also ends a body that arrives byte by byte
                self._open().request(method, address, allow_redirects=False, **options) as reply,
            ):
                yield reply
        except TimeoutError:
            raise Trouble(f"{self.url}: no answer in {limit_s:g} s", again=True, overloaded=True) from None
        except (aiohttp.ClientError, OSError) as problem:
            words = self._clean(f"{self.url}: {problem or type(problem).__name__}")
            unseen, cure = isinstance(problem, aiohttp.ClientConnectorError), ""
            # These failures rarely pass by themselves, so each gets a cure.
            if isinstance(problem, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
                cure = "correct the proxy in http_proxy or https_proxy, or name the host in no_proxy"
            elif isinstance(problem, aiohttp.ClientConnectorDNSError):
                cure = "check the name of the host"
            elif isinstance(problem, aiohttp.ClientConnectorCertificateError):
                cure = "name the certificate that signs it in the environment variable SSL_CERT_FILE"
            elif "WRONG_VERSION_NUMBER" in str(problem):
                cure = f"the server does not speak https: try {self.url.replace('https:', 'http:')}"
            raise Trouble(words, again=True, unseen=unseen, cure=cure) from None
        except ValueError as problem:
            begin = getattr(problem, "doc", "")[:2000]  # the text that is no JSON, such as a page of HTML
            words = self._clean(f"{self.url}: broken answer: {problem} {begin}")
            raise Trouble(words, again=True) from None

    async def json(self, method: str, path: str, limit_s: float, **options: Any) -> Any:
        """The JSON of the reply for a path below the server's address. Raises Trouble."""
        async with self.reply(method, self.address(path), limit_s, **options) as reply:
            data = await replies.read_body(reply)
            if reply.status == 200:
                return parse_json(data)
        raise self.trouble(reply.status, replies.read_error(data), reply.headers)

    def _open(self) -> aiohttp.ClientSession:
        """The session, opened at its first use, within the event loop."""
        if self._session is None:
            aiohttp = self._aiohttp
            loopback = urlsplit(self.url).hostname in {"localhost", "127.0.0.1", "::1"}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(self._timeout_s, 30.0)),
                headers={"Accept-Encoding": "identity", **self._credentials},
                # Requests to this machine must not go through a proxy of the environment.
                trust_env=not loopback,
            )
        return self._session

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in a new event loop, close the connections, and return its result."""
        with asyncio.Runner() as runner:
            try:
                return runner.run(work)
            finally:
                runner.run(self.close())

    async def close(self) -> None:
        """Close the connections to the server; the next request opens new ones, in its own event loop."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def version(self) -> str:
        """The server's version, from the paths of vLLM, SGLang or llama.cpp; empty if it has none of them."""
        root = urlsplit(self.url)
        for path, key in (("/version", "version"), ("/props", "build_info"), ("/get_server_info", "version")):
            try:
                async with self.reply("GET", f"{root.scheme}://{root.netloc}{path}", VERSION_S) as reply:
                    body = parse_json(await replies.read_body(reply))
            except Trouble:
                continue
            if isinstance(body, dict) and isinstance(value := body.get(key), str) and value:
                return self._clean(value)[:80]
        return ""
