"""Hallucination rates with both published summaries."""

from __future__ import annotations

import pytest

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
