"""Facts about a model: its size (config.json), the marks of its thoughts, the sampling advised for it.

The batch that fits into a card is the memory minus weights and activations, divided by bytes per token.
LMDeploy's default on a large card is a batch of 1,024, even if fewer sequences fit; the others are swapped
out and processed again. Here the batch follows the KV cache. All estimates are rather too small than too large.

Thinking models repeat themselves under greedy decoding, so the temperature that the makers of the family recommend
replaces a prompt's temperature of 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from os.path import expanduser, isdir
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from kgqa_hpc.engines.engine import count_of
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Settings
from kgqa_hpc.text.streams import read_bytes

GIB = 1 << 30
# Bytes that CUDA, its libraries and the driver use on a card; assumed, not measured.
OVERHEAD_BYTES = GIB
# LMDeploy's default number of prompt tokens processed at once (lmdeploy.messages.TurbomindEngineConfig).
PREFILL_TOKENS = 8192
# Tokens of a prompt with its answer without prefix caching: p5 and filter with at most 1,000 tokens of answer.
SEQUENCE_TOKENS = 1700
# Tokens of a running sequence that prefix caching does not share: p5's user message (105) and
# half of the longest answer (500). Prompts with documents have more.
UNSHARED_TOKENS = 600
# Tokens that all sequences share with prefix caching: the instructions of a run's prompts (p5: 1,331).
SHARED_TOKENS = 4096


class ModelSize(NamedTuple):
    """Sizes of a model for the estimate; `weights` in bytes.

    `vectors` of `head_size` numbers are kept for each token, layer and head: a key and a value, or, with
    multi-head latent attention (DeepSeek), one for all heads together. Layers with a sliding window count in
    full, because LMDeploy stores them so.
    """

    layers: int
    kv_heads: int
    head_size: int
    hidden: int
    intermediate: int
    weights: int
    vectors: int = 2

    def kv_bytes(self, quant_policy: int, tp: int = 1) -> float:
        """Bytes of a token in the KV cache of each of `tp` cards.

        In 16, 8 or 4 bits; quantised ones carry a scale and a zero point in 16 bits for each token and head
        (lmdeploy/pytorch/engine/cache_engine/schema.py).
        """
        bits = quant_policy or 16
        per_head = self.head_size * bits / 8 + (4 if quant_policy else 0)
        return self.vectors * self.layers * max(self.kv_heads / tp, 1) * per_head


def read_size(folder: Path) -> ModelSize | None:
    """Sizes from a model folder's config.json and weights; None if the model is no plain decoder, or some of its layers
    keep a state in place of keys and values.

    Raises EngineConfigError when config.json is no JSON.
    """
    try:
        config = json.loads(read_bytes(folder / "config.json"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as problem:
        raise EngineConfigError(f"{folder}/config.json cannot be read: {problem}") from None
    # Models for text and images keep the sizes of their text decoder in a member of its own.
    config = config.get("text_config") or config.get("llm_config") or config
    keys = ("num_hidden_layers", "num_attention_heads", "hidden_size")
    layers, heads, hidden = (count_of(config.get(key)) for key in keys)
    # Layers of linear attention or of a state space need memory per sequence instead of per token.
    kinds = [str(kind) for kind in config.get("layer_types") or ()]
    states = any("attention" not in kind or "linear" in kind for kind in kinds)
    if states or "full_attention_interval" in config or not (layers and heads and hidden):
        return None
    # Some repositories hold the same weights in several formats.
    patterns = ("model*.safetensors", "*.safetensors", "*.bin")
    sizes = (sum(path.stat().st_size for path in folder.glob(pattern)) for pattern in patterns)
    widths = hidden, config.get("intermediate_size") or 4 * hidden, next(filter(None, sizes), 0)
    if latent := count_of(config.get("kv_lora_rank")):
        return ModelSize(layers, 1, latent + count_of(config.get("qk_rope_head_dim")), *widths, vectors=1)
    kv_heads, head_size = config.get("num_key_value_heads") or heads, config.get("head_dim")
    return ModelSize(layers, kv_heads, head_size or hidden // heads, *widths)


def with_model_path(data: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """`data` with an absolute path for a model that is a folder beside the configuration; hub ids stay."""
    model = data.get("model")
    if isinstance(model, str) and model and isdir(folder := base / expanduser(model)):
        return {**data, "model": str(folder.resolve())}
    return {**data}


class Budget(NamedTuple):
    """Batch and cache that fit into one card (of `tp`)."""

    cache_tokens: int
    batch: int
    activations_fit: bool  # whether the memory beside the cache suffices for activations


def budget(
    size: ModelSize,
    card_bytes: float,
    *,
    quant_policy: int = 0,
    share: float = 0.8,
    sequence_tokens: int = UNSHARED_TOKENS,
    shared_tokens: int = SHARED_TOKENS,
    prefill_tokens: int | None = None,
    tp: int = 1,
) -> Budget:
    """The KV cache of a card with `card_bytes` of memory, and the batch that follows from it.

    As in TurboMind, the cache gets `share` of the memory that is free after the weights were loaded;
    activations must fit into the rest. The cache holds `shared_tokens` once and `sequence_tokens` for
    each running sequence. Raises EngineConfigError when no sequence fits.
    """
    free = card_bytes - OVERHEAD_BYTES - size.weights / tp
    cache = max(free, 0.0) * share
    tokens = int(cache / size.kv_bytes(quant_policy, tp))
    batch = (tokens - shared_tokens) // sequence_tokens
    if batch < 1:
        raise EngineConfigError(
            f"{size.weights / tp / 1e9:,.1f} GB of weights leave a card of {card_bytes / 1e9:,.1f} GB "
            f"room for {tokens:,} tokens of KV cache, less than one sequence of "
            f"{shared_tokens + sequence_tokens:,}",
            "take a smaller or more quantised model, quant_policy 8 or 4, or a larger tp",
        )
    # Inputs and outputs of the widest layer, in 16 bits, for the prompt tokens processed at once.
    needed = 2.0 * (prefill_tokens or PREFILL_TOKENS) * (4 * size.hidden + 3 * size.intermediate / tp)
    return Budget(tokens, batch, needed <= free - cache)


# Default largest number of tokens of a thought; thoughts of Qwen3 take 1,000 to 10,000.
THINKING_TOKENS = 8192


class Thought(NamedTuple):
    """The marks around a model's thought, and the text between thought and answer."""

    begin: str
    end: str
    then: str

    def split(self, text: str) -> tuple[str, str]:
        """Split a text into thought and answer; a thought without an end counts as answer."""
        thought, mark, answer = text.partition(self.end)
        if not mark:
            return "", text
        return thought.removeprefix(self.begin).strip(), answer.removeprefix(self.then)

    def after(self, prompt: str) -> Thought:
        """The marks of an answer to `prompt`, without the opening mark if the chat template has written it already."""
        return self._replace(begin="") if prompt.rstrip().endswith(self.begin) else self


