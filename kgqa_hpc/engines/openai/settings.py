"""Settings of the engines that ask a server of the chat API: those of each request, and those of the live server."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from kgqa_hpc.engines.engine import EngineSettings, Generation
from kgqa_hpc.engines.thinking import THINKING_TOKENS, recorded_sampling, sampling_of
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Package

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_SECRET = re.compile(r"key|auth|token|secret|cookie", re.IGNORECASE)


def check_address(url: str) -> str:
    """A server's address, as it is. Raises ValueError for anything else, and for one that holds a key."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise ValueError("must be an address such as http://host:8000/v1")
    if parts.username or parts.password or "key=" in parts.query:
        raise ValueError("must not hold a key: the key comes from the environment (api_key_env)")
    return url


class ChatSettings(EngineSettings):
    """How a model of the chat API is asked. The key comes from the environment only."""

    package = Package("aiohttp", "kgqa_hpc[openai]")

    model: str = Field(description="The model's name on the server.")
    api_key_env: str = Field(
        "OPENAI_API_KEY", description="Name of the variable that holds the key; may be unset."
    )
    headers: dict[str, str] | None = Field(
        None, description="Sent with each request; $NAME is a variable of the environment."
    )
    structured: Literal["auto", "grammar", "json_schema", "json_object", "none"] = Field(
        "auto", description="How the schema is enforced; auto finds out what the server does."
    )
    omit: list[str] = Field(
        default_factory=list, description="Parameters that are not sent: temperature, seed, max_tokens."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="For the model's chat template, e.g. {enable_thinking: false}."
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="How long a thinking model may think before it answers."
    )
    thinking: bool | None = Field(
        None, description="Tell the chat template whether to think, and sample for it."
    )
    thinking_tokens: int | None = Field(
        None,
        ge=0,
        description="Tokens of a thought, beside those of the answer; default: 8192 where it thinks.",
    )
    keep_thoughts: bool = Field(False, description="Keep thoughts, in the column `thoughts` of the dataset.")
    generation: Generation | None = Field(None, description="How tokens are chosen.")
    extra_body: dict[str, Any] = Field(
        default_factory=dict, description="Sent along with each request, for options of one server."
    )

    @property
    def secret_names(self) -> tuple[str, ...]:
        return (
            self.api_key_env,
            *(value[1:] for value in (self.headers or {}).values() if value.startswith("$")),
        )

    def header_values(self) -> dict[str, str]:
        """The headers, variables replaced. Raises EngineConfigError for a variable that is not set."""
        values = {}
        for name, value in (self.headers or {}).items():
            if value.startswith("$"):
                variable = value[1:]
                value = os.environ.get(variable, "").strip()
                if not value:
                    raise EngineConfigError(
                        f"engine.headers: {variable} is not set", f"export {variable}=KEY"
                    )
            values[name] = value
        return values

    @property
    def thought_room(self) -> int:
        """Tokens that a thought may take."""
        if self.thinking_tokens is not None:
            return self.thinking_tokens
        return THINKING_TOKENS if self.thinking or self.reasoning_effort not in (None, "none") else 0

    @property
    def sampling(self) -> tuple[float, Mapping[str, Any]]:
        """Temperature in place of a prompt's 0, and other parameters."""
        return sampling_of(self.model, self.thinking, self.generation)

    @property
    def sampling_record(self) -> dict[str, Any]:
        """What the table of families adds, for the provenance."""
        return recorded_sampling(self.model, self.thinking, self.generation)

    @property
    def passed_through(self) -> dict[str, Any]:
        """What goes into the body of each request besides the messages and what the engine decides."""
        body = {**self.extra_body, **self.sampling[1]}
        kwargs = {} if self.thinking is None else {"enable_thinking": self.thinking}
        if kwargs | (self.chat_template_kwargs or {}):
            body["chat_template_kwargs"] = kwargs | (self.chat_template_kwargs or {})
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        return body

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

    @field_validator("omit")
    @classmethod
    def _may_be_omitted(cls, value: list[str]) -> list[str]:
        if reserved := sorted({"model", "messages", "response_format", "stream"} & set(value)):
            raise ValueError(f"{reserved[0]} cannot be left out")
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
    def _ours(self) -> ChatSettings:
        ours = {"model", "messages", "stream", "n", "response_format", "seed", "temperature", "max_tokens"}
        if reserved := sorted(ours & self.passed_through.keys()):
            raise ValueError(f"{reserved[0]} is set by the engine or the prompt and cannot be passed through")
        return self


class OpenAISettings(ChatSettings):
    """Any OpenAI-compatible server."""

    operational: ClassVar = frozenset(
        {
            "base_url",
            "api_key_env",
            "concurrency",
            "timeout_s",
            "max_retries",
            "command",
            "gpus",
            "health_path",
            "start_timeout_s",
            "headers",
            "stage_to",
            "sequence_tokens",
        }
    )
    dangerous: ClassVar = frozenset({"base_url", "api_key_env", "command", "headers"})

    kind: Literal["openai"] = "openai"
    base_url: str | list[str] = Field(
        "http://127.0.0.1:8000/v1", description="One or several servers of one model."
    )
    concurrency: int = Field(
        64,
        ge=1,
        le=4096,
        description="Upper bound of requests in flight per server; adapts below it. {batch} takes its place.",
    )
    timeout_s: float = Field(600.0, gt=0, description="Seconds for one answer.")
    max_retries: int = Field(6, ge=0, description="Of 429, 5xx and broken connections, with back-off.")
    command: list[str] | None = Field(
        None,
        description="Start and supervise this server; {port}, {model}, {name}, {gpus} and {batch} are filled in.",
    )
    gpus: int = Field(0, ge=0, description="GPUs of its own for the server that `command` starts.")
    stage_to: str | None = Field(
        None, description="Copy the {model} of `command` here first, once per node: $TMPDIR, a local disk."
    )
    revision: str | None = Field(None, description="Commit of the hub repository of {model}.")
    sequence_tokens: int | None = Field(
        None,
        ge=64,
        description="Tokens that a running sequence has for itself; decides {batch}. Default: 600.",
    )
    health_path: str = Field("/health", description="Answers 200 when the server of `command` is ready.")
    start_timeout_s: float = Field(900.0, gt=0, description="Seconds a server may take, or be away.")

    def fills(self, word: str) -> bool:
        """Whether the command has {word}."""
        return any(f"{{{word}}}" in part for part in self.command or ())

    @property
    def gpus_per_worker(self) -> int:
        return self.gpus if self.command else 0

    @property
    def hosted(self) -> bool:
        return self.command is None

    @field_validator("base_url")
    @classmethod
    def _plain_addresses(cls, value: str | list[str]) -> str | list[str]:
        for url in [value] if isinstance(value, str) else value:
            check_address(url)
        if not value:
            raise ValueError("must name at least one server")
        return value

    @model_validator(mode="after")
    def _has_a_model_to_stage(self) -> OpenAISettings:
        if (self.stage_to or self.revision) and not self.fills("model"):
            name = "stage_to" if self.stage_to else "revision"
            raise ValueError(f"{name} needs {{model}} in `command`: a server elsewhere has its own files")
        return self

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        """The {model} of a command that is a folder beside the configuration becomes an absolute path."""
        model, command = data.get("model"), data.get("command")
        named = isinstance(command, list) and any("{model}" in str(word) for word in command)
        if named and isinstance(model, str) and model and (base / Path(model).expanduser()).is_dir():
            return {**data, "model": str((base / Path(model).expanduser()).resolve())}
        return {**data}
