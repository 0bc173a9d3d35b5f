"""Each metric is its reference's on fixed cases, per group and in all, and the extra may be missing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import score as room
from kgqa_hpc.plugins.evaluation.score import render
from tests.plugins.evaluation.pairs import write_lines

TEXT = "the kinase binds β-catenin (p53) in human cells and regulates growth , by 3.5 % of α-synuclein"
WORDS = TEXT.split()


@pytest.fixture(autouse=True)
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without pycocoevalcap, unless a test undoes it: Java takes seconds to start."""
    monkeypatch.setattr(room, "why_no_captions", lambda: "needs pycocoevalcap")


@pytest.fixture
def with_the_extra(without_the_extra: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra as it is installed here, or a skip in capitals."""
    monkeypatch.undo()
    if why := room.why_no_captions():
        pytest.skip(f"SKIPPED: METEOR AND CIDER ARE NOT TESTED HERE, {why}")


def files(folder: Path, items: int, seed: int) -> tuple[Path, Path, list[str], list[str]]:
    print("seed", seed)
    rng = random.Random(seed)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(3, 20))) + "." for _ in range(items)]
    predictions = [
        " ".join(w if rng.random() < 0.7 else rng.choice(WORDS) for w in text.split()) for text in references
    ]
    groups = [rng.choice(["Human", "Bacteria"]) for _ in range(items)]
    wanted = write_lines(
        folder / "ref.jsonl",
        [{"id": i, "text": t, "organism_group": groups[i]} for i, t in enumerate(references)],
    )
    order = rng.sample(range(items), items)
    given = write_lines(folder / "pred.jsonl", [{"id": str(i), "text": predictions[i]} for i in order])
    return given, wanted, predictions, references


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bleu_and_rouge_equal_their_references(tmp_path: Path, seed: int) -> None:
    given, wanted, predictions, references = files(tmp_path, 40, seed)
    found = room.score(room.read_pairs(given, wanted), resamples=50)
    for order in (2, 4):
        reference = sacrebleu.BLEU(max_ngram_order=order).corpus_score(predictions, [references]).score
        assert found[f"bleu{order}"] == pytest.approx(reference, abs=1e-9)
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    for name in room.ROUGE:
        values = [scorer.score(r, p)[name].fmeasure for p, r in zip(predictions, references, strict=True)]
        assert found[name] == pytest.approx(np.mean(values), abs=1e-12)
        low, high = found["intervals"][name]
        assert low < found[name] < high


def test_each_group_is_scored_as_if_it_were_alone(tmp_path: Path) -> None:
    given, wanted, predictions, references = files(tmp_path, 30, 4)
    found = room.score(room.read_pairs(given, wanted), resamples=0)
    rows = [json.loads(line) for line in wanted.read_text(encoding="utf-8").splitlines()]
    for group in ("Human", "Bacteria"):
        mine = [row["id"] for row in rows if row["organism_group"] == group]
        reference = sacrebleu.BLEU(max_ngram_order=2).corpus_score(
            [predictions[i] for i in mine], [[references[i] for i in mine]]
        )
        assert found["groups"]["organism_group"][group]["bleu2"] == pytest.approx(reference.score)
        assert found["groups"]["organism_group"][group]["items"] == len(mine)
    assert found["intervals"]["bleu2"] == [None, None]


def test_the_same_text_scores_full_and_no_common_word_scores_nothing(tmp_path: Path) -> None:
    text = "the kinase binds a receptor in human cells"
    wanted = write_lines(tmp_path / "r.jsonl", [{"id": "a", "text": text}, {"id": "b", "text": text}])
    same = room.score(room.read_pairs(wanted, wanted))
    assert (round(same["bleu2"], 6), round(same["bleu4"], 6), same["rougeL"]) == (100, 100, 1)
    other = write_lines(tmp_path / "p.jsonl", [{"id": "a", "text": "x y"}, {"id": "b", "text": ""}])
    none = room.score(room.read_pairs(other, wanted))
    assert (none["bleu2"], none["rouge1"], none["rouge2"], none["rougeL"]) == (0, 0, 0, 0)


def test_an_item_of_two_classes_counts_in_both(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "text": "a b", "functional_class": ["Kinase", "Structural"]},
        {"id": 2, "text": "a b", "functional_class": ["Kinase"]},
        {"id": 3, "text": "a b"},
    ]
    wanted = write_lines(tmp_path / "r.jsonl", rows)
    groups = room.score(room.read_pairs(wanted, wanted))["groups"]["functional_class"]
    assert {name: one["items"] for name, one in groups.items()} == {"Kinase": 2, "Structural": 1, "none": 1}


def test_columns_may_be_chosen(tmp_path: Path) -> None:
    wanted = write_lines(tmp_path / "r.jsonl", [{"id": 1, "text": "a", "year": 2020, "group": "x"}])
    pairs = room.read_pairs(wanted, wanted)
    assert list(room.score(pairs)["groups"]) == ["group"]
    assert list(room.score(pairs, by=["year"])["groups"]) == ["year"]
    with pytest.raises(InputError, match="no line has a column 'colour'"):
        room.score(pairs, by=["colour"])


def test_without_the_extra_the_others_are_there_and_the_reason_is_told(tmp_path: Path) -> None:
    wanted = write_lines(tmp_path / "r.jsonl", [{"id": 1, "text": "a b c"}])
    found = room.score(room.read_pairs(wanted, wanted))
    assert {"bleu2", "bleu4", "rouge1", "rouge2", "rougeL"} <= found.keys()
    assert not {"meteor", "cider"} & found.keys()
    assert "meteor was not computed: needs pycocoevalcap" in render(found)


@pytest.mark.slow  # starts Java
@pytest.mark.usefixtures("with_the_extra")
def test_meteor_and_cider_equal_their_references(tmp_path: Path) -> None:
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    given, wanted, predictions, references = files(tmp_path, 8, 5)
    found = room.score(room.read_pairs(given, wanted), by=[], resamples=20)
    tokenized = [
        PTBTokenizer().tokenize({i: [{"caption": t}] for i, t in enumerate(texts)})
        for texts in (references, predictions)
    ]
    assert found["meteor"] == pytest.approx(Meteor().compute_score(*tokenized)[0])
    assert found["cider"] == pytest.approx(Cider().compute_score(*tokenized)[0])
    assert found["not_computed"] == {}


@pytest.mark.slow  # starts Java
@pytest.mark.usefixtures("with_the_extra")
def test_empty_texts_and_the_tools_own_separator_do_not_stop_meteor() -> None:
    scorer = room._caption_scorer(["", "...", "a ||| b\nc \u2028 d"], ["a b", "a b", "a b c d"])
    assert scorer.meteor([0, 1]) == 0
    assert scorer.meteor([2]) > 0.9
    assert scorer.cider()[0] == 0


@pytest.mark.parametrize(
    ("given", "wanted", "told"),
    [
        ('{"id": 1, "text": "a"}', "", "holds no references"),
        ('{"id": 2, "text": "a"}', '{"id": 1, "text": "a"}', "id '2' has no reference"),
        ("", '{"id": 1, "text": "a"}', "1 references have no prediction"),
        ('{"id": 1}', '{"id": 1, "text": "a"}', "line 1: no text"),
        ('{"text": "a"}', '{"id": 1, "text": "a"}', "line 1: no id"),
        ('{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}', '{"id": 1, "text": "a"}', "line 2: id '1' was"),
        ('["a"]', '{"id": 1, "text": "a"}', "not a JSON object"),
    ],
)
def test_files_that_do_not_fit_are_refused_with_their_line(
    tmp_path: Path, given: str, wanted: str, told: str
) -> None:
    (tmp_path / "p.jsonl").write_text(given, encoding="utf-8")
    (tmp_path / "r.jsonl").write_text(wanted, encoding="utf-8")
    with pytest.raises(InputError, match=told):
        room.read_pairs(tmp_path / "p.jsonl", tmp_path / "r.jsonl")


def test_missing_predictions_may_count_as_empty(tmp_path: Path) -> None:
    wanted = write_lines(tmp_path / "r.jsonl", [{"id": 1, "text": "a b"}, {"id": 2, "text": "a b"}])
    given = write_lines(tmp_path / "p.jsonl", [{"id": 1, "text": "a b"}])
    found = room.score(room.read_pairs(given, wanted, missing="empty"))
    assert found["rouge1"] == 0.5
    assert found["missing_predictions"] == 1
    assert "count as empty" in render(found)
