"""Size of a model from its config.json: the batch that fits into a card, and the number of parameters.

The batch is the memory minus weights and activations, divided by bytes per token.

LMDeploy's default on a large card is a batch of 1,024, even if fewer sequences fit; the others are swapped
out and processed again. Here the batch follows the KV cache. All estimates are rather too small than too large.
`kgqa bench` compares with limits that follow from the parameters.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from kgqa_hpc.engines.engine import count_of
from kgqa_hpc.errors import EngineConfigError
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
# Number of experts: Mixtral and gpt-oss, Qwen, DeepSeek.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


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

    def activation_bytes(self, tokens: int, tp: int = 1) -> float:
        """Bytes of activations on each card for `tokens` processed at once: inputs and outputs of the widest layer."""
        return 2.0 * tokens * (4 * self.hidden + 3 * self.intermediate / tp)


def read_size(folder: Path) -> ModelSize | None:
    """Sizes from a model folder's config.json and weights; None if the model is no plain decoder, or some of its layers
    keep a state in place of keys and values.

    Raises EngineConfigError when config.json is no JSON.
    """
    try:
        config = _text_config(folder)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as problem:
        raise EngineConfigError(f"{folder}/config.json cannot be read: {problem}") from None
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


def _text_config(folder: Path) -> dict[str, Any]:
    """The model's config.json, or its part about the decoder of text."""
    config: dict[str, Any] = json.loads(read_bytes(folder / "config.json"))
    decoder = config.get("text_config") or config.get("llm_config") or config
    return {"tie_word_embeddings": config.get("tie_word_embeddings"), **decoder}


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
    needed = size.activation_bytes(prefill_tokens or PREFILL_TOKENS, tp)
    return Budget(tokens, batch, needed <= free - cache)


def read_parameters(folder: Path) -> dict[str, float]:
    """Parameters of a decoder, from its config.json, which must be readable; empty if it is no plain decoder.

    `parameters`: all; `active_parameters`: number used for a token; `expert_share`: share of the experts in all;
    `expert_use`: share of the experts that a token uses. Biases and norms are ignored; they are below a thousandth.
    """
    config = _text_config(folder)

    def count(key: str) -> int:
        return count_of(config.get(key))

    hidden, layers, vocabulary = map(count, ("hidden_size", "num_hidden_layers", "vocab_size"))
    heads = count("num_attention_heads")
    if not (hidden and layers and vocabulary and heads):
        return {}
    if latent := count("kv_lora_rank"):  # multi-head latent attention (DeepSeek)
        rope, plain, value = map(count, ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
        query, wide = count("q_lora_rank"), heads * (plain + rope)
        per_layer = hidden * query + query * wide if query else hidden * wide
        per_layer += hidden * (latent + rope) + latent * heads * (plain + value) + heads * value * hidden
    else:
        size, kv_heads = count("head_dim") or hidden // heads, count("num_key_value_heads") or heads
        per_layer = 2 * hidden * size * (heads + kv_heads)
    attention, embedding, gate = layers * per_layer, vocabulary * hidden, 3 * hidden
    tables = embedding if config["tie_word_embeddings"] else 2 * embedding
    dense = count("intermediate_size")
    experts = next(filter(None, map(count, _EXPERTS)), 0)
    always, routed, use = attention + layers * gate * (dense or 4 * hidden), 0, 1.0
    if experts:
        plain_layers, width = count("first_k_dense_replace"), count("moe_intermediate_size") or dense
        shared = count("shared_expert_intermediate_size") or width * count("n_shared_experts")
        sparse = layers - plain_layers
        always = attention + plain_layers * gate * dense + sparse * (gate * shared + hidden * experts)
        routed = sparse * experts * gate * width
        chosen = count("num_experts_per_tok") or count("experts_per_token") or experts
        use = min(chosen / experts, 1.0)
    total = always + routed + tables
    return {
        "parameters": total,
        "active_parameters": always + routed * use + embedding,
        "expert_share": routed / total,
        "expert_use": use,
    }
