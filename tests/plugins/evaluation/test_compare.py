"""Bootstrap intervals; planted differences of variants are found, planted noise is called noise, both are drawn."""

import re
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.plugins.evaluation.agreement import estimate, interval, interval_text, mean_of, ratio
from kgqa_hpc.plugins.evaluation.judges import wilson
from kgqa_hpc.plugins.evaluation.study import Comparison, compare, recommendation, study_figures, summarise
from tests.plugins.evaluation.pairs import expand_histogram

PROMPT_5 = (4, 4, 19, 84, 206, 304, 379)  # BioGraphletQA's notebooks: scores 0 to 6 of prompt 5
BASE = expand_histogram(PROMPT_5)


def test_the_published_histogram_of_prompt_5_gives_its_mean() -> None:
    row = summarise(BASE)
    assert row["items"] == 1000
    assert round(row["mean"], 2) == 4.91
    assert [row["histogram"].get(str(k), 0) for k in range(7)] == list(PROMPT_5)
    assert row["low"] < 4.907 < row["high"]
    assert row["high"] - row["low"] == pytest.approx(2 * 1.96 * row["sd"] / 1000**0.5, rel=0.1)


def test_planted_order_differences_and_noise_are_found() -> None:
    rng = np.random.default_rng(5)
    scores = {
        name: np.clip(np.rint(BASE + shift + rng.normal(0, 0.6, len(BASE))), 0, 6)
        for name, shift in {"low": -2.0, "mid": -0.8, "top": 0.3}.items()
    }
    scores["twin"] = rng.permutation(scores["top"])
    scores["twin"][:3] -= 1
    near, mid, low = comparisons = compare(scores, paired=False)
    assert [(c.best, c.other) for c in comparisons] == [("top", "twin"), ("top", "mid"), ("top", "low")]
    assert near.p_holm > 0.05
    assert mid.p_holm < 0.001
    assert low.delta > mid.delta > near.delta
    text = recommendation(comparisons)
    assert "difference from twin is noise" in text
    assert "mid" not in text
    assert text.count("\n") == 0


def test_pairs_see_a_difference_that_unpaired_scores_do_not() -> None:
    rng = np.random.default_rng(6)
    base = rng.integers(1, 6, 300).astype(float)
    comparison = compare({"a": base, "b": base + (rng.random(300) < 0.08)}, paired=True)[0]
    assert comparison.best == "b"
    assert comparison.p_holm > 0.05
    assert (comparison.p_paired_holm or 0) < 1e-4
    assert recommendation([comparison]).startswith("Take b:")


def test_variants_that_are_all_the_same_are_noise() -> None:
    comparisons = compare(dict.fromkeys("abc", np.full(20, 3.0)), paired=True)
    assert {c.p_holm for c in comparisons} == {1.0}
    assert "no variant is told from it" in recommendation(comparisons)


def test_both_figures_name_every_variant_and_the_p_values(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    scores = {f"p{i}": np.clip(BASE - i * 0.5 * rng.random(1000), 0, 6).round() for i in range(7)}
    comparisons = compare(scores, paired=True)
    first, again = (study_figures(scores, comparisons, tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    box, histograms = (path.read_text(encoding="utf-8") for path in first)
    assert all(f">p{i}<" in box and f">p{i} (mean " in histograms for i in range(7))
    assert box.count("(p = ") == 2
    assert len(study_figures({"only": np.array([1.0, 2.0])}, [], tmp_path)) == 2


@pytest.mark.parametrize(
    ("scores", "criteria", "levels"),
    [([2.0, 3.0], 6, "0 1 2 3 4 5 6"), ([2.0, 3.0], 0, "2 3"), ([0.5, 7.0], 6, "0.5 7")],
)
def test_sums_of_criteria_are_shown_on_the_whole_scale_and_other_scores_on_their_own(
    tmp_path: Path, scores: list[float], criteria: int, levels: str
) -> None:
    pytest.importorskip("matplotlib")
    _, path = study_figures({"a": np.array(scores)}, [], tmp_path, criteria=criteria)
    axis = path.read_text(encoding="utf-8").partition('id="matplotlib.axis_2"')[0]
    assert " ".join(re.findall(r"<text [^>]*>([0-9.]+)</text>", axis)) == levels


def test_stars_tell_how_small_a_p_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scores = {name: np.array([1.0, 2.0]) for name in "abc"}
    for small, large, stars in ((0.0005, 0.005, ("***", "**")), (0.02, 0.2, ("*", "ns"))):
        pairs = (("b", small), ("c", large))
        comparisons = [Comparison("a", name, 0.0, p, p, 0.0, 0.0) for name, p in pairs]
        box = study_figures(scores, comparisons, tmp_path)[0].read_text(encoding="utf-8")
        assert tuple(re.findall(r">([*ns]+) \(p = ", box)) == stars


def test_the_interval_of_a_mean_is_about_that_of_the_normal_approximation_and_seeded() -> None:
    values = np.random.default_rng(1).normal(5, 2, 400)
    mean = estimate(mean_of(values), 400)
    half = 1.96 * values.std() / 20
    ends = [values.mean() - half, values.mean() + half]
    assert mean["value"] == pytest.approx(values.mean())
    assert [mean["low"], mean["high"]] == pytest.approx(ends, abs=0.03)
    assert estimate(mean_of(values), 400, seed=3) == estimate(mean_of(values), 400, seed=3)
    assert estimate(mean_of(values), 400, seed=3) != mean


def test_counted_rows_are_the_items_they_stand_for() -> None:
    levels, counts = np.array([1.0, 2.0, 5.0]), np.array([50.0, 30.0, 20.0])
    single = estimate(mean_of(np.repeat(levels, counts.astype(int))), 100, resamples=4000)
    counted = estimate(mean_of(levels), counts, resamples=4000)
    assert counted["value"] == single["value"]
    assert [counted["low"], counted["high"]] == pytest.approx([single["low"], single["high"]], abs=0.04)


def test_few_items_and_undefined_values_are_told_apart() -> None:
    assert estimate(mean_of(np.empty(0)), 0) == interval(None)
    assert estimate(mean_of(np.array([2.0])), 1) == interval(2.0)
    assert estimate(mean_of(np.array([np.nan, np.nan])), 2) == interval(None)
    rare = estimate(mean_of(np.array([np.nan] * 5 + [1.0])), 6)
    assert rare["value"] == 1.0
    assert rare["undefined"] > 0
    assert interval_text(interval(None)) == "undefined"
    assert interval_text(interval(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
    assert np.isnan(ratio(np.array([1.0, 2.0]), np.array([0.0, 4.0]))).tolist() == [True, False]
    assert wilson(0, 0)["value"] is None
