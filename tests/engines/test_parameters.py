"""Parameters of published models, by their config.json, against what their makers say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.engines.parameters import read_parameters
from tests.engines import published_models as published

QWEN3_30B_A3B = {
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "hidden_size": 2048, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "vocab_size": 151_936,
}  # fmt: skip
DEEPSEEK_V3 = published.DEEPSEEK_V3 | {
    "vocab_size": 129_280, "q_lora_rank": 1536, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
}  # fmt: skip
GPT_OSS_120B = published.GPT_OSS_120B | {
    "vocab_size": 201_088, "num_local_experts": 128, "num_experts_per_tok": 4, "experts_per_token": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        (published.LLAMA_70B | {"vocab_size": 128_256}, 70.6e9, 69.5e9),
        (published.QWEN3_32B | {"vocab_size": 151_936}, 32.8e9, 32.0e9),
        (QWEN3_30B_A3B, 30.5e9, 3.0e9),
        (DEEPSEEK_V3, 671e9, 37e9),
        (GPT_OSS_120B, 117e9, 5.1e9),
        ({"text_config": QWEN3_30B_A3B, "vision_config": {}}, 30.5e9, 3.0e9),
    ],
)
def test_a_models_parameters_are_those_its_makers_state(
    tmp_path: Path, config: dict[str, Any], total: float, active: float
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    parameters = read_parameters(tmp_path)
    assert parameters is not None
    assert parameters.total == pytest.approx(total, rel=0.01)
    assert parameters.active == pytest.approx(active, rel=0.03)


def test_a_model_that_is_no_decoder_has_no_number(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 64, "num_hidden_layers": "two"}')
    assert read_parameters(tmp_path) is None
