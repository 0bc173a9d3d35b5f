"""The rules of a panel: accepted items, lone decisions, and weights of judges."""

from __future__ import annotations

import numpy as np
import pytest

from kgqa_hpc.plugins.evaluation.panel import (
    LEAST,
    at_least,
    confusion,
    decides_alone,
    log_odds_weights,
    rules,
    weighted,
)
from tests.plugins.evaluation.planted import planted


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
