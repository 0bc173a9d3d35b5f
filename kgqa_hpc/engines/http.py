"""Base class of engines that post JSON to a server: a subclass defines `request` and `response`.

    class Mine(HttpEngine):
        name = "mine"
        Settings = MineSettings

        def request(self, request): return "/api/chat", {"messages": list(request.messages)}
        def response(self, body): return body["message"]["content"]

Requests run in `concurrency` threads. A request that may have failed by the server's fault (no connection, time-out,
408, 429, 5xx) is repeated with growing pauses; a refusal, or a body that `response` cannot read, fails the request.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Request, Response
from kgqa_hpc.engines.mailbox import PoolEngine
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.services import PASSING, answer_within

LARGEST = 16 * 2**20  # largest reply in bytes


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
        url = self.settings.base_url.rstrip("/") + path
        for number in range(self.settings.tries):
            if self.stopped.wait(self.settings.pause * 2 ** (number - 1) if number else 0):
                return None
            try:
                request = urllib.request.Request(url, data, self._headers)
                return answer_within(request, self.settings.timeout, LARGEST, redirects=False)
            except (OSError, HTTPException) as problem:
                again = not isinstance(problem, urllib.error.HTTPError) or problem.code in PASSING
                if not again or number + 1 == self.settings.tries:
                    raise
        return None
