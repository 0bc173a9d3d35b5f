"""Each metric is its reference's on fixed cases, per group and in all; a judge's scores come back by id as metrics."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import score as module
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.evaluation.score import ASPECTS, read_pairs, render, score, write_joined
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Reject, Retry, Step
from tests.record_runs import chain_of, config_of, item_of, jsonl, made_run, stop

TEXT = "the kinase binds β-catenin (p53) in human cells and regulates growth , by 3.5 % of α-synuclein"
WORDS = TEXT.split()


@pytest.fixture(autouse=True)
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without pycocoevalcap, unless a test undoes it: Java takes seconds to start."""
    monkeypatch.setattr(module, "why_no_captions", lambda: "needs pycocoevalcap")


@pytest.fixture
def with_the_extra(without_the_extra: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra as it is installed here, or a skip in capitals."""
    monkeypatch.undo()
    if why := module.why_no_captions():
        pytest.skip(f"SKIPPED: METEOR AND CIDER ARE NOT TESTED HERE, {why}")


def files(folder: Path, items: int, seed: int) -> tuple[module.Pairs, list[str], list[str], list[str]]:
    """Pairs read from two files in different orders; their predictions, references and groups."""
    print("seed", seed)
    rng = random.Random(seed)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(3, 20))) + "." for _ in range(items)]
    predictions = [
        " ".join(w if rng.random() < 0.7 else rng.choice(WORDS) for w in text.split()) for text in references
    ]
    groups = [rng.choice(["Human", "Bacteria"]) for _ in range(items)]
    rows = [{"id": i, "text": t, "organism_group": groups[i]} for i, t in enumerate(references)]
    order = rng.sample(range(items), items)
    given = jsonl(folder / "pred.jsonl", [{"id": str(i), "text": predictions[i]} for i in order])
    return read_pairs(given, jsonl(folder / "ref.jsonl", rows)), predictions, references, groups


Rows = list[dict[str, Any]]


def pairs_of(folder: Path, rows: Rows, predictions: Rows | None = None) -> Any:
    """Pairs of these references with predictions, or with themselves."""
    wanted = jsonl(folder / "r.jsonl", rows)
    return read_pairs(jsonl(folder / "p.jsonl", rows if predictions is None else predictions), wanted)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bleu_and_rouge_equal_their_references_in_all_and_in_each_group(tmp_path: Path, seed: int) -> None:
    pairs, predictions, references, groups = files(tmp_path, 40, seed)
    document = score(pairs, resamples=50)
    scorer = RougeScorer(module.ROUGE)
    by_group = document["groups"]["organism_group"]
    for group, entry in {"all": document, **by_group}.items():
        rows = [i for i in range(40) if group in ("all", groups[i])]
        texts, expected = [predictions[i] for i in rows], [references[i] for i in rows]
        assert entry["items"] == len(rows)
        for order in (2, 4):
            reference = sacrebleu.BLEU(max_ngram_order=order).corpus_score(texts, [expected]).score
            assert entry[f"bleu{order}"] == pytest.approx(reference, abs=1e-9)
        for name in module.ROUGE:
            values = [scorer.score(r, p)[name].fmeasure for p, r in zip(texts, expected, strict=True)]
            assert entry[name] == pytest.approx(np.mean(values), abs=1e-12)
            low, high = entry["intervals"][name]
            assert low < entry[name] < high
    assert score(pairs, resamples=0)["intervals"]["bleu2"] == [None, None]


def test_the_same_text_scores_full_and_no_common_word_scores_nothing(tmp_path: Path) -> None:
    text = "the kinase binds a receptor in human cells"
    rows = [{"id": "a", "text": text}, {"id": "b", "text": text}]
    same = score(pairs_of(tmp_path, rows))
    assert (round(same["bleu2"], 6), round(same["bleu4"], 6), same["rougeL"]) == (100, 100, 1)
    assert not {"meteor", "cider"} & same.keys()
    assert "meteor was not computed: needs pycocoevalcap" in render(same)
    none = score(pairs_of(tmp_path, rows, [{"id": "a", "text": "x y"}, {"id": "b", "text": ""}]))
    assert (none["bleu2"], none["rouge1"], none["rouge2"], none["rougeL"]) == (0, 0, 0, 0)


def test_an_item_of_two_classes_counts_in_both_and_columns_may_be_chosen(tmp_path: Path) -> None:
    classes = (["Kinase", "Structural"], ["Kinase"], None)
    rows = [{"id": n, "text": "a b", "functional_class": c, "year": 2020} for n, c in enumerate(classes)]
    pairs = pairs_of(tmp_path, rows)
    groups = score(pairs)["groups"]
    sizes = {name: entry["items"] for name, entry in groups["functional_class"].items()}
    assert sizes == {"Kinase": 2, "Structural": 1, "none": 1}
    assert list(groups) == ["functional_class"]
    assert list(score(pairs, by=["year"])["groups"]) == ["year"]
    with pytest.raises(InputError, match="no line has a column 'colour'"):
        score(pairs, by=["colour"])


@pytest.mark.slow  # starts Java
@pytest.mark.usefixtures("with_the_extra")
def test_meteor_and_cider_equal_their_references(tmp_path: Path) -> None:
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    pairs, predictions, references, _ = files(tmp_path, 8, 5)
    document = score(pairs, by=[], resamples=20)
    tokenized = [
        PTBTokenizer().tokenize({i: [{"caption": t}] for i, t in enumerate(texts)})
        for texts in (references, predictions)
    ]
    assert document["meteor"] == pytest.approx(Meteor().compute_score(*tokenized)[0])
    assert document["cider"] == pytest.approx(Cider().compute_score(*tokenized)[0])
    assert document["not_computed"] == {}


@pytest.mark.slow  # starts Java
@pytest.mark.usefixtures("with_the_extra")
def test_empty_texts_and_the_tools_own_separator_do_not_stop_meteor() -> None:
    meteor, cider = module._caption_metrics(["", "...", "a ||| b\nc \u2028 d"], ["a b", "a b", "a b c d"])
    assert meteor([0, 1]) == 0
    assert meteor([2]) > 0.9
    assert cider[0] == 0


def test_missing_predictions_may_count_as_empty(tmp_path: Path) -> None:
    wanted = jsonl(tmp_path / "r.jsonl", [{"id": 1, "text": "a b"}, {"id": 2, "text": "a b"}])
    given = jsonl(tmp_path / "p.jsonl", [{"id": 1, "text": "a b"}])
    document = score(read_pairs(given, wanted, missing="empty"))
    assert (document["rouge1"], document["missing_predictions"]) == (0.5, 1)
    assert "count as empty" in render(document)


def four(folder: Path) -> module.Pairs:
    groups = ["human", "human", "bacteria", "bacteria"]
    rows = [{"id": n, "text": "a b", "question": "What?", "organism_group": g} for n, g in enumerate(groups)]
    return pairs_of(folder, rows, [{"id": n, "text": "a"} for n in range(4)])


def judged(folder: Path, planted: list[int | None]) -> Path:
    """Record n has the planted score in every aspect but fluency, which is one less; None: it was lost."""
    rows = []
    for n, value in enumerate(planted):
        scores = {f"j_{aspect}": value - (aspect == "fluency") for aspect in ASPECTS} if value else {}
        rows.append({"id": str(n), "features": {**scores, "other": 1.0}})
    return jsonl(folder / "judged.jsonl", [*rows, {"id": "stranger", "features": rows[0]["features"]}])


def test_planted_scores_give_their_means_by_aspect_and_group(tmp_path: Path) -> None:
    document = score(four(tmp_path), judged=judged(tmp_path, [5, 3, 2, 4]), resamples=50)
    assert (document["j_correctness"], document["j_fluency"]) == (3.5, 2.5)
    assert document["j_mean"] == pytest.approx(3.3)
    groups = document["groups"]["organism_group"]
    assert (groups["human"]["j_relevance"], groups["bacteria"]["j_relevance"]) == (4.0, 3.0)
    low, high = document["intervals"]["j_correctness"]
    assert 2 <= low < 3.5 < high <= 5
    assert document["scales"]["j_mean"] == 5


def test_items_that_were_not_judged_are_in_no_mean_and_counted(tmp_path: Path) -> None:
    document = score(four(tmp_path), judged=judged(tmp_path, [5, 3, None, None]), resamples=0)
    assert document["j_correctness"] == 4.0
    assert document["groups"]["organism_group"]["bacteria"]["j_correctness"] is None
    assert document["not_judged"]["j_correctness"] == 2
    assert "j_correctness: 2 were not judged" in render(document)
    with pytest.raises(InputError, match="scores none of these references"):
        score(four(tmp_path), judged=jsonl(tmp_path / "other.jsonl", [{"id": "x", "features": {}}]))


SCORES = dict(zip(ASPECTS, (5, 4, 3, 2, 0), strict=True))


@pytest.fixture
def step() -> Step:
    return chain_of({"use": "judge_prediction", "as": "a"})[0]


def item(prediction: str | None) -> Item:
    return item_of(question="What does it do?", answer="It carries copper.", prediction=prediction)


def test_the_judge_sees_all_three_texts_and_its_scores_are_features(step: Step) -> None:
    pair = item("It carries iron.")
    seen = step.request(pair, 0).messages[-1]["content"]
    assert all(text in seen for text in ("What does it do?", "It carries copper.", "It carries iron."))
    assert isinstance(step.take(pair, stop(json.dumps({"reasoning": "x", **SCORES})), 0), Done)
    assert pair.features == {f"a_{aspect}": float(value) for aspect, value in SCORES.items()}


@pytest.mark.parametrize("wrong", [-1, 6, True, 2.5, "3"])
def test_an_answer_outside_0_to_5_is_asked_again(step: Step, wrong: object) -> None:
    answer = json.dumps({"reasoning": "x", **SCORES, "relevance": wrong})
    assert isinstance(step.take(item("It."), stop(answer), 0), Retry)


def test_an_empty_prediction_scores_nothing_unasked_and_none_at_all_is_rejected(step: Step) -> None:
    empty, none = item(""), item(None)
    assert not step.asks_about(empty)
    assert isinstance(step.run(empty), Done)
    assert set(empty.features.values()) == {0.0}
    assert step.run(none) == Reject("a: no prediction")


def test_two_files_are_judged_by_a_run_and_come_back_as_metrics_of_each_group(tmp_path: Path) -> None:
    texts = {"question": "What?", "answer": "It carries copper.", "taxonomy": ["human", "mammals"]}
    predictions = [{"id": f"r{n}", "text": f"It {n}."} for n in range(12)]
    references = [{"id": f"r{n}", **texts} for n in range(12)]
    pairs = pairs_of(tmp_path, references, predictions)
    write_joined(tmp_path / "joined.jsonl", pairs.rows, pairs.predictions)
    line = json.loads((tmp_path / "joined.jsonl").read_text().splitlines()[0])
    assert {key: line[key] for key in texts} == texts
    assert (line["id"], line["prediction"]) == ("r0", "It 0.")
    with pytest.raises(InputError, match="no question"):
        write_joined(tmp_path / "j.jsonl", [{"id": 1, "text": "a"}], ["b"])
    run = made_run(tmp_path, config_of("judge_prediction", anchors="joined.jsonl"))
    document = score(pairs, judged=run, resamples=20)
    for name in (f"judge_prediction_{aspect}" for aspect in ASPECTS):
        values = [record[name] for record in records(run)]
        assert len(values) == 12
        assert document[name] == pytest.approx(sum(values) / 12)
        assert document["groups"]["taxonomy"]["mammals"][name] == document[name]
    others = pairs_of(tmp_path, references, [*predictions[:11], {"id": "r11", "text": "?"}])
    with pytest.raises(InputError, match="judged another prediction of 'r11'"):
        score(others, judged=run, resamples=20)
