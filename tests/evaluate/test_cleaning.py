"""Hallucination rates with both published summaries, and the debiased sampler against its expectation."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from kgqa_hpc.evaluate.debias import debiased_sample, inverse_frequency_weights
from kgqa_hpc.evaluate.hallucination import is_hallucination, rate, reduction

# QAProt, Table 3, in percent.
BEFORE = {"Claude Sonnet 4": 20.58, "Gemini 2.5 Pro": 17.77, "GPT-4o": 14.07}
AFTER = {"Claude Sonnet 4": 1.91, "Gemini 2.5 Pro": 2.77, "GPT-4o": 0.61}


def test_the_published_rates_give_both_published_summaries() -> None:
    found = reduction(BEFORE, AFTER)
    assert [round(f or 0, 1) for f in found.factors.values()] == [10.8, 6.4, 23.1]
    assert round(found.mean_of_factors or 0, 1) == 13.4
    assert round(found.ratio_of_means or 0, 1) == 9.9
    assert (round(found.mean_before, 2), round(found.mean_after, 2)) == (17.47, 1.76)
    assert "mean of the judges' factors 13.4, ratio of the mean rates 9.9" in str(found)


def test_no_hallucination_left_gives_no_factor_but_the_ratio_of_means() -> None:
    found = reduction({"a": 0.2, "b": 0.1}, {"a": 0.0, "b": 0.1})
    assert found.factors == {"a": None, "b": 1.0}
    assert found.mean_of_factors is None
    assert found.ratio_of_means == pytest.approx(3.0)
    assert reduction({"a": 0.2}, {"a": 0.0}).ratio_of_means is None
    assert "undefined" in str(reduction({"a": 0.2}, {"a": 0.0}))


def test_rates_of_different_judges_are_refused() -> None:
    with pytest.raises(ValueError, match="same judges"):
        reduction({"a": 1.0}, {"b": 1.0})
    with pytest.raises(ValueError, match="same judges"):
        reduction({}, {})


def test_one_failed_criterion_is_a_hallucination() -> None:
    assert is_hallucination({"support": True, "answerability": False, "entities": True})
    assert not is_hallucination({"support": True, "answerability": True})
    assert rate(412, 2000).value == pytest.approx(0.206)


def test_weights_are_the_products_of_inverse_frequencies() -> None:
    topic, organism = ["a", "a", "a", "b"], ["x", "y", "y", "y"]
    raw = np.array([1 / 3 * 1, 1 / 3 / 3, 1 / 3 / 3, 1 / 3])
    assert inverse_frequency_weights([topic, organism]) == pytest.approx(raw / raw.sum())
    one = inverse_frequency_weights([topic])
    assert one[3] == pytest.approx(0.5)
    assert one[:3].sum() == pytest.approx(0.5)


def _inclusion(weights: np.ndarray, number: int) -> np.ndarray:
    """The chance of each row to be among the first `number` drawn one by one, by enumeration."""
    chances = np.zeros(len(weights))
    for order in permutations(range(len(weights)), number):
        left, chance = 1.0, 1.0
        for row in order:
            chance *= weights[row] / left
            left -= weights[row]
        chances[list(order)] += chance
    return chances


@pytest.mark.parametrize("number", [1, 2, 3])
def test_rows_are_drawn_with_their_expected_chance(number: int) -> None:
    columns = [["a", "a", "a", "b", "b", "c"], ["x", "x", "y", "y", "y", "y"]]
    expected = _inclusion(inverse_frequency_weights(columns), number)
    draws = 20_000
    counts = np.zeros(6)
    for seed in range(draws):
        counts[debiased_sample(columns, number, seed)] += 1
    error = np.sqrt(expected * (1 - expected) / draws)
    print(counts / draws, expected)
    assert np.all(
        np.abs(counts / draws - expected) < 4.5 * error
    )  # 1 in 150,000 by chance, and the seeds are fixed


def test_classes_come_out_even_where_there_are_enough() -> None:
    labels = np.repeat(["common", "rare", "rarest"], [9000, 900, 300])
    drawn = labels[debiased_sample([labels], 300, seed=5)]
    assert all(70 <= (drawn == name).sum() <= 130 for name in ("common", "rare", "rarest"))


def test_the_sample_is_without_replacement_nested_and_seeded() -> None:
    labels = np.array(["a", "b", "b", "b"] * 25)
    small, large = debiased_sample([labels], 10, 1), debiased_sample([labels], 60, 1)
    assert np.array_equal(small, large[:10])
    assert len(set(large.tolist())) == 60
    assert not np.array_equal(small, debiased_sample([labels], 10, 2))
    assert sorted(debiased_sample([labels], 1000, 1).tolist()) == list(range(100))


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        debiased_sample([["a"], ["a", "b"]], 1, 0)
    with pytest.raises(ValueError, match="one length"):
        debiased_sample([], 1, 0)
    with pytest.raises(ValueError, match="fewer than no"):
        debiased_sample([["a"]], -1, 0)
