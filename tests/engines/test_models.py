"""Sequences that a card holds, by hand for published models; thoughts and sampling of a model."""

import re
from pathlib import Path

import pytest

from kgqa_hpc.config import load_config
from kgqa_hpc.engines import lmdeploy_loading as loading
from kgqa_hpc.engines.lmdeploy_loading import LmdeploySettings
from kgqa_hpc.engines.models import (
    HARMONY,
    OVERHEAD_BYTES,
    SHARED_TOKENS,
    THINK,
    THOUGHTS,
    Generation,
    ModelSize,
    budget,
    read_size,
    sampling_of,
)
from kgqa_hpc.errors import EngineConfigError
from tests.engines import published_models as published
from tests.engines.published_models import folder_of

CONFIGS = Path(__file__).parents[2] / "configs"
MEMORY = re.compile(
    r"# memory: card ([\d.]+) GB, weights ([\d.]+) GB, (\d+) layers x (\d+) heads x (\d+), "
    r"width (\d+)/(\d+), kv (\d+), share ([\d.]+), tp (\d), prefill (\d+) -> "
    r"([\d,]+) B a token, ([\d,]+) tokens, batch (\d+)"
)


def size_of(folder: Path) -> ModelSize:
    size = read_size(folder)
    assert size is not None
    return size


def test_the_bytes_of_a_token_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    """Of every published model, and as LMDeploy keeps them: tests/engines/lmdeploy/contract_loading.py."""
    size = size_of(folder_of(tmp_path, published.LLAMA_70B))
    # Keys and values x layers x KV heads x head size x 2 bytes.
    assert size.kv_bytes(0) == 2 * 80 * 8 * 128 * 2
    assert size.kv_bytes(0, tp=4) == size.kv_bytes(0) / 4
    assert size.kv_bytes(4) == 2 * 80 * 8 * (128 / 2 + 4)  # a scale and a zero point of 16 bits for each head
    for other_format in ("pytorch_model.bin", "consolidated.safetensors"):
        (tmp_path / other_format).write_bytes(bytes(1000))
    assert size_of(tmp_path).weights == 1000, "weights that a repository holds twice are counted once"


@pytest.mark.parametrize(
    "config", [published.QWEN3_NEXT_80B, published.QWEN3_32B | {"layer_types": ["linear_attention"] * 64}]
)
def test_layers_that_keep_a_state_are_not_guessed_at_and_it_is_said(
    tmp_path: Path, config: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path, config)
    assert read_size(folder) is None
    assert loading.fitting(LmdeploySettings(model=str(folder)), folder, card=int(85e9)) is None
    assert "set engine.max_batch_size" in capsys.readouterr().out
    pinned = LmdeploySettings(model=str(folder), max_batch_size=8)
    assert loading.fitting(pinned, folder, card=int(85e9)) is None
    assert capsys.readouterr().out == ""


def test_latent_attention_and_a_nested_text_model_are_known_and_no_odd_one_is_guessed(tmp_path: Path) -> None:
    size = size_of(folder_of(tmp_path, published.DEEPSEEK_V3))
    assert size.kv_bytes(0) == size.kv_bytes(0, tp=8) == 61 * (512 + 64) * 2, "one vector, on every card"
    assert size_of(folder_of(tmp_path, {"text_config": published.QWEN3_32B})).layers == 64
    assert read_size(folder_of(tmp_path, {"d_model": 7})) is None
    assert read_size(tmp_path / "none") is None
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(EngineConfigError, match="cannot be read"):
        read_size(tmp_path)


AWQ_70B = ModelSize(80, 8, 128, 8192, 28672, weights=int(39.8e9))


def test_more_cards_or_fewer_bits_make_room_and_too_little_is_refused_with_the_cure() -> None:
    size = AWQ_70B
    one, eight_bits = (budget(size, 85.5e9, quant_policy=bits) for bits in (0, 8))
    two = budget(size, 85.5e9, tp=2)
    assert one.batch < eight_bits.batch
    assert one.batch < two.batch
    with pytest.raises(EngineConfigError, match="less than one sequence") as caught:
        budget(size, size.weights + OVERHEAD_BYTES)
    assert "tp" in caught.value.cure
    at_once = [budget(size, 48.3e9, quant_policy=4, prefill_tokens=tokens) for tokens in (8192, 2048)]
    assert [room.activations_fit for room in at_once] == [False, True]


