"""HTTP requests with a limit on their total time, and the base class of engines that post JSON to a server.

The timeout of `urllib` applies to each read: a server that sends a byte now and then, endless headers or endless
`100 Continue` blocks the caller forever. Here a timer closes the connection at the limit.

A subclass of `HttpEngine` defines `request` and `response`:

    class Mine(HttpEngine):
        name = "mine"
        Settings = MineSettings

        def request(self, request): return "/api/chat", {"messages": list(request.messages)}
        def response(self, body): return body["message"]["content"]

Requests run in `concurrency` threads. A request that may have failed by the server's fault (no connection, time-out,
408, 429, 5xx) is repeated with growing pauses, or after the server's `Retry-After`. A redirect or 401, 403, 404 or 405,
which each request would meet, ends the engine; another refusal, or a body that `response` cannot read, fails the
request.
"""

import json
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Redactor, Request, Response, one_line
from kgqa_hpc.engines.mailbox import PoolEngine
from kgqa_hpc.engines.openai.replies import retry_after
from kgqa_hpc.errors import EngineConfigError

LARGEST = 16 * 2**20  # largest reply in bytes
# HTTP statuses of requests that may succeed when they are repeated.
PASSING = (408, 409, 425, 429, *range(500, 600))
LONGEST_PAUSE_S = 60.0  # longest pause that a server may ask for
WORDS = 4000  # bytes of a refusal that are read


class TooLarge(ValueError):
    """An answer above the limit of its bytes."""


