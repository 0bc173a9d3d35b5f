"""One question to one OpenAI-compatible server, and what its failure means."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal
from urllib.parse import urlsplit

from kgqa_hpc.engines.config import OpenAIEngineConfig
from kgqa_hpc.engines.engine import Finish, Request, Response
from kgqa_hpc.errors import EngineConfigError

Mode = Literal["json_schema", "json_object", "none"]

_OVERLOADED = {429, 503, 529}
_AGAIN = {408, 409, 425, 429}
_LONGEST_WORDS = 300
_FINISH: dict[Any, Finish] = {"stop": "stop", "length": "length"}


class Trouble(Exception):
    """No answer. `again`: another try may help; `fatal`: no request will ever be answered."""

    def __init__(
        self,
        words: str,
        *,
        again: bool = False,
        fatal: bool = False,
        overloaded: bool = False,
        retry_after: float | None = None,
        cure: str = "",
    ) -> None:
        super().__init__(words)
        self.again, self.fatal, self.overloaded = again, fatal, overloaded
        self.retry_after, self.cure = retry_after, cure


class ChatApi:
    """The chat endpoint of one server, through the official client."""

    def __init__(self, url: str, key: str, config: OpenAIEngineConfig) -> None:
        try:
            import openai
        except ImportError:
            raise EngineConfigError(
                "the openai engine needs the package openai", "pip install 'kgqa_hpc[openai]'"
            ) from None
        self._openai = openai
        self._config = config
        self._key = key
        self._limit_key = "max_tokens"  # newer hosted models know only max_completion_tokens
        self.url = url
        loopback = urlsplit(url).hostname in {"localhost", "127.0.0.1", "::1"}
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=key or "none",
            max_retries=0,  # ours are adaptive and counted
            timeout=config.timeout_s,
            # A proxy of the environment must not get between us and our own machine.
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if loopback else None,
        )

    async def ask(self, request: Request, mode: Mode) -> Response:
        """The server's answer. Raises Trouble."""
        openai = self._openai
        try:
            async with asyncio.timeout(self._config.timeout_s):  # also for a body that trickles for ever
                raw = await self._client.chat.completions.with_raw_response.create(
                    **self._body(request, mode)
                )
                body = json.loads(raw.http_response.content)
        except openai.APIStatusError as problem:
            if self._learns_from(problem.status_code, str(problem.message)):
                return await self.ask(request, mode)
            raise self._trouble(problem.status_code, problem) from None
        except (TimeoutError, openai.APITimeoutError):
            words = f"{self.url}: no answer within {self._config.timeout_s:g} s"
            raise Trouble(words, again=True, overloaded=True) from None
        except openai.APIConnectionError as problem:
            words = f"{self.url}: {problem.__cause__ or problem}"
            raise Trouble(self._clean(words), again=True) from None
        except (ValueError, openai.OpenAIError) as problem:
            raise Trouble(self._clean(f"{self.url}: broken answer: {problem}"), again=True) from None
        return self._read(request, body)

    async def obeys(self, request: Request, mode: Mode) -> bool:
        """Whether a server that accepts the mode also keeps to it: the answer is JSON."""
        response = await self.ask(request, mode)
        if mode == "none" or response.finish != "stop":
            return True  # nothing to keep to, or cut off before it could be seen
        try:
            return isinstance(json.loads(response.text), dict)
        except ValueError:
            return False

    def _body(self, request: Request, mode: Mode) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._config.model,
            "messages": list(request.messages),
            "temperature": request.temperature,
            "seed": request.seed,
            self._limit_key: request.max_tokens,
        }
        if request.schema is not None and mode == "json_schema":
            form = {"name": "answer", "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif request.schema is not None and mode == "json_object":
            body["response_format"] = {"type": "json_object"}
        if self._config.extra_body:
            body["extra_body"] = self._config.extra_body
        return body

    def _learns_from(self, status: int, words: str) -> bool:
        if status == 400 and self._limit_key == "max_tokens" and "max_completion_tokens" in words:
            self._limit_key = "max_completion_tokens"
            return True
        return False

    def _trouble(self, status: int, problem: Any) -> Trouble:
        words = self._clean(f"{self.url}: HTTP {status}: {problem.message}")
        name = self._config.api_key_env
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
            retry_after=_seconds(problem.response.headers.get("retry-after")),
        )

    def _read(self, request: Request, body: Any) -> Response:
        try:
            choice = body["choices"][0]
            message = choice["message"]
            usage = body.get("usage") or {}
            details = usage.get("prompt_tokens_details") or {}
            text = message.get("content")
            finish = _FINISH.get(choice.get("finish_reason"), "error")
            why = message.get("refusal") or choice.get("finish_reason")
            return Response(
                request.id,
                text if isinstance(text, str) else "",
                finish,
                int(usage.get("prompt_tokens") or 0),
                int(usage.get("completion_tokens") or 0),
                int(details.get("cached_tokens") or 0),
                error=self._clean(f"the model did not answer: {why}") if finish == "error" else None,
            )
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            words = self._clean(f"{self.url}: an answer without a choice: {body}")
            raise Trouble(words, again=True) from None

    def _clean(self, words: str) -> str:
        """One line without the key."""
        if self._key:
            words = words.replace(self._key, "***")
        return " ".join(words.split())[:_LONGEST_WORDS]


def _seconds(value: str | None) -> float | None:
    """Of a Retry-After header; dates are left to the back-off."""
    try:
        return max(float(value), 0.0) if value else None
    except ValueError:
        return None
