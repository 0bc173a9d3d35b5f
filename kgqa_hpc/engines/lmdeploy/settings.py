"""Settings of the LMDeploy engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from kgqa_hpc.engines.engine import EngineSettings, Generation, with_model_path
from kgqa_hpc.engines.models import THINKING_TOKENS
from kgqa_hpc.settings import Package

# Settings of LMDeploy that spread a model over more GPUs than `tp`; they are refused.
_MORE_CARDS = {"dp", "ep", "cp", "nnodes", "outer_dp_size", "attn_dp_size", "mlp_dp_size"} | {
    "attn_tp_size", "mlp_tp_size", "moe_tp_size", "attn_cp_size", "devices"
}  # fmt: skip


class LmdeploySettings(EngineSettings):
    """LMDeploy inside the engine process, with one GPU (or `tp` of them) per worker."""

    operational: ClassVar = frozenset({
        "max_batch_size", "cache_max_entry_count", "max_prefill_token_num", "sequence_tokens", "tp",
        "stage_to"
    })  # fmt: skip
    retired: ClassVar = frozenset({"wave"})
    package = Package("lmdeploy", "kgqa_hpc[lmdeploy]")

    kind: Literal["lmdeploy"] = "lmdeploy"
    model: str = Field(description="Local folder or hub id of the model.")
    revision: str | None = Field(None, description="Commit of the hub repository, which pins the weights.")
    stage_to: str | None = Field(
        None,
        description="Folder on the node's own disk, such as $TMPDIR, to which the model is copied once.",
    )
    backend: Literal["turbomind", "pytorch"] = Field(
        "turbomind",
        description="Inference engine of LMDeploy; there is no fallback.",
    )
    model_format: Literal["hf", "awq", "gptq", "compressed-tensors", "fp8", "mxfp4"] | None = Field(
        None, description="Format of the weights; default: that of the model's configuration."
    )
    quant_policy: Literal[0, 4, 8] = Field(
        0, description="Bits of the KV cache: 4 as published, 0 full precision (recommended)."
    )
    session_len: int = Field(8192, ge=256, description="Tokens of the longest prompt with its answer.")
    max_batch_size: int | None = Field(
        None, ge=1, description="Simultaneous sequences; default: as many as the KV cache holds."
    )
    sequence_tokens: int | None = Field(
        None,
        ge=64,
        description="Tokens of a sequence outside the prefix cache, which decide the batch; "
        "default: 600, 1700 without prefix caching.",
    )
    cache_max_entry_count: float = Field(
        0.8, gt=0, lt=1, description="Share of the free GPU memory for the KV cache."
    )
    max_prefill_token_num: int | None = Field(
        None,
        ge=64,
        description="Prompt tokens processed at once; default: 8192 as in LMDeploy. 2048 suits cards of 48 GB.",
    )
    enable_prefix_caching: bool = Field(True, description="Prefix caching; can change greedy answers.")
    structured: Literal["auto", "json_schema", "none"] | None = Field(
        None,
        description="Enforce the schema while decoding, with auto and json_schema; default: auto.",
    )
    thinking: bool | Literal["qwen3", "gpt-oss"] | None = Field(
        None,
        description="Let the model think in its own format before the JSON answer; false: do not.",
    )
    thinking_tokens: int = Field(
        THINKING_TOKENS,
        ge=1,
        description="Maximum tokens of a thought, besides those of prompt and answer.",
    )
    keep_thoughts: bool = Field(False, description="Keep thoughts in the column `thoughts`.")
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="Variables of the chat template, e.g. {enable_thinking: false}."
    )
    reasoning_effort: Literal["low", "medium", "high"] | None = Field(
        None, description="Length of a model's thoughts (gpt-oss)."
    )
    generation: Generation | None = Field(None, description="Sampling parameters.")
    extra: dict[str, Any] | None = Field(
        None, description="Further engine settings of LMDeploy, passed on unchanged."
    )
    tp: int = Field(1, ge=1, description="GPUs per worker (tensor parallelism).")

    def with_batch(self, size: int) -> LmdeploySettings:
        return self.model_copy(update={"max_batch_size": size})

    @property
    def gpus_per_worker(self) -> int:
        return self.tp

    @property
    def thought_room(self) -> int:
        """Largest number of tokens of a thought."""
        return self.thinking_tokens if self.thinking else 0

    @property
    def template_kwargs(self) -> dict[str, Any]:
        """Variables of the chat template, with `enable_thinking` unless it is set there."""
        arguments = self.chat_template_kwargs or {}
        return arguments if self.thinking is None else {"enable_thinking": bool(self.thinking), **arguments}

    @property
    def secret_names(self) -> tuple[str, ...]:
        return ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")

    @property
    def guided(self) -> bool:
        """Whether the schema is enforced while decoding."""
        return self.structured != "none"

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        return with_model_path(data, base)

    @field_validator("model")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must name a model folder or hub id")
        return value

    @model_validator(mode="after")
    def _fits_the_backend(self) -> LmdeploySettings:
        # LMDeploy's PyTorch backend reads the format from the model; FP8 is the only one that it can make
        # (lmdeploy/pytorch/config.py, _patch_quantization_config).
        if self.backend == "pytorch" and self.model_format not in (None, "fp8"):
            raise ValueError(
                f"model_format {self.model_format} is TurboMind's; leave it out: backend pytorch reads the "
                "format from the model's config.json"
            )
        extra = self.extra or {}
        for name in sorted(_MORE_CARDS & extra.keys()):
            if extra[name] not in (None, 1):
                raise ValueError(
                    f"extra.{name}: a worker takes the `tp` GPUs of one node; leave it out, or serve the model with "
                    "kind: openai and `command`"
                )
        # Each worker would start its own Ray, whose object store takes 30 % of the node's memory
        # (lmdeploy/pytorch/ray.py); its other way, mp, is said to hang (pytorch/engine/executor/__init__.py).
        if self.backend == "pytorch" and self.tp > 1 and "distributed_executor_backend" not in extra:
            raise ValueError(
                f"tp: {self.tp} on the PyTorch backend starts a Ray cluster for each worker: take backend turbomind or "
                "kind: openai with `command`, or say so with extra: {distributed_executor_backend: mp} (or ray)"
            )
        ours = {name for name in type(self).model_fields if name not in ("kind", "extra")}
        if reserved := sorted(ours & extra.keys()):
            raise ValueError(f"extra.{reserved[0]} is a setting of its own, write it one level up")
        if reserved := sorted({"max_new_tokens", "temperature", "do_sample", "random_seed", "response_format"}
                           & (self.generation.values() if self.generation else {}).keys()):  # fmt: skip
            raise ValueError(f"generation.extra.{reserved[0]} is set by the prompt")
        return self
