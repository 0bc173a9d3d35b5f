"""Diversity measures equal their definitions and references; two datasets are compared over equally many texts."""

import importlib.util
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import diversity
from kgqa_hpc.plugins.evaluation.topic import embed, find_topics
from kgqa_hpc.runs import fingerprint
from tests.command import kgqa
from tests.record_runs import jsonl

TEXTS = ("the cat sat", "the cat ran", "a dog sat on the mat", "The DOG, sat!")


def test_distinct_n_counts_different_over_all_words_in_lower_case() -> None:
    assert diversity.distinct_n(TEXTS, 1) == pytest.approx(8 / 15)
    assert diversity.distinct_n(["a b", "a b", "a c"], 2) == pytest.approx(2 / 3)
    assert diversity.distinct_n(["a"], 2) is diversity.distinct_n([], 1) is None
    assert diversity.words("IL-1β and α-Synuclein") == ["il", "1β", "and", "α", "synuclein"]


def test_the_curve_ends_at_the_type_token_ratio_whatever_the_order() -> None:
    for seed in (0, 1):
        curve = diversity.type_token_curve(TEXTS, points=10, seed=seed)
        assert curve[-1] == (15, pytest.approx(8 / 15))
        assert [tokens for tokens, _ in curve] == sorted(tokens for tokens, _ in curve)
    assert diversity.type_token_curve([]) == []


def test_self_bleu_of_one_text_is_undefined_of_equal_ones_full_and_a_sample_is_seeded() -> None:
    assert diversity.self_bleu(["a b c"]) is diversity.self_bleu([]) is None
    assert diversity.self_bleu(["A b, c d e"] * 3) == pytest.approx(100)
    assert diversity.self_bleu(["a b", "a c", "d"]) == pytest.approx(100 / 3)
    texts = [f"a b c {i} {i % 3}" for i in range(50)]
    assert diversity.self_bleu(texts, sample=10, seed=1) == diversity.self_bleu(texts, sample=10, seed=1)


@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 12))
@example(5, 3, 1)  # equal rows: 1
def test_vendi_is_that_of_its_definition_by_either_gram_matrix(
    number: int, width: int, different: int
) -> None:
    rows = np.random.default_rng(different).normal(size=(different, width))[np.arange(number) % different]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(unit @ unit.T / number)
    values = values[values > 1e-12]
    assert diversity.vendi_score(rows) == pytest.approx(np.exp(-(values * np.log(values)).sum()))
    assert diversity.vendi_score(np.eye(number)) == pytest.approx(number)
    assert diversity.vendi_score(np.zeros((number, width))) is None


PLANTED = {
    "heart": ["heart", "cardiac", "ventricle", "atrial", "valve"],
    "brain": ["neuron", "synapse", "cortex", "dopamine", "axon"],
    "gut": ["intestine", "colon", "microbiota", "bile", "gastric"],
}


