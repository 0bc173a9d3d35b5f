"""Judges of known error rates are measured as they are; intervals cover the truth at their rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.evaluate.calibration import (
    best_threshold,
    calibrate,
    decide_block,
    good_items,
    out_of_fold,
    render,
)
from kgqa_hpc.evaluate.judged import auc, measure, wilson
from kgqa_hpc.evaluate.panel import (
    LEAST,
    at_least,
    confusion,
    decides_alone,
    log_odds_weights,
    rules,
    weighted,
)
from kgqa_hpc.evaluate.ratings import Rating, Ratings, read_ratings
from kgqa_hpc.evaluate.scales import CRITERIA
from kgqa_hpc.evaluate.verdicts import Verdicts, opinion, read_verdicts
from kgqa_hpc.trials.studies import ask_judges
from tests.evaluate.pairs import write_lines


def rated(minimums: list[float | None], annotators: tuple[str, ...] = ("p",)) -> Ratings:
    rows = [
        Rating(f"i{i}", f"q {i}", f"a {i}", who, {} if low is None else dict.fromkeys(CRITERIA, float(low)))
        for who in annotators
        for i, low in enumerate(minimums)
    ]
    return Ratings(CRITERIA, tuple(rows))


def planted(truth: np.ndarray, right: tuple[float, ...], rng: np.random.Generator) -> Verdicts:
    """Judges that are right with the given probabilities, independently."""
    hits = rng.random((len(truth), len(right))) < np.array(right)
    votes = np.where(hits, truth[:, None], ~truth[:, None]).astype(np.int64)
    items = tuple(f"i{i}" for i in range(len(truth)))
    names = tuple(f"j{k}" for k in range(len(right)))
    return Verdicts(items, names, votes, votes.astype(float), votes[:, 0], len(truth), 0, 0)


def test_published_decisions_against_published_ratings_give_their_shares() -> None:
    """78 accepted of which 59 are good, 28 rejected of which 9 are (S0's data, 106 ratings)."""
    truth = np.array([True] * 59 + [False] * 19 + [True] * 9 + [False] * 19)
    decision = np.array([1] * 78 + [0] * 28)
    found = measure(decision, truth)
    assert round(100 * found["precision"]["value"], 2) == 75.64
    assert found["recall"]["value"] == pytest.approx(59 / 68)
    assert 1 - found["confusion"]["true_reject"] / 28 == pytest.approx(0.3214, abs=1e-4)
    assert found["kappa"]["value"] == pytest.approx(0.3903, abs=1e-4)


def test_intervals_cover_the_truth_at_about_their_rate() -> None:
    """A judge of known sensitivity and specificity on pairs of known quality, 200 seeded data sets of 200."""
    good, right = 0.6, 0.85
    agreement, accepted = right, good * right + (1 - good) * (1 - right)
    chance = good * accepted + (1 - good) * (1 - accepted)
    truths = {
        "precision": good * right / accepted,
        "recall": right,
        "accuracy": right,
        "kappa": (agreement - chance) / (1 - chance),
        "auc": right,
    }
    covered = dict.fromkeys(truths, 0)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        truth = rng.random(200) < good
        judge = planted(truth, (right,), rng)
        found = measure(judge.votes[:, 0], truth, resamples=300, seed=seed)
        found["auc"] = auc(judge.scores[:, 0], truth, resamples=300, seed=seed).to_dict()
        for name, value in truths.items():
            covered[name] += found[name]["low"] <= value <= found[name]["high"]
    print(covered)
    assert all(180 <= n <= 199 for n in covered.values()), covered  # 95 % of 200 is 190


def test_auc_is_mann_whitneys_u_as_a_share() -> None:
    rng = np.random.default_rng(3)
    truth, scores = rng.random(80) < 0.4, rng.integers(0, 5, 80).astype(float)
    u = stats.mannwhitneyu(scores[truth], scores[~truth]).statistic
    assert auc(scores, truth).value == pytest.approx(u / (truth.sum() * (~truth).sum()))
    assert auc(scores, np.ones(80, dtype=bool)).value is None
    gaps = scores.copy()
    gaps[:10] = np.nan
    assert auc(gaps, truth).value == pytest.approx(auc(scores[10:], truth[10:]).value)


def test_wilson_is_the_reference_and_knows_the_edges() -> None:
    package = pytest.importorskip("statsmodels.stats.proportion")
    for part, whole in ((0, 10), (10, 10), (7, 31)):
        low, high = package.proportion_confint(part, whole, method="wilson")
        found = wilson(part, whole)
        assert (found.low, found.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))
    assert wilson(0, 0).value is None


