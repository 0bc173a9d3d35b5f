"""The bootstrap's intervals are those of the textbook, seeded, and say where a value is undefined."""

from __future__ import annotations

import numpy as np
import pytest

from kgqa_hpc.plugins.evaluation.bootstrap import (
    Estimate,
    estimate,
    estimate_counted,
    interval_text,
    mean_of,
    ratio,
)


def test_the_interval_of_a_mean_is_about_that_of_the_normal_approximation() -> None:
    values = np.random.default_rng(1).normal(5, 2, 400)
    found = estimate(mean_of(values), 400)
    half = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.high == pytest.approx(values.mean() + half, abs=0.03)


def test_counted_rows_are_the_items_they_stand_for() -> None:
    levels, counts = np.array([1.0, 2.0, 5.0]), np.array([50.0, 30.0, 20.0])
    single = estimate(mean_of(np.repeat(levels, counts.astype(int))), 100, resamples=4000)
    counted = estimate_counted(mean_of(levels), counts, resamples=4000)
    assert counted.value == single.value
    assert (counted.low, counted.high) == (
        pytest.approx(single.low, abs=0.04),
        pytest.approx(single.high, abs=0.04),
    )


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.arange(20.0)
    assert estimate(mean_of(values), 20, seed=3) == estimate(mean_of(values), 20, seed=3)
    assert estimate(mean_of(values), 20, seed=3) != estimate(mean_of(values), 20, seed=4)


def test_few_items_and_undefined_values_are_told_apart() -> None:
    assert estimate(mean_of(np.empty(0)), 0) == Estimate(None)
    assert estimate(mean_of(np.array([2.0])), 1) == Estimate(2.0)
    assert estimate(mean_of(np.array([np.nan, np.nan])), 2) == Estimate(None)
    rare = estimate(mean_of(np.array([np.nan] * 5 + [1.0])), 6)
    assert rare.value == 1.0
    assert rare.undefined > 0
    assert interval_text(Estimate(None).to_dict()) == "undefined"
    assert interval_text(Estimate(0.5, 0.25, 0.75).to_dict()) == "0.500 [0.250, 0.750]"


def test_a_share_of_nothing_is_undefined() -> None:
    assert np.isnan(ratio(np.array([1.0, 2.0]), np.array([0.0, 4.0]))).tolist() == [True, False]
