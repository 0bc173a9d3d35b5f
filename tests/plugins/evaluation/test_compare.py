"""Planted differences are found, planted noise is called noise, and U and p are scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kgqa_hpc.plugins.evaluation.compare import (
    cliffs_delta,
    compare,
    holm,
    mann_whitney,
    recommendation,
    summarise,
    wilcoxon_signed_rank,
)
from tests.plugins.evaluation.pairs import expand_histogram

PROMPT_5 = (4, 4, 19, 84, 206, 304, 379)  # BioGraphletQA's notebooks: scores 0 to 6 of prompt 5

histograms = st.lists(st.integers(0, 40), min_size=7, max_size=7).filter(lambda h: sum(h) > 1)


def test_the_published_histogram_of_prompt_5_gives_its_mean() -> None:
    found = summarise("5", expand_histogram(PROMPT_5))
    assert found["items"] == 1000
    assert round(found["mean"], 2) == 4.91
    assert [found["histogram"].get(str(k), 0) for k in range(7)] == list(PROMPT_5)
    assert found["low"] < 4.907 < found["high"]
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * found["sd"] / 1000**0.5, rel=0.1)


@settings(max_examples=50, deadline=None)
@given(histograms, histograms)
def test_u_p_and_delta_on_planted_histograms_are_scipys(one: list[int], two: list[int]) -> None:
    a, b = expand_histogram(one), expand_histogram(two)
    u, p = mann_whitney(a, b)
    greater = (a[:, None] > b[None, :]).sum() + 0.5 * (a[:, None] == b[None, :]).sum()
    assert u == pytest.approx(greater)
    assert cliffs_delta(a, b) == pytest.approx(2 * u / (len(a) * len(b)) - 1)
    reference = stats.mannwhitneyu(a, b, alternative="two-sided", method="asymptotic")
    assert p == (pytest.approx(reference.pvalue) if not np.isnan(reference.pvalue) else 1.0)


def test_holm_equals_its_definition_and_the_reference() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    package = pytest.importorskip("statsmodels.stats.multitest")
    values = np.random.default_rng(1).random(14) ** 3
    assert holm(list(values)) == pytest.approx(package.multipletests(values, method="holm")[1].tolist())


def test_the_paired_test_is_scipys_and_equal_pairs_are_no_difference() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 7, 200), rng.integers(0, 7, 200)
    expected = stats.wilcoxon(a, b, zero_method="pratt", method="asymptotic").pvalue
    assert wilcoxon_signed_rank(a, b) == pytest.approx(expected)
    assert wilcoxon_signed_rank(a, a) == 1.0


def _planted(rng: np.random.Generator, shift: float, base: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(base + shift + rng.normal(0, 0.6, len(base))), 0, 6)


def test_planted_order_differences_and_noise_are_found() -> None:
    rng = np.random.default_rng(5)
    base = expand_histogram(PROMPT_5)
    scores = {
        "low": _planted(rng, -2.0, base),
        "mid": _planted(rng, -0.8, base),
        "top": _planted(rng, 0.3, base),
    }
    scores["twin"] = rng.permutation(scores["top"])
    scores["twin"][:3] -= 1
    found = compare(scores, paired=False)
    assert [c.best for c in found] == ["top"] * 3
    assert [c.other for c in found] == ["twin", "mid", "low"]
    assert found[0].p_holm > 0.05
    assert found[1].p_holm < 0.001
    assert found[2].delta > found[1].delta > found[0].delta
    text = recommendation(found)
    assert "noise" in text
    assert "twin" in text
    assert "mid" not in text
    assert text.count("\n") == 0


def test_pairs_see_a_difference_that_unpaired_scores_do_not() -> None:
    rng = np.random.default_rng(6)
    base = rng.integers(1, 6, 300).astype(float)
    better = base + (rng.random(300) < 0.08)
    paired = compare({"a": base, "b": better}, paired=True)[0]
    assert paired.best == "b"
    assert paired.p_holm > 0.05
    assert paired.p_paired_holm is not None
    assert paired.p_paired_holm < 1e-4
    assert recommendation([paired]).startswith("Take b:")


def test_variants_that_are_all_the_same_are_noise() -> None:
    same = np.full(20, 3.0)
    found = compare({"a": same, "b": same, "c": same}, paired=True)
    assert {c.p_holm for c in found} == {1.0}
    assert "no variant is told from it" in recommendation(found)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="two variants"):
        compare({"a": [1, 2]}, paired=False)
    with pytest.raises(ValueError, match="same anchors"):
        compare({"a": [1, 2], "b": [1]}, paired=True)
    with pytest.raises(ValueError, match="no scores"):
        summarise("a", [])
