"""Settings of the LMDeploy engine, and the loading of a pipeline from them, with checks before and after.

Two silent choices of LMDeploy are refused: its PyTorch engine where TurboMind cannot run, and a batch that does not fit
into the card's memory.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from kgqa_hpc.engines.engine import EngineSettings, without_node
from kgqa_hpc.engines.model_files import find_model, public_name, read_once, stage
from kgqa_hpc.engines.models import (
    SEQUENCE_TOKENS,
    SHARED_TOKENS,
    THINKING_TOKENS,
    UNSHARED_TOKENS,
    Generation,
    budget,
    read_size,
    with_model_path,
)
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Package

# Settings that LMDeploy has under the same name.
_OF_LMDEPLOY = {"cache_max_entry_count", "enable_prefix_caching", "quant_policy", "tp", "revision", "model_format",
                "max_prefill_token_num"}  # fmt: skip

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
        None, description="Folder on the node's own disk, such as $TMPDIR, to which the model is copied once."
    )
    backend: Literal["turbomind", "pytorch"] = Field(
        "turbomind", description="Inference engine of LMDeploy; there is no fallback."
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
        description="Expected tokens of a sequence outside the prefix cache; determines the batch. "
        "Default: 600, or 1700 without prefix caching.",
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
        None, description="Enforce the schema while decoding, with auto and json_schema; default: auto."
    )
    thinking: bool | Literal["qwen3", "gpt-oss"] | None = Field(
        None, description="Let the model think in its own format before the JSON answer; false: do not."
    )
    thinking_tokens: int = Field(
        THINKING_TOKENS, ge=1, description="Maximum tokens of a thought, besides those of prompt and answer."
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


def load(settings: LmdeploySettings) -> tuple[Any, Path]:
    """Find the model, check the memory, load; returns LMDeploy's pipeline and the model's folder.

    The folder is the original, not the copy of `stage_to`. Raises EngineConfigError.
    """
    folder = find_model(settings.model, settings.revision)
    try:
        import lmdeploy
        from lmdeploy import tokenizer
    except ImportError as problem:
        raise EngineConfigError(
            f"the lmdeploy engine cannot be imported: {problem}",
            "pip install 'kgqa_hpc[lmdeploy]' on a machine with a GPU, or use containers/llm.def",
        ) from None
    if settings.backend == "turbomind":
        _refuse_fallback(folder)
    batch = fitting(settings, folder, card()[0])
    local = stage(folder, settings.stage_to) if settings.stage_to else folder
    try:
        backend = backend_config(settings, batch)
        # Hide LMDeploy's warning of a duplicate BOS token at each request to a Llama 3; the prompt is correct.
        logging.getLogger("lmdeploy").addFilter(lambda log: "duplicate bos token" not in str(log.msg))
        # LMDeploy's tokenizer for gpt-oss drops the marks between thought and answer, and downloads a vocabulary.
        tokenizer.GptOssTokenizer = tokenizer.HuggingFaceTokenizer
        read_once(local)
        pipe = lmdeploy.pipeline(str(local), backend_config=backend, log_level="WARNING")
    except (Exception, SystemExit) as problem:  # checks of LMDeploy's PyTorch backend end with exit(1)
        words = f"{type(problem).__name__}: {problem}"
        cure = "the engine's log has the whole error; is the model complete, and does it fit the GPU?"
        raise EngineConfigError(
            f"LMDeploy cannot load {public_name(settings.model)}: {words}", cure + without_node(words)
        ) from problem
    if type(pipe.backend_config).__name__ != type(backend).__name__:
        pipe.close()
        raise EngineConfigError(
            "LMDeploy fell back to its PyTorch engine", "engine.backend: pytorch allows it"
        )
    return pipe, folder


def fitting(settings: LmdeploySettings, folder: Path, card: int | None) -> int | None:
    """The batch that fits into the card's memory; None if the size of card or model is unknown.

    A batch from the settings is kept, with a warning if it is too large. Raises EngineConfigError
    when not even one sequence fits.
    """
    size = read_size(folder)
    if card is None:
        return None
    if size is None or not size.weights:
        if settings.max_batch_size is None:
            words = "the memory of this kind of model is not known, so LMDeploy chooses the batch"
            print(f"lmdeploy: {words}: set engine.max_batch_size", flush=True)
        return None
    shares = settings.enable_prefix_caching
    # Tokens of a sequence that are not in the shared prefix cache; half of the longest thought is added below.
    unshared = settings.sequence_tokens or (UNSHARED_TOKENS if shares else SEQUENCE_TOKENS)
    room = budget(
        size,
        card,
        quant_policy=settings.quant_policy,
        share=settings.cache_max_entry_count,
        sequence_tokens=unshared + settings.thought_room // 2,
        shared_tokens=SHARED_TOKENS if shares else 0,
        prefill_tokens=settings.max_prefill_token_num,
        tp=settings.tp,
    )
    print(f"lmdeploy: room for {room.cache_tokens:,} tokens of KV cache, {room.batch} sequences", flush=True)
    if not room.activations_fit:
        print("lmdeploy: reading prompts may run out of memory: set max_prefill_token_num: 2048", flush=True)
    requested = settings.max_batch_size
    if requested is not None and requested > room.batch:
        print(
            f"lmdeploy: max_batch_size {requested} is more than fits; sequences will be swapped", flush=True
        )
    return room.batch


def card() -> tuple[int | None, str]:
    """Free memory in bytes and the driver's UUID of the first GPU that this process sees; (None, "") without one."""
    import torch

    if not torch.cuda.is_available():
        return None, ""
    uuid = getattr(torch.cuda.get_device_properties(0), "uuid", "")  # torch 2.4 and later
    return int(torch.cuda.mem_get_info()[0]), str(uuid)


def backend_config(settings: LmdeploySettings, batch: int | None) -> Any:
    """LMDeploy's own settings. `batch` is what fits; None lets LMDeploy choose by the card."""
    import lmdeploy

    values = {
        **settings.model_dump(include=_OF_LMDEPLOY, exclude_none=True),
        "session_len": settings.session_len + settings.thought_room,
        # No request has images; LMDeploy's engine for images has no prefix caching and loads a vision tower.
        "language_model_only": True,
        **(settings.extra or {}),
    }
    if (batch_size := settings.max_batch_size or batch) is not None:
        values["max_batch_size"] = batch_size
    kind = lmdeploy.PytorchEngineConfig if settings.backend == "pytorch" else lmdeploy.TurbomindEngineConfig
    return kind(**values)


def _refuse_fallback(folder: Path) -> None:
    """Raise EngineConfigError if TurboMind cannot run; LMDeploy would only warn and take its slower PyTorch engine."""
    from lmdeploy import turbomind

    if not turbomind.is_available():
        reason = getattr(turbomind, "_import_error", None)
        raise EngineConfigError(
            f"LMDeploy's TurboMind cannot run here: {reason}",
            "it needs an NVIDIA GPU and driver; engine.backend: pytorch uses LMDeploy's other engine",
        )
    from lmdeploy.archs import autoget_backend

    if autoget_backend(str(folder)) != "turbomind":
        raise EngineConfigError(
            f"TurboMind does not know the architecture of {public_name(str(folder))}",
            "engine.backend: pytorch uses LMDeploy's other engine",
        )