def test_good_is_the_minimum_of_the_answer_scores_and_annotators_median() -> None:
    row = dict(zip(CRITERIA, (1.0, 3.0, 1.0, 4.0, 5.0), strict=True))
    assert good_items(Ratings(CRITERIA, (Rating("a", "", "", "p", row),))) == {"a": True}
    low = row | {CRITERIA[4]: 2.0}
    votes = [Rating("a", "", "", who, scores) for who, scores in (("p", row), ("q", low), ("r", low))]
    assert good_items(Ratings(CRITERIA, tuple(votes))) == {"a": False}
    part = Rating("b", "", "", "p", {CRITERIA[1]: 5.0})
    assert good_items(Ratings(CRITERIA, (part,))) == {}


def test_the_rules_of_a_panel() -> None:
    votes = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0], [1, -1, 1]])
    assert rules(votes)["all"].tolist() == [1, 0, 0, 0, -1]
    assert rules(votes)["majority"].tolist() == [1, 1, 0, 0, -1]
    assert at_least(votes, 1).tolist() == [1, 1, 1, 0, -1]
    assert weighted(votes, np.array([5.0, 1.0, 1.0])).tolist() == [1, 1, 1, 0, -1]
    assert list(rules(votes)) == ["all", "majority", "1 of 3"]
    assert rules(np.array([[1, 0]]))["majority"].tolist() == [0]


def test_who_decides_alone_and_who_differs_from_whom() -> None:
    votes = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [1, 0, -1]])
    assert decides_alone(votes, "abc") == {
        "a": {"rejects_alone": 0, "accepts_alone": 0},
        "b": {"rejects_alone": 0, "accepts_alone": 0},
        "c": {"rejects_alone": 2, "accepts_alone": 1},
    }
    first = confusion(votes, "abc")[0]
    assert first == {
        "judges": ["a", "b"],
        "both": 3,
        "only_first": 1,
        "only_second": 0,
        "neither": 1,
        "missing": 0,
    }
    assert confusion(votes, "abc")[1]["missing"] == 1
    assert decides_alone(votes[:, :1], "a") == {"a": {"rejects_alone": 0, "accepts_alone": 0}}


def test_a_better_judge_weighs_more_and_a_coin_nothing() -> None:
    rng = np.random.default_rng(8)
    truth = rng.random(4000) < 0.5
    weights = log_odds_weights(planted(truth, (0.95, 0.7, 0.5), rng).votes, truth)
    assert weights[0] == pytest.approx(np.log(0.95 / 0.05), abs=0.3)
    assert weights[1] == pytest.approx(np.log(0.7 / 0.3), abs=0.15)
    assert 0 < weights[2] < 0.15
    worse = log_odds_weights(planted(truth, (0.3,), rng).votes, truth)
    assert worse.tolist() == [LEAST]


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


def test_a_feature_may_stand_for_a_judge(tmp_path: Path) -> None:
    rows = [{"id": f"i{i}", "features": {"quality": float(i), "other": 1.0}} for i in range(4)]
    source = write_lines(tmp_path / "v.jsonl", rows)
    found = read_verdicts(rated([4.0] * 4), [source], features=["quality"])
    assert found.judges == ("quality",)
    assert found.scores[:, 0].tolist() == [0, 1, 2, 3]


def test_rules_that_cannot_be_told_apart_are_called_noise() -> None:
    rng = np.random.default_rng(10)
    truth = rng.random(40) < 0.5
    found = calibrate(rated([4.0 if t else 2.0 for t in truth]), planted(truth, (0.8, 0.8, 0.8), rng))
    assert found["panel"]["gap"]["low"] <= 0
    assert "which is noise" in render(found)


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


