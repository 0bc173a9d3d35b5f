"""Embeddings of a local model: pooled over a text's own tokens, and used for topics and the Vendi score."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.topic import embed

NO_TORCH = any(importlib.util.find_spec(name) is None for name in ("torch", "transformers"))
needs_torch = pytest.mark.skipif(
    NO_TORCH, reason="TORCH AND TRANSFORMERS ARE NOT INSTALLED (extra: embeddings)"
)
WORDS = ["heart", "kidney", "nerve", "skin", "gene", "drug", "binds", "causes", "which", "?"]
TEXTS = ["which gene causes heart?", "which drug binds gene", "skin", "kidney nerve kidney nerve kidney"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised BERT of two layers, saved as a model's folder is."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    BertTokenizerFast(vocab_file=str(vocabulary)).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=5 + len(WORDS), **sizes)).save_pretrained(folder)
    return folder


@needs_torch
def test_a_row_is_the_mean_over_the_tokens_of_its_text_alone(model: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    rows = embed(model, TEXTS)
    tokenizer, plain = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    for text, row in zip(TEXTS, rows, strict=True):
        with torch.no_grad():
            mean = plain(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy()
        assert row == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    assert embed(model, TEXTS[::-1])[::-1] == pytest.approx(rows, abs=1e-6)
    assert embed(model, ["gene " * 2000]).shape == (1, 16)


@needs_torch
def test_the_command_takes_topics_and_vendi_score_of_the_model(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "records.jsonl"
    source.write_text("\n".join(json.dumps({"id": str(i), "question": TEXTS[i % 4]}) for i in range(40)))
    told = {}
    for name, more in {"plain": [], "model": ["--model", str(model)]}.items():
        done = CliRunner().invoke(app, ["diversity", str(source), "--topics", "3", "--json", *more])
        assert done.exit_code == 0, done.output
        told[name] = json.loads(done.stdout)
    assert (told["plain"]["vectors"], told["model"]["vectors"]) == ("TF-IDF", str(model))
    plain, embedded = (next(iter(one["measures"].values())) for one in told.values())
    assert plain["self_bleu"] == embedded["self_bleu"]
    assert plain["vendi"] != embedded["vendi"]
    assert 1 < embedded["vendi"] <= 4
    assert sum(topic["texts"] for topic in embedded["topics"]) == 40
    assert embedded["topics"][0]["terms"]


@needs_torch
def test_a_folder_without_a_model_is_named_with_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no folder of a model"):
        embed(tmp_path, TEXTS)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="transformers cannot load it"):
        embed(tmp_path, TEXTS)


@pytest.mark.skipif(not NO_TORCH, reason="TORCH AND TRANSFORMERS ARE INSTALLED")
def test_without_torch_one_line_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="embeddings need torch and transformers") as found:
        embed(tmp_path, TEXTS)
    assert "kgqa_hpc[embeddings]" in str(found.value.cure)
