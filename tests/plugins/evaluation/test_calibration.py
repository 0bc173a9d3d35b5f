"""Verdicts found for rated pairs, and what a calibration says of judges, of their panel and of a threshold."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.plugins.evaluation.agreement import length_preference
from kgqa_hpc.plugins.evaluation.calibration import (
    _recommendation,
    best_threshold,
    calibrate,
    decide_block,
    good_items,
    out_of_fold,
    render,
)
from kgqa_hpc.plugins.evaluation.judges import rules, weighted
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA, Rating, Ratings
from kgqa_hpc.plugins.evaluation.records import opinion, read_verdicts
from kgqa_hpc.plugins.evaluation.retest import ask_judges
from kgqa_hpc.steps.decision import Decide, decision
from kgqa_hpc.steps.pair import Judge
from kgqa_hpc.steps.step import Step
from tests.plugins.evaluation.pairs import planted, rated
from tests.record_runs import jsonl


def calibrated(truth: np.ndarray, right: tuple[float, ...], seed: int, **changes: Any) -> dict[str, Any]:
    """The calibration of judges that are right with these probabilities on ratings that tell the truth."""
    judges = planted(truth, right, np.random.default_rng(seed))
    return calibrate(rated([4.0 if good else 2.0 for good in truth]), replace(judges, **changes))


def test_good_is_the_minimum_of_the_answer_scores_and_annotators_median() -> None:
    row = dict(zip(CRITERIA, (1.0, 3.0, 1.0, 4.0, 5.0), strict=True))
    low = row | {CRITERIA[4]: 2.0}
    votes = [("a", row), ("b", row), ("b", low), ("b", low), ("c", {CRITERIA[1]: 5.0})]
    ratings = (Rating(name, "", "", f"p{n}", scores) for n, (name, scores) in enumerate(votes))
    assert good_items(Ratings(CRITERIA, tuple(ratings))) == {"a": True, "b": False}


def test_the_majority_of_three_equal_judges_beats_each_and_is_found_where_there_are_enough() -> None:
    truth = np.random.default_rng(9).random(600) < 0.5
    document = calibrated(truth, (0.8, 0.8, 0.8), 9)
    assert document["panel"]["best"] in ("majority", "weighted")
    assert document["panel"]["rules"]["majority"]["kappa"]["value"] > 0.6
    assert "Best rule" in render(document)
    few = calibrated(truth[:40], (0.8, 0.8, 0.8), 10)
    assert few["panel"]["gap"]["low"] <= 0
    assert "which is noise" in render(few)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("all", {"rule": "all"}),
        ("1 of 3", {"rule": "at_least", "at_least": 1}),
        ("b alone", {"judges": ["b"], "rule": "all"}),
        ("weighted", {"rule": "weighted", "weights": {"a": 1.5, "b": 0.25, "c": 0.25}}),
    ],
)
def test_the_best_rule_is_given_as_a_runs_configuration(rule: str, expected: dict[str, Any]) -> None:
    block = decide_block(rule, ["a", "b", "c"], [1.5, 0.25, 0.25])
    assert block == {"judges": ["a", "b", "c"], **expected}
    decided = decision(Decide.model_validate(block), {n: lambda v: None if v["ok"] else "no" for n in "abc"})
    votes = np.array(list(np.ndindex(2, 2, 2)))
    weights = np.array([1.5, 0.25, 0.25])
    ours = {**rules(votes), "b alone": votes[:, 1], "weighted": weighted(votes, weights)}[rule]
    theirs = [decided.reason({n: {"ok": bool(v)} for n, v in zip("abc", row, strict=True)}) for row in votes]
    assert ours.tolist() == [int(reason is None) for reason in theirs]


def test_no_rule_is_recommended_where_kappa_of_the_others_is_unknown() -> None:
    kappas: dict[str, Any] = {"all": {"kappa": {"value": 0.0}}, "1 of 2": {"kappa": {"value": None}}}
    panel = {"best": "all", "next": None, "rules": kappas}
    assert _recommendation(panel).startswith("No rule is recommended")
    kappas["1 of 2"]["kappa"]["value"] = 0.0
    assert _recommendation(panel) == "Best rule: all; the others decide the same."


def test_a_planted_threshold_is_found_and_measured_on_other_items() -> None:
    rng = np.random.default_rng(11)
    truth = rng.random(400) < 0.5
    scores = np.where(truth, 3.0, 1.0) + rng.integers(0, 3, 400)  # 3..5 good, 1..3 bad
    assert best_threshold(scores, truth) in (3.0, 4.0)
    assert best_threshold(np.full(2, np.nan), truth[:2]) == np.inf
    threshold = calibrated(truth, (0.9,), 11, scores=scores[:, None])["judges"]["j0"]["threshold"]
    assert threshold["accept_from"] in (3.0, 4.0)
    assert threshold["kappa"]["value"] > 0.55
    blind = calibrated(truth, (0.9,), 11, scores=-scores[:, None])
    assert "no threshold of its score agrees with people beyond chance" in render(blind)


def test_a_fitted_rule_never_sees_the_items_it_decides() -> None:
    seen: list[tuple[set[int], set[int]]] = []

    def decide(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        seen.append((set(rows.tolist()), set(others.tolist())))
        return np.ones(len(others), dtype=np.int64)

    assert out_of_fold(decide, 53, 0).tolist() == [1] * 53
    assert all(not inside & outside for inside, outside in seen)
    assert set().union(*(outside for _, outside in seen)) == set(range(53))


def test_a_taste_for_length_shows_against_people() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random(500) < 0.5
    lengths = rng.normal(400, 100, 500)
    fond = np.where(rng.random(500) < 0.5, lengths > 400, truth).astype(np.int64)
    judges = (fond, truth.astype(np.int64))
    biased, fair = (length_preference(votes, truth, lengths, resamples=200) for votes in judges)
    assert biased["judge"]["low"] > biased["people"]["high"]
    assert fair["judge"]["value"] == fair["people"]["value"]


def test_a_runs_own_decision_stands_beside_its_judges(merged_run: Path) -> None:
    ids = [json.loads(line)["id"] for line in (merged_run / "dataset" / "accepted.jsonl").open()][:5]
    rows = [Rating(i, "q", "a", "p", dict.fromkeys(CRITERIA, 4.0)) for i in [*ids, "g-0070"]]
    ratings = Ratings(CRITERIA, tuple(rows))
    document = calibrate(ratings, read_verdicts(ratings, [merged_run]))
    assert list(document["judges"]) == ["judge"]
    assert document["decision"]["confusion"]["true_accept"] == 5
    assert document["decision"]["confusion"]["false_reject"] == 1
    assert document["judges"]["judge"]["auc"]["value"] is None  # all pairs are good: nothing to rank
    assert "undefined" in render(document)


def test_the_judges_of_a_configuration_are_asked_about_the_rated_pairs(tmp_path: Path) -> None:
    ratings, config = rated([5.0, 1.0] * 6), tmp_path / "strict.yaml"
    template = "engine: {kind: scripted, accept: 0.5}\npasses: [{name: main, steps: [generate, check%s]}]\n"
    config.write_text(template % ", {use: judge, as: one}, {use: judge, as: two}", encoding="utf-8")
    run = ask_judges(config, ratings, tmp_path / "kept")
    verdicts = read_verdicts(ratings, [run])
    assert verdicts.judges == ("one", "two")
    assert len(verdicts.items) == verdicts.by_id == 12
    assert (verdicts.votes >= 0).all()
    assert ask_judges(config, ratings, tmp_path / "kept") == run
    assert calibrate(ratings, verdicts)["judges"].keys() == {"one", "two"}
    config.write_text(template % "", encoding="utf-8")
    with pytest.raises(ConfigError, match="judges or scores"):
        ask_judges(config, ratings, tmp_path / "none")


FIELDS = st.sampled_from(["valid_question", "original_answer_valid", "novelty", "why", "score"])
VALUES = st.booleans() | st.text(max_size=3) | st.integers(0, 5)


@given(st.dictionaries(FIELDS, VALUES), st.booleans(), st.booleans())
def test_a_verdict_counts_in_a_panel_and_a_calibration_as_in_the_run(
    verdict: dict[str, Any], question: bool, answer: bool
) -> None:
    verdict |= {"valid_question": question, "original_answer_valid": answer}
    assert opinion(verdict).vote is (Judge.objection(verdict) is None)
    assert opinion(verdict).vote is (Step.objection(verdict) is None)


def test_the_objection_to_a_boolean_of_ones_own_names_it() -> None:
    verdict = {"valid_question": True, "original_answer_valid": True, "novelty": False}
    assert Judge.objection(verdict) == "novelty is false"


@pytest.mark.parametrize(
    ("verdict", "vote", "score"),
    [
        ({"a": True, "b": False, "why": "x"}, False, 0.5),
        ({"a": True}, True, 1.0),
        ({"score": 4, "fine": True}, True, 4.0),
        ({"one": 1, "two": 2.0}, None, 1.5),
        ({"why": "x"}, None, None),
        (True, True, 1.0),
        (3.5, None, 3.5),
    ],
)
def test_booleans_are_votes_and_numbers_scores(verdict: Any, vote: bool | None, score: float | None) -> None:
    assert (opinion(verdict).vote, opinion(verdict).score) == (vote, score)


def test_a_feature_may_stand_for_a_judge(tmp_path: Path) -> None:
    rows = [{"id": f"i{i}", "features": {"quality": float(i), "other": 1.0}} for i in range(4)]
    source = jsonl(tmp_path / "v.jsonl", rows)
    verdicts = read_verdicts(rated([4.0] * 4), [source], features=["quality"])
    assert verdicts.judges == ("quality",)
    assert verdicts.scores[:, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="--feature qualty: no rated record has it"):
        read_verdicts(rated([4.0] * 4), [source], features=["quality", "qualty"])


def test_verdicts_match_by_id_else_by_text(tmp_path: Path) -> None:
    yes, no = {"j": {"ok": True, "why": "x"}}, {"j": {"ok": False}}
    rows: list[dict[str, Any]] = [
        {"id": "i0", "question": "q 0", "answer": "a 0", "verdicts": yes},
        {"id": "other", "question": " q  1", "answer": "a 1\n", "verdicts": no},
        {"id": "i2", "question": "changed", "answer": "a 2", "verdicts": yes},
        {"id": "stranger", "question": "?", "answer": "!", "verdicts": yes},
        {"id": "i3", "verdicts": {}},
    ]
    verdicts = read_verdicts(rated([4.0] * 4), [jsonl(tmp_path / "v.jsonl", rows)])
    assert verdicts.items == ("i0", "i1", "i2", "i3")
    assert verdicts.votes[:, 0].tolist() == [1, 0, 1, -1]
    assert (verdicts.by_id, verdicts.by_text, verdicts.texts_differ) == (3, 1, 1)


def test_judges_of_two_sources_keep_apart(tmp_path: Path) -> None:
    sources = [
        jsonl(tmp_path / f"{name}.jsonl", [{"id": "i0", "verdicts": {"judge": {"ok": vote}}}])
        for name, vote in (("one", True), ("two", False))
    ]
    verdicts = read_verdicts(rated([4.0]), sources)
    assert verdicts.judges == ("one/judge", "two/judge")
    assert verdicts.votes.tolist() == [[1, 0]]