def answer_within(
    request: urllib.request.Request, seconds: float, largest: int, *, redirects: bool = True
) -> bytes:
    """The body of the answer.

    Without `redirects` none is followed: a key in the headers would travel to another server. Raises TooLarge above
    `largest` bytes, HTTPException, and OSError, also at the time limit. An HTTPError has the server's words as a note.
    """
    handler = _Handler()
    opener = urllib.request.build_opener(handler, *([] if redirects else [_NoRedirect()]))
    timer = threading.Timer(seconds, handler.cut)
    timer.daemon = True
    timer.start()
    try:
        with opener.open(request, timeout=seconds) as answer:
            body: bytes = answer.read(largest + 1)
        if handler.over:  # the body may be incomplete
            raise TimeoutError(f"no whole answer within {seconds:g} s")
    except urllib.error.HTTPError as refusal:
        with suppress(OSError, HTTPException):
            refusal.add_note(refusal.read(WORDS).decode("utf-8", "replace"))
        raise
    finally:
        timer.cancel()
        handler.close_sockets()
    if len(body) > largest:
        raise TooLarge(f"an answer of more than {largest:,} bytes")
    return body


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens both kinds of connections; keeps duplicated handles of all sockets, so that a timer can shut them down."""

    def __init__(self) -> None:
        super().__init__()
        self.over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    def do_open(self, http_class: Any, req: Any, **options: Any) -> Any:
        def connect(host: str, **keys: Any) -> Any:
            connection = http_class(host, **keys)
            # Before the TLS handshake, which a server may delay too.
            connection._create_connection = partial(self._connected, connection._create_connection)
            return connection

        return super().do_open(connect, req, **options)

    def _connected(
        self, connect: Callable[..., socket.socket], *arguments: Any, **keys: Any
    ) -> socket.socket:
        connected = connect(*arguments, **keys)
        with self._lock:
            if self.over:
                connected.close()
                raise TimeoutError("the time for an answer is over")
            self._sockets.append(connected.dup())
        return connected

    def cut(self) -> None:
        with self._lock:
            self.over = True
            for connected in self._sockets:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def close_sockets(self) -> None:
        with self._lock:
            for connected in self._sockets:
                connected.close()
            self._sockets.clear()


class HttpSettings(EngineSettings):
    """Keys of every engine that posts to a server."""

    operational: ClassVar = frozenset({"base_url", "api_key_env", "concurrency", "timeout", "tries", "pause"})
    dangerous: ClassVar = frozenset({"base_url", "api_key_env"})

    base_url: str = Field(pattern=r"^https?://", description="Address of the server.")
    model: str = Field("", description="Name of the model, for the server and the provenance.")
    api_key_env: str | None = Field(None, description="Environment variable that holds the key.")
    concurrency: int = Field(8, ge=1, description="Number of simultaneous requests.")
    timeout: float = Field(
        120.0, gt=0, description="Seconds after which a request without an answer is repeated."
    )
    tries: int = Field(
        5, ge=1, description="Number of attempts for a request that the server does not answer."
    )
    pause: float = Field(1.0, gt=0, description="Seconds before the second attempt; doubled each time.")

    @property
    def secret_names(self) -> tuple[str, ...]:
        return (self.api_key_env,) if self.api_key_env else ()


class HttpEngine(PoolEngine):
    """Base of the engines that ask a server. Raises EngineConfigError when the key's variable is not set."""

    name: ClassVar[str]
    Settings: ClassVar[type[HttpSettings]] = HttpSettings
    version: ClassVar[str] = "1"

    ends_at = (EngineConfigError,)

    def __init__(self, settings: Any, memory: Path | None = None) -> None:
        super().__init__(settings.concurrency)
        self.settings = settings
        self._headers = {"Content-Type": "application/json", **self.headers()}
        self.info = EngineInfo(
            self.name,
            self.version,
            settings.model,
            max_batch=settings.concurrency,
            settings=settings.recorded(),
        )

    def request(self, request: Request) -> tuple[str, Mapping[str, Any]]:
        """The path after `base_url`, and the JSON to post."""
        raise TypeError(f"engine {self.name} has no method request()")

    def response(self, body: Any) -> str | Response:
        """The answer's text from the server's JSON; or a Response (without id), which also gives tokens and finish."""
        raise TypeError(f"engine {self.name} has no method response()")

    def headers(self) -> dict[str, str]:
        """Headers of each request; by default the key as a bearer token."""
        name = self.settings.api_key_env
        if name is None:
            return {}
        if not (key := os.environ.get(name, "").strip()):
            raise EngineConfigError(f"engine.api_key_env: {name} is not set", f"export {name}=KEY")
        return {"Authorization": f"Bearer {key}"}

    def answer(self, request: Request) -> Response:
        path, data = self.request(request)
        body = self._posted(path, json.dumps(data).encode())
        if body is None:
            return Response(request.id, "", "abort")
        answer = self.response(json.loads(body))
        if isinstance(answer, Response):
            return answer._replace(id=request.id)
        if not isinstance(answer, str):
            raise TypeError(
                f"engine {self.name} reads an answer as {type(answer).__name__}, which is no text"
            )
        return Response(request.id, answer, "stop")

    def _posted(self, path: str, data: bytes) -> bytes | None:
        """The body of the reply; None if the work was cancelled. Raises the exception of the last attempt."""
        url, pause = self.settings.base_url.rstrip("/") + path, 0.0
        for number in range(self.settings.tries):
            if self.stopped.wait(pause):
                return None
            pause = self.settings.pause * 2**number
            try:
                request = urllib.request.Request(url, data, self._headers)
                return answer_within(request, self.settings.timeout, LARGEST, redirects=False)
            except urllib.error.HTTPError as refusal:
                self._judge(url, refusal)
                if refusal.code not in PASSING or number + 1 == self.settings.tries:
                    raise
                headers = {name.lower(): value for name, value in refusal.headers.items()}
                if (seconds := retry_after(headers)) is not None:
                    pause = min(seconds, LONGEST_PAUSE_S)
            except (OSError, HTTPException):
                if number + 1 == self.settings.tries:
                    raise
        return None

    def _judge(self, url: str, refusal: urllib.error.HTTPError) -> None:
        """Add the server's words to its refusal. Raises EngineConfigError for one that every request would meet."""
        words = one_line(
            Redactor(self.settings.secret_names).text("".join(getattr(refusal, "__notes__", ())))
        )
        refusal.msg += f": {words}" if words else ""
        if refusal.code in (401, 403):
            cure = f"set a valid key: engine.api_key_env is {self.settings.api_key_env or 'not set'}"
        elif refusal.code in (404, 405) or 300 <= refusal.code < 400:
            cure = "check engine.base_url and engine.model"
        else:
            return
        raise EngineConfigError(f"{url}: {refusal}", cure)