# From the models' chat templates: <think> of Qwen3, DeepSeek-R1 and many more; harmony of gpt-oss.
THINK = Thought("<think>", "</think>", "\n\n")
HARMONY = Thought(
    "<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant<|channel|>final<|message|>"
)
THOUGHTS = {"qwen3": THINK, "gpt-oss": HARMONY}


# Sampling that the makers of a family recommend, for thinking (True) or not; from the model cards of Qwen3, gpt-oss,
# DeepSeek-R1.
_FAMILIES: dict[str, dict[bool, dict[str, float]]] = {
    r"qwen[-_]?3|qwq": {
        True: {"temperature": 0.6, "top_p": 0.95, "top_k": 20},
        False: {"temperature": 0.7, "top_p": 0.8, "top_k": 20},
    },
    "gpt-oss": {True: {"temperature": 1.0, "top_p": 1.0}},
    "deepseek-r1": {True: {"temperature": 0.6, "top_p": 0.95}},
}


class Generation(Settings):
    """Sampling parameters besides the prompt's temperature; a parameter that is not set has the engine's default."""

    temperature: float | None = Field(None, ge=0, description="Temperature for prompts with temperature 0.")
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Nucleus sampling: the likeliest tokens whose probabilities sum to this.",
    )
    top_k: int | None = Field(None, ge=1, description="Number of likeliest tokens to sample from.")
    min_p: float | None = Field(
        None, ge=0, lt=1, description="Minimum probability of a token, as share of the likeliest."
    )
    repetition_penalty: float | None = Field(
        None, gt=0, description="Penalty on repeated tokens; above 1: less repetition."
    )
    extra: dict[str, Any] | None = Field(
        None, description="Further sampling parameters, passed on to the engine unchanged."
    )

    def values(self) -> dict[str, Any]:
        """The parameters that are set, with extras, without the temperature."""
        return {**self.model_dump(exclude={"extra", "temperature"}, exclude_none=True), **(self.extra or {})}


class Sampling(NamedTuple):
    """Sampling parameters of a model. `added` is the part that the configuration does not name, for the provenance."""

    temperature: float  # used for prompts with temperature 0
    values: Mapping[str, Any]  # the parameters other than the temperature
    added: Mapping[str, Any]


def sampling_of(model: str, thinking: bool | str | None, generation: Generation | None) -> Sampling:
    """The configured sampling parameters, otherwise those of the model's family.

    The family's are used only if the configuration turns thinking on or off (`thinking` is not None).
    """
    matches = (advice for name, advice in _FAMILIES.items() if re.search(name, model, re.IGNORECASE))
    advice = {} if thinking is None else {**next(matches, {}).get(bool(thinking), {})}
    temperature, configured = advice.pop("temperature", 0.0), generation.values() if generation else {}
    if generation is not None and generation.temperature is not None:
        temperature = generation.temperature
    added = {key: value for key, value in advice.items() if key not in configured}
    return Sampling(temperature, advice | configured, {"temperature": temperature, **added} if added else {})
