"""What a calibration says of judges, of their panel and of a threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.plugins.evaluation.calibration import (
    _recommendation,
    best_threshold,
    calibrate,
    decide_block,
    good_items,
    out_of_fold,
    render,
)
from kgqa_hpc.plugins.evaluation.judged import measure
from kgqa_hpc.plugins.evaluation.panel import (
    rules,
    weighted,
)
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA, Rating, Ratings, read_ratings
from kgqa_hpc.plugins.evaluation.records import read_verdicts
from kgqa_hpc.plugins.evaluation.studies import ask_judges
from tests.plugins.evaluation.pairs import planted, rated


def test_good_is_the_minimum_of_the_answer_scores_and_annotators_median() -> None:
    row = dict(zip(CRITERIA, (1.0, 3.0, 1.0, 4.0, 5.0), strict=True))
    assert good_items(Ratings(CRITERIA, (Rating("a", "", "", "p", row),))) == {"a": True}
    low = row | {CRITERIA[4]: 2.0}
    votes = [Rating("a", "", "", who, scores) for who, scores in (("p", row), ("q", low), ("r", low))]
    assert good_items(Ratings(CRITERIA, tuple(votes))) == {"a": False}
    part = Rating("b", "", "", "p", {CRITERIA[1]: 5.0})
    assert good_items(Ratings(CRITERIA, (part,))) == {}


def test_the_majority_of_three_equal_judges_beats_each_and_is_found() -> None:
    rng = np.random.default_rng(9)
    truth = rng.random(600) < 0.5
    found = calibrate(rated([4.0 if t else 2.0 for t in truth]), planted(truth, (0.8, 0.8, 0.8), rng))
    assert found["panel"]["best"] in ("majority", "weighted")
    gap = measure(rules(planted(truth, (0.8,) * 3, rng).votes)["majority"], truth)["kappa"]["value"]
    assert gap > 0.6
    assert "Best rule" in render(found)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("all", {"judges": ["a", "b", "c"], "rule": "all"}),
        ("1 of 3", {"judges": ["a", "b", "c"], "rule": "at_least", "at_least": 1}),
        ("b alone", {"judges": ["b"], "rule": "all"}),
        (
            "weighted",
            {"judges": ["a", "b", "c"], "rule": "weighted", "weights": {"a": 1.5, "b": 0.25, "c": 0.25}},
        ),
    ],
)
def test_the_best_rule_is_given_as_a_runs_configuration(rule: str, expected: dict[str, Any]) -> None:
    from kgqa_hpc.steps.decision import Decide, decision

    block = decide_block(rule, ["a", "b", "c"], [1.5, 0.25, 0.25])
    assert block == expected
    decided = decision(Decide.model_validate(block), {n: lambda v: None if v["ok"] else "no" for n in "abc"})
    votes = np.array(list(np.ndindex(2, 2, 2)))
    weights = np.array([1.5, 0.25, 0.25])
    ours = {**rules(votes), "b alone": votes[:, 1], "weighted": weighted(votes, weights)}[rule]
    theirs = [decided.reason({n: {"ok": bool(v)} for n, v in zip("abc", row, strict=True)}) for row in votes]
    assert ours.tolist() == [int(reason is None) for reason in theirs]


def test_rules_that_cannot_be_told_apart_are_called_noise() -> None:
    rng = np.random.default_rng(10)
    truth = rng.random(40) < 0.5
    found = calibrate(rated([4.0 if t else 2.0 for t in truth]), planted(truth, (0.8, 0.8, 0.8), rng))
    assert found["panel"]["gap"]["low"] <= 0
    assert "which is noise" in render(found)


def test_no_rule_is_recommended_where_kappa_of_the_others_is_unknown() -> None:
    rules = {"all": {"kappa": {"value": 0.0}}, "1 of 2": {"kappa": {"value": None}}}
    panel = {"best": "all", "next": None, "rules": rules}
    assert _recommendation(panel).startswith("No rule is recommended")
    panel["rules"]["1 of 2"]["kappa"]["value"] = 0.0
    assert _recommendation(panel) == "Best rule: all; the others decide the same."


def test_a_planted_threshold_is_found_and_measured_on_other_items() -> None:
    rng = np.random.default_rng(11)
    truth = rng.random(400) < 0.5
    scores = np.where(truth, 3.0, 1.0) + rng.integers(0, 3, 400)  # 3..5 good, 1..3 bad
    assert best_threshold(scores, truth) in (3.0, 4.0)
    judge = planted(truth, (0.9,), rng)
    from dataclasses import replace

    found = calibrate(rated([4.0 if t else 2.0 for t in truth]), replace(judge, scores=scores[:, None]))
    threshold = found["judges"]["j0"]["threshold"]
    assert threshold["accept_from"] in (3.0, 4.0)
    assert threshold["kappa"]["value"] > 0.55


def test_what_is_fitted_never_sees_the_items_it_decides() -> None:
    seen: list[tuple[set[int], set[int]]] = []

    def fit(rows: np.ndarray) -> Any:
        def rule(others: np.ndarray) -> np.ndarray:
            seen.append((set(rows.tolist()), set(others.tolist())))
            return np.ones(len(others), dtype=np.int64)

        return rule

    assert out_of_fold(fit, 53, 0).tolist() == [1] * 53
    assert all(not inside & outside for inside, outside in seen)
    assert set().union(*(outside for _, outside in seen)) == set(range(53))


def test_how_many_ratings_are_needed_is_always_told() -> None:
    truth = np.array([True, False] * 53)
    found = calibrate(
        rated([4.0 if t else 2.0 for t in truth]), planted(truth, (0.9,), np.random.default_rng(0))
    )
    assert "106 ratings give kappa ± 0.19; ± 0.10 needs about 390" in render(found)
    assert found["needed"]["needed"] == 385


def test_a_runs_own_decision_stands_beside_its_judges(merged_run: Path) -> None:
    ids = [json.loads(line)["id"] for line in (merged_run / "dataset" / "accepted.jsonl").open()][:5]
    rows = tuple(Rating(i, "q", "a", "p", dict.fromkeys(CRITERIA, 4.0)) for i in [*ids, "g-0070"])
    found = calibrate(Ratings(CRITERIA, rows), read_verdicts(Ratings(CRITERIA, rows), [merged_run]))
    assert list(found["judges"]) == ["judge"]
    assert found["decision"]["confusion"]["true_accept"] == 5
    assert found["decision"]["confusion"]["false_reject"] == 1
    assert found["judges"]["judge"]["auc"]["value"] is None  # all pairs are good: nothing to rank
    assert "undefined" in render(found)


def test_ratings_that_do_not_say_what_is_good_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"ID,Question,Answer,{CRITERIA[0]},{CRITERIA[1]}\ni0,q,a,5,5\n", encoding="utf-8")
    ratings = read_ratings([path])
    verdicts = planted(np.array([True]), (1.0,), np.random.default_rng(0))
    with pytest.raises(InputError, match="rate more"):
        calibrate(ratings, verdicts)


def test_the_judges_of_a_configuration_are_asked_about_the_rated_pairs(tmp_path: Path) -> None:
    ratings = rated([5.0, 1.0] * 6)
    config = tmp_path / "strict.yaml"
    config.write_text(
        "engine: {kind: scripted, accept: 0.5}\n"
        "passes: [{name: main, steps: [generate, check, {use: judge, as: one}, {use: judge, as: two}]}]\n",
        encoding="utf-8",
    )
    run = ask_judges(config, ratings, tmp_path / "kept")
    verdicts = read_verdicts(ratings, [run])
    assert verdicts.judges == ("one", "two")
    assert len(verdicts.items) == verdicts.by_id == 12
    assert (verdicts.votes >= 0).all()
    assert ask_judges(config, ratings, tmp_path / "kept") == run
    assert calibrate(ratings, verdicts)["judges"].keys() == {"one", "two"}


def test_a_configuration_without_judges_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "none.yaml"
    config.write_text(
        "engine: {kind: scripted}\npasses: [{name: main, steps: [generate]}]\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="judges or scores"):
        ask_judges(config, rated([4.0]), tmp_path / "kept")
