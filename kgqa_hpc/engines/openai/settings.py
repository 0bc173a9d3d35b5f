"""Settings of the engines with OpenAI's API: those of each request, and of the live server."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import Field, field_validator, model_validator

from kgqa_hpc.engines.engine import EngineSettings
from kgqa_hpc.engines.models import THINKING_TOKENS, Generation, Sampling, sampling_of, with_model_path
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Package

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_RESERVED = {"model", "messages", "stream", "n", "response_format", "seed", "temperature", "max_tokens"}
_SECRET = re.compile(r"key|auth|token|secret|cookie", re.IGNORECASE)


class ChatSettings(EngineSettings):
    """Settings of the requests to a chat API. The key comes from the environment only."""

    package = Package("aiohttp", "kgqa_hpc[openai]")

    model: str = Field(description="The model's name on the server.")
    api_key_env: str = Field("OPENAI_API_KEY", description="Environment variable with the API key, if any.")
    headers: dict[str, str] | None = Field(
        None, description="Headers of each request; $NAME is an environment variable."
    )
    structured: Literal["auto", "grammar", "json_schema", "json_object", "none"] = Field(
        "auto", description="How the server enforces the schema; auto: the strongest mode that works."
    )
    omit: list[Literal["temperature", "seed", "max_tokens"]] = Field(
        default_factory=list, description="Parameters that requests leave out."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="Variables of the chat template, e.g. {enable_thinking: false}."
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="Length of a thinking model's thoughts."
    )
    thinking: bool | None = Field(
        None, description="Thinking on or off in the chat template, with the model family's sampling."
    )
    thinking_tokens: int | None = Field(
        None,
        ge=0,
        description="Maximum tokens of a thought, besides those of the answer; default: 8192 for a "
        "thinking model.",
    )
    keep_thoughts: bool = Field(False, description="Keep thoughts in the column `thoughts`.")
    generation: Generation | None = Field(None, description="Sampling parameters.")
    extra_body: dict[str, Any] = Field(
        default_factory=dict, description="Further parameters of each request, sent unchanged."
    )

    # Subclasses define these fields with their descriptions.
    base_url: str | list[str]
    command: list[str] | None = None
    gpus: int = Field(0, ge=0, description="GPUs for the server of `command`.")

    @property
    def urls(self) -> list[str]:
        return [self.base_url] if isinstance(self.base_url, str) else self.base_url

    @property
    def gpus_per_worker(self) -> int:
        return self.gpus if self.command else 0

    @property
    def hosted(self) -> bool:
        return self.command is None

    @property
    def secret_names(self) -> tuple[str, ...]:
        variables = [value[1:] for value in (self.headers or {}).values() if value.startswith("$")]
        return (self.api_key_env, *variables)

    def credentials(self) -> dict[str, str]:
        """The authorization header and the configured headers.

        Raises EngineConfigError for a variable that is not set or not one line.
        """
        keys = {name: os.environ.get(name, "").strip() for name in self.secret_names}
        if bad := next((name for name, key in keys.items() if not key.isprintable()), None):
            raise EngineConfigError(f"{bad} holds line breaks or control characters", f"export {bad}=KEY")
        key = keys[self.api_key_env]
        values = {"Authorization": f"Bearer {key}"} if key else {}
        for name, value in (self.headers or {}).items():
            values[name] = keys[value[1:]] if value.startswith("$") else value
            if not values[name] and value.startswith("$"):
                raise EngineConfigError(f"engine.headers: {value[1:]} is not set", f"export {value[1:]}=KEY")
        return values

    @property
    def thought_room(self) -> int:
        """Largest number of tokens of a thought."""
        if self.thinking_tokens is not None:
            return self.thinking_tokens
        return THINKING_TOKENS if self.thinking or self.reasoning_effort not in (None, "none") else 0

    @property
    def sampling(self) -> Sampling:
        return sampling_of(self.model, self.thinking, self.generation)

    @property
    def passed_through(self) -> dict[str, Any]:
        """Parameters from the settings that each request carries unchanged."""
        body = {**self.extra_body, **self.sampling.values}
        kwargs = {} if self.thinking is None else {"enable_thinking": self.thinking}
        if kwargs | (self.chat_template_kwargs or {}):
            body["chat_template_kwargs"] = kwargs | (self.chat_template_kwargs or {})
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        return body

    @field_validator("base_url")
    @classmethod
    def _plain_addresses(cls, value: str | list[str]) -> str | list[str]:
        if not value:
            raise ValueError("must name at least one server")
        for url in [value] if isinstance(value, str) else value:
            try:
                parts = urlsplit(url)
                good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
            except ValueError:
                good = False
            if not good:
                raise ValueError("must be an address such as http://host:8000/v1")
            if parts.username or parts.password or _SECRET.search(parts.query):
                raise ValueError("must not hold a key: the key comes from the environment (api_key_env)")
        return value

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        for name, text in (value or {}).items():
            if not _HEADER.fullmatch(name) or not text.isprintable():
                raise ValueError("must be names and printable values of HTTP headers")
            if text.startswith("$") and not _VARIABLE.fullmatch(text[1:]):
                raise ValueError(f"{name}: must be $NAME of an environment variable, in capitals")
            if _SECRET.search(name) and not text.startswith("$"):
                raise ValueError(f"{name}: must not hold a key; write $NAME of an environment variable")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _a_name(cls, value: str) -> str:
        if not _VARIABLE.fullmatch(value):
            raise ValueError(
                "must be the NAME of an environment variable, in capitals, such as OPENAI_API_KEY, "
                "never the key itself"
            )
        return value

    @model_validator(mode="after")
    def _nothing_reserved(self) -> ChatSettings:
        if reserved := sorted(_RESERVED & self.passed_through.keys()):
            raise ValueError(f"{reserved[0]} is set by the engine or the prompt and cannot be passed through")
        try:
            orjson.dumps(self.passed_through)
        except TypeError as problem:
            raise ValueError(f"a parameter cannot be sent: {problem}") from None
        return self


class OpenAISettings(ChatSettings):
    """Settings of a server with OpenAI's chat API."""

    operational: ClassVar = frozenset({
        "base_url", "api_key_env", "concurrency", "timeout_s", "max_retries", "command", "gpus",
        "health_path", "start_timeout_s", "headers", "stage_to", "sequence_tokens"
    })  # fmt: skip
    dangerous: ClassVar = frozenset({"base_url", "api_key_env", "command", "headers"})

    kind: Literal["openai"] = "openai"
    base_url: str | list[str] = Field(
        "http://127.0.0.1:8000/v1", description="Address of the server, or of several with the same model."
    )
    concurrency: int = Field(
        64,
        ge=1,
        le=4096,
        description="Maximum requests in flight per server; the engine adapts below it. With {batch} in "
        "`command`, the batch.",
    )
    timeout_s: float = Field(600.0, gt=0, description="Seconds to wait for an answer.")
    max_retries: int = Field(
        6, ge=0, description="Repetitions after 429, 5xx and broken connections, with back-off."
    )
    command: list[str] | None = Field(
        None,
        description="Start and supervise this server; {port}, {model}, {name}, {gpus} and {batch} are "
        "filled in.",
    )
    stage_to: str | None = Field(
        None, description="Folder on the node's own disk, such as $TMPDIR, to which {model} is copied once."
    )
    revision: str | None = Field(
        None, description="Commit of the hub repository of {model}, which pins the weights."
    )
    sequence_tokens: int | None = Field(
        None,
        ge=64,
        description="Expected tokens of a sequence outside the prefix cache; determines {batch}. Default: 600.",
    )
    health_path: str = Field(
        "/health", description="Path that gives status 200 when the server of `command` is ready."
    )
    start_timeout_s: float = Field(
        900.0, gt=0, description="Seconds that a server may take to start, or be unreachable."
    )

    def fills(self, word: str) -> bool:
        """Whether the command contains {word}."""
        return any(f"{{{word}}}" in part for part in self.command or ())

    @model_validator(mode="after")
    def _has_a_model_to_stage(self) -> OpenAISettings:
        if (self.stage_to or self.revision) and not self.fills("model"):
            name = "stage_to" if self.stage_to else "revision"
            raise ValueError(f"{name} needs {{model}} in `command`: a server elsewhere has its own files")
        return self

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        """`data` with an absolute path if the {model} of `command` is a folder beside the configuration."""
        command = data.get("command")
        starts = isinstance(command, list) and any("{model}" in str(word) for word in command)
        return with_model_path(data, base) if starts else {**data}
