"""Loading of an LMDeploy pipeline from settings, with checks before and after.

Two silent choices of LMDeploy are refused: its PyTorch engine where TurboMind cannot run, and a batch that does not fit
into the card's memory.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.clean import without_node
from kgqa_hpc.engines.lmdeploy.settings import LmdeploySettings
from kgqa_hpc.engines.model_files import find_model, public_name, read_once, stage
from kgqa_hpc.engines.models import SEQUENCE_TOKENS, SHARED_TOKENS, UNSHARED_TOKENS, budget, read_size
from kgqa_hpc.errors import EngineConfigError

# Settings that LMDeploy has under the same name.
_OF_LMDEPLOY = {"cache_max_entry_count", "enable_prefix_caching", "quant_policy", "tp", "revision", "model_format",
                "max_prefill_token_num"}  # fmt: skip


def load(settings: LmdeploySettings) -> tuple[Any, Path]:
    """Find the model, check the memory, load; returns LMDeploy's pipeline and the model's folder.

    The folder is the original, not the copy of `stage_to`. Raises EngineConfigError.
    """
    folder = find_model(settings.model, settings.revision)
    try:
        import lmdeploy
    except ImportError as problem:
        raise EngineConfigError(
            f"the lmdeploy engine cannot be imported: {problem}",
            "pip install 'kgqa_hpc[lmdeploy]' on a machine with a GPU, or use containers/llm.def",
        ) from None
    if settings.backend == "turbomind":
        _refuse_fallback(folder)
    batch = fitting(settings, folder, card_bytes())
    local = stage(folder, settings.stage_to) if settings.stage_to else folder
    try:
        backend = backend_config(settings, batch)
        # Logged for each request to a Llama 3, whose template also writes the token; the prompt is right.
        logging.getLogger("lmdeploy").addFilter(lambda log: "duplicate bos token" not in str(log.msg))
        read_once(local)
        with plain_tokenizer():
            pipe = lmdeploy.pipeline(str(local), backend_config=backend, log_level="WARNING")
    except (Exception, SystemExit) as problem:  # checks of LMDeploy's PyTorch backend end with exit(1)
        words = f"{type(problem).__name__}: {problem}"
        cure = "the engine's log has the whole story; is the model complete, and does it fit the GPU?"
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
    # The part of a sequence that it does not share, with half a thought.
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


def card_bytes() -> int | None:
    """Free memory of the first GPU this process sees; None without one."""
    import torch

    return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else None


def card_uuid() -> str:
    """The driver's UUID of this process's first GPU; empty without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return ""
    return str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))  # torch 2.4 and later


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


@contextmanager
def plain_tokenizer() -> Iterator[None]:
    """Context in which LMDeploy loads gpt-oss with the general tokenizer class.

    LMDeploy's class for gpt-oss drops the marks between thought and answer, and downloads a vocabulary.
    """
    from lmdeploy import tokenizer

    special = tokenizer.GptOssTokenizer
    tokenizer.GptOssTokenizer = tokenizer.HuggingFaceTokenizer
    try:
        yield
    finally:
        tokenizer.GptOssTokenizer = special


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