def test_verdicts_match_by_id_else_by_text(tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "v.jsonl",
        [
            {"id": "i0", "question": "q 0", "answer": "a 0", "verdicts": {"j": {"ok": True, "why": "x"}}},
            {"id": "other", "question": " q  1", "answer": "a 1\n", "verdicts": {"j": {"ok": False}}},
            {"id": "i2", "question": "changed", "answer": "a 2", "verdicts": {"j": {"ok": True}}},
            {"id": "stranger", "question": "?", "answer": "!", "verdicts": {"j": {"ok": True}}},
            {"id": "i3", "verdicts": {}},
        ],
    )
    found = read_verdicts(rated([4.0] * 4), [source])
    assert found.items == ("i0", "i1", "i2", "i3")
    assert found.votes[:, 0].tolist() == [1, 0, 1, -1]
    assert (found.by_id, found.by_text, found.texts_differ) == (3, 1, 1)


def test_a_runs_own_decision_stands_beside_its_judges(merged_run: Path) -> None:
    ids = [json.loads(line)["id"] for line in (merged_run / "dataset" / "accepted.jsonl").open()][:5]
    rows = tuple(Rating(i, "q", "a", "p", dict.fromkeys(CRITERIA, 4.0)) for i in [*ids, "g-0070"])
    found = calibrate(Ratings(CRITERIA, rows), read_verdicts(Ratings(CRITERIA, rows), [merged_run]))
    assert list(found["judges"]) == ["judge"]
    assert found["decision"]["confusion"]["true_accept"] == 5
    assert found["decision"]["confusion"]["false_reject"] == 1
    assert found["judges"]["judge"]["auc"]["value"] is None  # all pairs are good: nothing to rank
    assert "undefined" in render(found)


def test_judges_of_two_sources_keep_apart(tmp_path: Path) -> None:
    for name, vote in (("one", True), ("two", False)):
        write_lines(tmp_path / f"{name}.jsonl", [{"id": "i0", "verdicts": {"judge": {"ok": vote}}}])
    found = read_verdicts(rated([4.0]), [tmp_path / "one.jsonl", tmp_path / "two.jsonl"])
    assert found.judges == ("one/judge", "two/judge")
    assert found.votes.tolist() == [[1, 0]]


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
def test_booleans_are_a_vote_and_numbers_a_score(
    verdict: Any, vote: bool | None, score: float | None
) -> None:
    assert (opinion(verdict).vote, opinion(verdict).score) == (vote, score)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([{"id": "x", "question": "n", "answer": "o"}], "no record is one of the rated pairs"),
        ([{"id": "i0"}], "hold no verdicts"),
        ([{"id": "i0", "verdicts": [1]}], "verdicts is not an object"),
        ([{"question": "q"}], "line 1: no id"),
    ],
)
def test_sources_without_verdicts_are_refused(tmp_path: Path, lines: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_verdicts(rated([4.0]), [write_lines(tmp_path / "v.jsonl", lines)])


def test_broken_json_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"id": "i0"}\n{"id"\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2: not JSON"):
        read_verdicts(rated([4.0]), [tmp_path / "v.jsonl"])


def test_a_configuration_in_place_of_verdicts_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("seed: 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="ask the judge first"):
        read_verdicts(rated([4.0]), [tmp_path / "judge.yaml"])


def test_ratings_that_do_not_say_what_is_good_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"ID,Question,Answer,{CRITERIA[0]},{CRITERIA[1]}\ni0,q,a,5,5\n", encoding="utf-8")
    ratings = read_ratings([path])
    verdicts = planted(np.array([True]), (1.0,), np.random.default_rng(0))
    with pytest.raises(InputError, match="rate more"):
        calibrate(ratings, verdicts)


def test_a_panels_intervals_cover_what_its_judges_errors_imply() -> None:
    """Three independent judges, each right with 0.8: their majority is right with 0.896, `all` with 0.752."""
    truths = {"majority": 0.8**3 + 3 * 0.8**2 * 0.2, "all": (0.8**3 + 1 - 0.2**3) / 2}
    covered = dict.fromkeys(truths, 0)
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        truth = rng.random(200) < 0.5
        votes = planted(truth, (0.8, 0.8, 0.8), rng).votes
        for name, decision in ((name, rules(votes)[name]) for name in ("majority", "all")):
            accuracy = truths[name]
            found = measure(decision, truth, resamples=300, seed=seed)
            covered[name] += found["accuracy"]["low"] <= accuracy <= found["accuracy"]["high"]
            assert found["kappa"]["low"] < found["kappa"]["value"] < found["kappa"]["high"]
    print(covered)
    assert all(180 <= n <= 199 for n in covered.values()), covered


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
