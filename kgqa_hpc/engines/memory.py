"""Estimate of the batch that fits into a card: memory minus weights and activations, divided by bytes per token.

LMDeploy's default on a large card is a batch of 1,024, even if fewer sequences fit; the others are swapped
out and processed again. Here the batch follows the KV cache. All estimates are rather too small than too large.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.engine import count_of
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.opener import read_bytes

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


@dataclass(frozen=True, slots=True)
class ModelSize:
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

    def activation_bytes(self, tokens: int, tp: int = 1) -> float:
        """Bytes of activations on each card for `tokens` processed at once: inputs and outputs of the widest layer."""
        return 2.0 * tokens * (4 * self.hidden + 3 * self.intermediate / tp)


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
    text = config.get("text_config") or config.get("llm_config") or config
    return None if _has_states(text) else _size(text, _weights(folder))


def _weights(folder: Path) -> int:
    """Bytes of the loaded weights; some repositories hold the same weights in several formats."""
    for pattern in ("model*.safetensors", "*.safetensors", "*.bin"):
        if size := sum(path.stat().st_size for path in folder.glob(pattern)):
            return size
    return 0


def _has_states(config: Mapping[str, Any]) -> bool:
    """Whether some layers (linear attention, state space) need memory per sequence instead of per token."""
    kinds = config.get("layer_types") or ()
    return "full_attention_interval" in config or any(
        "attention" not in str(k) or "linear" in str(k) for k in kinds
    )


def _size(config: Mapping[str, Any], weights: int) -> ModelSize | None:
    keys = ("num_hidden_layers", "num_attention_heads", "hidden_size")
    layers, heads, hidden = (count_of(config.get(key)) for key in keys)
    if not (layers and heads and hidden):
        return None
    intermediate = config.get("intermediate_size") or 4 * hidden
    if latent := count_of(config.get("kv_lora_rank")):
        together = latent + count_of(config.get("qk_rope_head_dim"))
        return ModelSize(layers, 1, together, hidden, intermediate, weights, vectors=1)
    return ModelSize(
        layers=layers,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or hidden // heads,
        hidden=hidden,
        intermediate=intermediate,
        weights=weights,
    )


@dataclass(frozen=True, slots=True)
class Budget:
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
    needed = size.activation_bytes(prefill_tokens or PREFILL_TOKENS, tp)
    return Budget(tokens, batch, needed <= free - cache)
