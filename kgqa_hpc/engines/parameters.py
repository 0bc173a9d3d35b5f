"""Number of parameters of a model, and of those that a token uses, computed from its config.json.

`kgqa bench` compares with limits that follow from them. Biases and norms are ignored; they are below a thousandth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kgqa_hpc.engines.engine import count_of
from kgqa_hpc.text.opener import read_bytes

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")  # Mixtral and gpt-oss, Qwen, DeepSeek


class Parameters(NamedTuple):
    """Parameters of a decoder. `active`: number used for a token; `expert_share`: share of the experts in all
    parameters; `expert_use`: share of the experts that a token uses.
    """

    total: float
    active: float
    expert_share: float = 0.0
    expert_use: float = 1.0


def read_parameters(folder: Path) -> Parameters | None:
    """Parameters from a model folder's config.json, which must be readable; None if it is no plain decoder."""
    config = json.loads(read_bytes(folder / "config.json"))
    text = config.get("text_config") or config.get("llm_config") or config
    hidden, layers, vocabulary = (
        count_of(text.get(k)) for k in ("hidden_size", "num_hidden_layers", "vocab_size")
    )
    if not (hidden and layers and vocabulary and count_of(text.get("num_attention_heads"))):
        return None
    attention = layers * _attention(text, hidden)
    embedding = vocabulary * hidden
    tables = (
        embedding if text.get("tie_word_embeddings", config.get("tie_word_embeddings")) else 2 * embedding
    )
    experts = next((count for name in _EXPERTS if (count := count_of(text.get(name)))), 0)
    if not experts:
        dense = attention + layers * _gated(hidden, count_of(text.get("intermediate_size")) or 4 * hidden)
        return Parameters(dense + tables, dense + embedding)
    plain_layers = count_of(text.get("first_k_dense_replace"))
    sparse = layers - plain_layers
    width = count_of(text.get("moe_intermediate_size")) or count_of(text.get("intermediate_size"))
    shared = count_of(text.get("shared_expert_intermediate_size")) or width * count_of(
        text.get("n_shared_experts")
    )
    always = attention + plain_layers * _gated(hidden, count_of(text.get("intermediate_size")))
    always += sparse * (_gated(hidden, shared) + hidden * experts)
    routed = sparse * experts * _gated(hidden, width)
    chosen = count_of(text.get("num_experts_per_tok")) or count_of(text.get("experts_per_token")) or experts
    use = min(chosen / experts, 1.0)
    total = always + routed + tables
    return Parameters(total, always + routed * use + embedding, routed / total, use)


def _gated(hidden: int, width: int) -> int:
    return 3 * hidden * width


def _attention(text: Mapping[str, Any], hidden: int) -> int:
    heads = count_of(text.get("num_attention_heads"))
    if latent := count_of(text.get("kv_lora_rank")):  # multi-head latent attention (DeepSeek)
        rope, plain, value = (count_of(text.get(f"{k}_head_dim")) for k in ("qk_rope", "qk_nope", "v"))
        query = count_of(text.get("q_lora_rank"))
        wide = heads * (plain + rope)
        queries = hidden * query + query * wide if query else hidden * wide
        return queries + hidden * (latent + rope) + latent * heads * (plain + value) + heads * value * hidden
    size = count_of(text.get("head_dim")) or hidden // heads
    kv_heads = count_of(text.get("num_key_value_heads")) or heads
    return 2 * hidden * size * (heads + kv_heads)