def test_with_cached_prefixes_a_sequence_counts_its_own_prompt_and_half_an_answer(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, published.LLAMA_70B)
    card = 100_000 * 327_680 / 0.8 + OVERHEAD_BYTES + 1000 + 1  # room for 100,000 tokens

    def batch(**settings: object) -> int:
        size = loading.fitting(LmdeploySettings(model=str(folder), **settings), folder, int(card))
        assert size is not None
        return size

    assert batch() == (100_000 - SHARED_TOKENS) // 600
    assert batch(enable_prefix_caching=False) == 100_000 // 1700
    assert batch(thinking=True, thinking_tokens=4000) == (100_000 - SHARED_TOKENS) // 2600
    assert batch(sequence_tokens=1000, enable_prefix_caching=False) == 100


@pytest.mark.parametrize("name", ["local_a6000", "lmdeploy_recommended", "lmdeploy_8xh100"])
def test_the_arithmetic_in_a_configurations_comments_holds_and_no_batch_is_pinned(name: str) -> None:
    found = MEMORY.findall((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    assert len(found) == {"lmdeploy_8xh100": 3}.get(name, 1)
    for row in found:
        card, weights, *shape, kv, share, tp, prefill, token, tokens, batch = row
        size = ModelSize(*map(int, shape), int(float(weights) * 1e9))
        bits, cards = int(kv) % 16, int(tp)
        limits = {"quant_policy": bits, "prefill_tokens": int(prefill), "tp": cards}
        room = budget(size, float(card) * 1e9, share=float(share), **limits)
        assert f"{size.kv_bytes(bits, cards):,.0f}" == token
        assert (f"{room.cache_tokens:,}", str(room.batch)) == (tokens, batch)
        assert room.activations_fit
    engine = load_config(CONFIGS / f"{name}.yaml").engine
    assert engine.max_batch_size is None
    assert (engine.quant_policy or 16, engine.cache_max_entry_count) == (int(found[0][7]), float(found[0][8]))
    assert (engine.max_prefill_token_num or 8192, engine.tp) == (int(found[0][10]), int(found[0][9]))


@pytest.mark.parametrize("family", THOUGHTS)
def test_thought_and_answer_are_told_apart(family: str) -> None:
    marks = THOUGHTS[family]
    said = f"{marks.begin}Hm.{marks.end}{marks.then}{{}}"
    assert marks.split(said) == ("Hm.", "{}")
    assert marks.split(said.removeprefix(marks.begin)) == ("Hm.", "{}"), "the prompt ended with the mark"
    assert marks.split("{}") == ("", "{}")


def test_a_prompt_that_ends_with_the_opening_mark_needs_no_second_one() -> None:
    assert THINK.after("<|im_start|>assistant\n<think>\n").begin == ""
    assert THINK.after("<|im_start|>assistant\n").begin == "<think>"
    assert HARMONY.after("<|start|>assistant") == HARMONY


@pytest.mark.parametrize(
    ("model", "thinks", "expected"),
    [
        ("Qwen/Qwen3-32B-AWQ", True, (0.6, {"top_p": 0.95, "top_k": 20})),
        ("Qwen/Qwen3-32B-AWQ", False, (0.7, {"top_p": 0.8, "top_k": 20})),
        ("Qwen/Qwen3-32B-AWQ", None, (0.0, {})),
        ("openai/gpt-oss-20b", True, (1.0, {"top_p": 1.0})),
        ("openai/gpt-oss-20b", False, (0.0, {})),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", True, (0.6, {"top_p": 0.95})),
        ("meta-llama/Llama-3.3-70B-Instruct", True, (0.0, {})),
    ],
)
def test_each_family_is_sampled_as_its_maker_advises(
    model: str, thinks: bool | None, expected: tuple[float, dict[str, float]]
) -> None:
    assert sampling_of(model, thinks, None)[:2] == expected


def test_the_configuration_comes_before_the_table_and_the_provenance_says_what_was_added() -> None:
    own = Generation(temperature=0.0, top_k=5)
    added = {"temperature": 0.0, "top_p": 0.95}
    assert sampling_of("Qwen3-8B", "qwen3", own) == (0.0, {"top_p": 0.95, "top_k": 5}, added)
    assert sampling_of("Llama", True, own).added == {}
