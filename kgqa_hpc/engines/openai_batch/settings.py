"""Settings of the batch engine."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from kgqa_hpc.engines.openai.settings import ChatSettings, check_address


class OpenAIBatchSettings(ChatSettings):
    """OpenAI's Batch API, or a program that reads and writes its files (`vllm run-batch`)."""

    operational: ClassVar = frozenset(
        {
            "base_url",
            "api_key_env",
            "headers",
            "command",
            "gpus",
            "requests_per_batch",
            "batches",
            "gather_s",
            "poll_s",
            "away_s",
        }
    )
    dangerous: ClassVar = frozenset({"base_url", "api_key_env", "headers", "command"})

    kind: Literal["openai_batch"] = "openai_batch"
    base_url: str = Field("https://api.openai.com/v1", description="Address of the Batch API.")
    command: list[str] | None = Field(
        None,
        description="Command that answers batches in place of a server: it reads {input} and writes "
        "{output}, as vllm run-batch.",
    )
    gpus: int = Field(0, ge=0, description="Number of GPUs of `command`.")
    requests_per_batch: int = Field(
        512,
        ge=1,
        le=50_000,
        description="Largest number of requests in a batch; set it to runtime.shard_size, so that a shard is a batch.",
    )
    batches: int = Field(8, ge=1, le=1000, description="Largest number of a worker's simultaneous batches.")
    gather_s: float = Field(
        5.0, gt=0, description="Seconds without a new request until an incomplete batch is sent."
    )
    poll_s: float = Field(60.0, gt=0, description="Seconds between queries of a batch's state.")
    away_s: float = Field(3600.0, gt=0, description="Seconds for which the server may be unreachable.")

    @property
    def gpus_per_worker(self) -> int:
        return self.gpus if self.command else 0

    @property
    def hosted(self) -> bool:
        return self.command is None

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        return check_address(value)

    @model_validator(mode="after")
    def _files_named(self) -> OpenAIBatchSettings:
        if self.command is not None:
            words = " ".join(self.command)
            if missing := [name for name in ("{input}", "{output}") if name not in words]:
                raise ValueError(f"engine.command must hold {missing[0]}")
        return self
