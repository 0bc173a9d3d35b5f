"""What config.json of published models says on the hub, as far as the memory of a card depends on it."""

import json
from pathlib import Path


def folder_of(folder: Path, config: object, weights: int = 1000) -> Path:
    """A model's folder with so many bytes of weights, in a sparse file."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "model-00001.safetensors").open("wb") as file:
        file.truncate(weights)
    return folder


LLAMA_70B = {  # Llama 3.1 70B Instruct
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "hidden_size": 8192, "intermediate_size": 28672,
}  # fmt: skip
QWEN2_5_7B = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "hidden_size": 3584, "intermediate_size": 18944,
}  # fmt: skip
QWEN3_32B = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 64, "num_attention_heads": 64,
    "num_key_value_heads": 8, "hidden_size": 5120, "intermediate_size": 25600, "head_dim": 128,
}  # fmt: skip
# Multi-head latent attention: one vector of 512 + 64 numbers for a token and layer, whatever the number of heads.
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "hidden_size": 7168, "intermediate_size": 18432,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip
# Every other layer looks back 128 tokens only.
GPT_OSS_120B = {
    "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "hidden_size": 2880, "intermediate_size": 2880, "head_dim": 64, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}  # fmt: skip
# Three of four layers keep a state for each sequence, in place of keys and values for each token.
QWEN3_NEXT_80B = {
    "model_type": "qwen3_next", "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
    "hidden_size": 2048, "intermediate_size": 5120, "head_dim": 256, "full_attention_interval": 4,
}  # fmt: skip
