"""A study whose truth is planted in the scripted engine: order, differences and what is none are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import mannwhitneyu, wilcoxon

from kgqa_hpc.plugins.evaluation import studies
from tests.by_path import load
from tests.plugins.evaluation.pairs import expand_histogram

MEANS = {"low": 3.4, "middle": 4.2, "same": 5.0, "best": 5.0}
ANCHORS = 150
TOOL = Path(__file__).parents[3] / "tools" / "planted_study.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("planted")
    config = load(TOOL).write_config(folder, MEANS, ANCHORS, garbage=0.0)
    document = studies.study(config, folder / "run", price=(1.0, 4.0))
    assert json.loads((folder / "run" / "study" / "study.json").read_text())["paired"] is True
    return document


def test_every_planted_mean_lies_in_its_interval_and_the_order_is_the_planted_one(found: dict) -> None:
    rows = {row["variant"]: row for row in found["variants"]}
    for name, mean in MEANS.items():
        assert abs(rows[name]["mean"] - mean) < 0.4, (name, rows[name])  # 4 standard errors
    assert rows["low"]["high"] < rows["middle"]["low"] <= rows["middle"]["high"] < rows["best"]["low"]
    assert sorted(rows, key=lambda name: rows[name]["mean"])[:2] == ["low", "middle"]


def test_planted_differences_are_found_and_the_planted_tie_is_called_noise(found: dict) -> None:
    by_other = {one["other"]: one for one in found["comparisons"]}
    assert by_other["low"]["p_paired_holm"] < 1e-6
    assert by_other["middle"]["p_paired_holm"] < 1e-3
    assert by_other["low"]["delta"] > by_other["middle"]["delta"] > 0.2
    tie = next(one for name, one in by_other.items() if name in ("same", "best"))
    assert tie["p_holm"] > 0.05
    assert tie["p_paired_holm"] > 0.05
    assert "noise" in found["recommendation"]


def test_u_and_p_are_those_of_scipy_on_the_histograms(found: dict) -> None:
    scores = {
        row["variant"]: expand_histogram({float(k): n for k, n in row["histogram"].items()})
        for row in found["variants"]
    }
    for one in found["comparisons"]:
        reference = mannwhitneyu(
            scores[one["best"]], scores[one["other"]], alternative="two-sided", method="asymptotic"
        )
        assert (one["u"], one["p"]) == pytest.approx((reference.statistic, reference.pvalue))


def test_what_a_prompt_takes_is_told_apart_from_what_scoring_takes_and_priced(found: dict) -> None:
    for row in found["variants"]:
        read, written = row["prompt_tokens"], row["completion_tokens"]
        assert 0 < read < 100
        assert row["scoring_tokens"] > written
        assert row["cost_of_1000"] == pytest.approx((read + 4 * written) / 1000)


def test_pairs_are_of_the_same_anchor() -> None:
    """Rows are paired by the anchor's id, not by the order in which shards hold them."""
    from kgqa_hpc.plugins.evaluation.study import Variant, score_arrays

    first = Variant(scores={"a": 1.0, "b": 2.0, "c": 6.0})
    second = Variant(scores={"c": 5.0, "a": 0.0, "b": 1.0})
    arrays = score_arrays({"x": first, "y": second})
    assert (arrays["x"] - arrays["y"]).tolist() == [1.0, 1.0, 1.0]
    assert wilcoxon(arrays["x"], arrays["y"]).statistic == 0.0
