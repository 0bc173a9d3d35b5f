"""Planted unreliability and a planted taste for length are found; honest judges show neither."""

from __future__ import annotations

import numpy as np
import pytest

from kgqa_hpc.plugins.evaluation.judged import length_preference, retest


def test_a_judge_that_says_the_same_again_never_flips() -> None:
    votes = np.array([1, 0, 1, 1, 0, -1])
    found = retest(votes, votes)
    assert (found["items"], found["same"]["value"], found["kappa"], found["p"]) == (5, 1.0, 1.0, 1.0)


def test_random_flips_are_unreliable_but_no_bias_and_one_way_flips_are() -> None:
    rng = np.random.default_rng(1)
    first = (rng.random(400) < 0.5).astype(np.int64)
    noisy = np.where(rng.random(400) < 0.1, 1 - first, first)
    biased = np.where((first == 0) & (rng.random(400) < 0.2), 1, first)
    noise, bias = retest(first, noisy), retest(first, biased)
    assert noise["same"]["value"] == pytest.approx(0.9, abs=0.05)
    assert noise["p"] > 0.05
    assert bias["to_reject"] == 0
    assert bias["p"] < 1e-6


def test_mcnemar_is_the_reference() -> None:
    package = pytest.importorskip("statsmodels.stats.contingency_tables")
    first = np.array([1] * 30 + [0] * 30 + [1] * 9 + [0] * 3)
    second = np.array([1] * 30 + [0] * 30 + [0] * 9 + [1] * 3)
    reference = package.mcnemar([[30, 9], [3, 30]], exact=True)
    assert retest(first, second)["p"] == pytest.approx(reference.pvalue)


def test_nothing_judged_twice_is_undefined() -> None:
    found = retest(np.array([1, -1]), np.array([-1, 0]))
    assert (found["items"], found["same"]["value"], found["kappa"]) == (0, None, None)


def test_a_taste_for_length_shows_against_people() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random(500) < 0.5
    lengths = rng.normal(400, 100, 500)
    fond = np.where(rng.random(500) < 0.5, lengths > 400, truth).astype(np.int64)
    honest = truth.astype(np.int64)
    found, fair = (length_preference(v, truth, lengths, resamples=200) for v in (fond, honest))
    assert found["judge"]["low"] is not None
    assert found["people"]["high"] is not None
    assert found["judge"]["low"] > found["people"]["high"]
    assert fair["judge"]["value"] == fair["people"]["value"]
