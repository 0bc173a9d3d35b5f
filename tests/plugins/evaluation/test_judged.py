"""Judges of known error rates are measured as they are; intervals cover the truth at their rate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kgqa_hpc.plugins.evaluation.judged import auc, measure, wilson
from kgqa_hpc.plugins.evaluation.panel import (
    rules,
)
from tests.plugins.evaluation.planted import planted


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