def test_planted_topics_are_found_with_their_terms_and_the_same_again() -> None:
    rng = random.Random(3)
    truth = [name for name in PLANTED for _ in range(40)]
    texts = [f"what is the role of {' '.join(rng.sample(PLANTED[name], 3))}" for name in truth]
    topics = find_topics(texts, 3, seed=1)
    assert topics.sizes == (40, 40, 40)
    assert all(len({topics.labels[i] for i, t in enumerate(truth) if t == name}) == 1 for name in PLANTED)
    assert {frozenset(terms) for terms in topics.terms} == {frozenset(v) for v in PLANTED.values()}
    assert topics.effective == pytest.approx(3)
    assert np.array_equal(topics.labels, find_topics(texts, 3, seed=1).labels)
    few = find_topics(["heart valve"] * 5 + ["brain cortex"] * 3, 22)
    assert few.sizes == (5, 3)
    assert few.effective < 2


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Questions of one template, and of random words; of every five the first was rejected."""
    roots = ("gen", "cardi", "nephr", "neur", "derm")
    vocabulary = [f"{root}{end}" for root in roots for end in "abcdefghijklmnop"]
    draw = random.Random(2)
    same = [f"Which gene causes {draw.choice(vocabulary[:10])}?" for _ in range(100)]
    varied = [" ".join(draw.sample(vocabulary, 8)) + "?" for _ in range(200)]

    def written(name: str, texts: list[str]) -> Path:
        rows = ({"id": i, "question": text, "accepted": i % 5 > 0} for i, text in enumerate(texts))
        return jsonl(tmp_path / name, rows)

    return written("same.jsonl", same), written("varied.jsonl", varied)


def test_a_template_is_less_varied_by_every_measure_over_equally_many_texts(files: tuple[Path, Path]) -> None:
    document = diversity.variety(*files, topics=5)
    same, varied = document["measures"].values()
    assert list(document["texts"].values()) == [80, 160]
    assert same["texts"] == varied["texts"] == 80
    assert all(same["distinct"][n] < varied["distinct"][n] for n in ("2", "3", "4"))
    assert same["type_token_curve"][-1][1] < varied["type_token_curve"][-1][1]
    assert same["self_bleu"] > varied["self_bleu"]
    assert same["vendi"] < varied["vendi"]
    assert sum(topic["texts"] for topic in same["topics"]) == 80
    assert diversity.variety(*files, topics=5) == document
    text = kgqa("diversity", files[0], "--against", files[1], "--topics", 3).stdout
    assert "self-BLEU" in text
    assert f"topics of {files[1]}" in text
    with pytest.raises(InputError, match="no accepted record has a text 'answer'"):
        diversity.variety(files[0], field="answer")


@pytest.mark.slow
def test_curves_and_topics_are_drawn(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Interpreted: to compile itself takes umap-learn much longer than a map of twelve texts.
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)
    pytest.importorskip("umap", reason="NO MAP OF TOPICS: umap-learn is not installed")
    for file in files:
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:15]))
    drawn = diversity.variety(*files, topics=3, figures=tmp_path / "figures")["figures"]
    assert [Path(file).name for file in drawn] == ["type_token.svg", "topics.svg"]
    curves, topics = (Path(file).read_text() for file in drawn)
    assert all(file.name in curves for file in files)
    assert "12 texts, 3 topics" in topics


def test_without_umap_the_curves_are_drawn_alone(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    drawn = diversity.variety(files[1], topics=3, figures=tmp_path / "figures")["figures"]
    assert [Path(file).name for file in drawn] == ["type_token.svg"]
    assert "kgqa_hpc[umap]" in capsys.readouterr().err


NO_TORCH = any(importlib.util.find_spec(name) is None for name in ("torch", "transformers"))
WHY = "TORCH AND TRANSFORMERS ARE NOT INSTALLED (extra: embeddings)"
needs_torch = pytest.mark.skipif(NO_TORCH, reason=WHY)
QUESTIONS = ["which gene causes heart?", "which drug binds gene", "skin", "kidney nerve kidney nerve kidney"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised BERT of two layers, saved as a model's folder is."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *diversity.words(" ".join(QUESTIONS)), "?"]
    vocabulary = list(dict.fromkeys(vocabulary))
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(folder)
    return folder


@needs_torch
def test_a_row_is_the_mean_over_the_tokens_of_its_text_alone(model: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    rows = embed(model, QUESTIONS)
    tokenizer, plain = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    for text, row in zip(QUESTIONS, rows, strict=True):
        with torch.no_grad():
            mean = plain(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy()
        assert row == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    assert embed(model, QUESTIONS[::-1])[::-1] == pytest.approx(rows, abs=1e-6)
    assert embed(model, ["gene " * 2000]).shape == (1, 16)


@needs_torch
def test_the_command_takes_topics_and_vendi_score_of_the_model(model: Path, tmp_path: Path) -> None:
    rows = [{"id": i, "question": QUESTIONS[i % 4]} for i in range(40)]
    source = jsonl(tmp_path / "records.jsonl", rows)
    plain, embedded = (
        json.loads(kgqa("diversity", source, "--topics", 3, "--json", *more).stdout)
        for more in ((), ("--model", model))
    )
    assert (plain["vectors"], embedded["vectors"]) == ("TF-IDF", str(model))
    plain, embedded = (document["measures"][str(source)] for document in (plain, embedded))
    assert plain["self_bleu"] == embedded["self_bleu"]
    assert plain["vendi"] != embedded["vendi"]
    assert 1 < embedded["vendi"] <= 4
    assert sum(topic["texts"] for topic in embedded["topics"]) == 40
    assert embedded["topics"][0]["terms"]


@needs_torch
def test_a_folder_without_a_model_is_named_with_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no folder of a model"):
        embed(tmp_path, QUESTIONS)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="transformers cannot load it"):
        embed(tmp_path, QUESTIONS)


@pytest.mark.skipif(not NO_TORCH, reason="TORCH AND TRANSFORMERS ARE INSTALLED")
def test_without_torch_one_line_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="embeddings need torch and transformers") as problem:
        embed(tmp_path, QUESTIONS)
    assert "kgqa_hpc[embeddings]" in str(problem.value.cure)


def test_topics_of_a_run_are_a_setting_and_its_records_belong_to_the_fingerprint(tmp_path: Path) -> None:
    folder, model = tmp_path / "run" / "dataset", tmp_path / "model"
    folder.mkdir(parents=True)
    model.mkdir()
    for file in (folder / "accepted.jsonl", folder / "rejected.jsonl", model / "config.json"):
        file.write_text('{"id": "a"}\n')
    steps = [{"use": "topic", "from": str(folder.parent), "model": str(model)}]
    anchors = {"kind": "records", "from": str(folder / "accepted.jsonl")}
    config = parse_config({"anchors": anchors, "passes": [{"name": "main", "steps": steps}]}, "c.yaml")

    def digests() -> tuple[str, str]:
        found = fingerprint(config)["passes"]["values"]["main"]["contents"]
        return found["topic.source"], found["topic.model"]

    source, model_digest = digests()
    (folder / "README.md").write_text("a report is no record")
    assert digests() == (source, model_digest)
    (folder / "rejected.jsonl").write_text('{"id": "b"}\n')
    assert digests()[0] != source
    (model / "config.json").write_text("{}")
    assert digests()[1] != model_digest
