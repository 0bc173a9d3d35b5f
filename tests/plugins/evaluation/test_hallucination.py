"""Hallucination rates with both published summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.hallucination import audit, reduction, render
from tests.plugins.evaluation.pairs import write_lines

# QAProt, Table 3, in percent.
BEFORE = {"Claude Sonnet 4": 20.58, "Gemini 2.5 Pro": 17.77, "GPT-4o": 14.07}
AFTER = {"Claude Sonnet 4": 1.91, "Gemini 2.5 Pro": 2.77, "GPT-4o": 0.61}


def test_the_published_rates_give_both_published_summaries() -> None:
    found = reduction(BEFORE, AFTER)
    assert [round(f or 0, 1) for f in found["factors"].values()] == [10.8, 6.4, 23.1]
    assert round(found["mean_of_factors"] or 0, 1) == 13.4
    assert round(found["ratio_of_means"] or 0, 1) == 9.9
    assert (round(found["mean_before"], 2), round(found["mean_after"], 2)) == (17.47, 1.76)
    assert "mean of the judges' factors 13.4, ratio of the mean rates 9.9" in found["text"]


def test_no_hallucination_left_gives_no_factor_but_the_ratio_of_means() -> None:
    found = reduction({"a": 0.2, "b": 0.1}, {"a": 0.0, "b": 0.1})
    assert found["factors"] == {"a": None, "b": 1.0}
    assert found["mean_of_factors"] is None
    assert found["ratio_of_means"] == pytest.approx(3.0)
    assert reduction({"a": 0.2}, {"a": 0.0})["ratio_of_means"] is None
    assert "undefined" in reduction({"a": 0.2}, {"a": 0.0})["text"]


def test_rates_of_different_judges_are_refused() -> None:
    with pytest.raises(ValueError, match="same judges"):
        reduction({"a": 1.0}, {"b": 1.0})
    with pytest.raises(ValueError, match="same judges"):
        reduction({}, {})


def write_audit(path: Path, rates: dict[str, float], pairs: int = 10_000, model: str | None = None) -> Path:
    """An audit in which each judge finds exactly its share of hallucinations, each by one failed criterion."""
    rng = np.random.default_rng(len(path.name))
    flagged = {
        judge: set(rng.permutation(pairs)[: round(share * pairs)].tolist()) for judge, share in rates.items()
    }
    lines: list[dict[str, Any]] = []
    for n in range(pairs):
        verdicts = {
            j: {"supported": n not in flagged[j], "answerable": True, "reasoning": "x"} for j in rates
        }
        engine = {j: {"model": model or f"model of {j}"} for j in rates}
        lines.append({"id": f"p{n}", "verdicts": verdicts, "provenance": {"engine": engine}})
    return write_lines(path, lines)


def test_two_audits_of_the_published_rates_give_the_published_summaries_with_intervals(
    tmp_path: Path,
) -> None:
    # 10,000 pairs each, of which the published percentages are whole numbers.
    before = write_audit(tmp_path / "before.jsonl", {name: share / 100 for name, share in BEFORE.items()})
    after = write_audit(tmp_path / "after.jsonl", {name: share / 100 for name, share in AFTER.items()})
    found = audit(before, after, resamples=300)
    assert found["mean_of_factors"] == pytest.approx(13.42, abs=0.005)
    assert found["ratio_of_means"] == pytest.approx(9.91, abs=0.005)
    for name in ("mean_of_factors", "ratio_of_means"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
    low, high = found["intervals"]["before"]["GPT-4o"]
    assert low < 0.1407 < high
    text = render(found)
    assert "mean of the judges' factors: 13.4 " in text
    assert "ratio of the mean rates: 9.9 " in text
    assert "--panel" in text


def test_a_judge_that_cleaned_may_not_audit(tmp_path: Path) -> None:
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2}, 100)
    after = write_audit(tmp_path / "after.jsonl", {"a": 0.1}, 100)
    others = write_audit(tmp_path / "cleaned.jsonl", {"x": 0.2}, 100)
    same = write_audit(tmp_path / "same.jsonl", {"x": 0.2}, 100, model="model of a")
    assert audit(before, after, others, resamples=10)["panel_checked"] is True
    with pytest.raises(InputError, match="a judge agrees with itself"):
        audit(before, after, same, resamples=10)


def test_audits_by_different_judges_are_refused_and_missing_votes_are_in_no_rate(tmp_path: Path) -> None:
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2, "b": 0.4}, 100)
    with pytest.raises(InputError, match="same judges"):
        audit(before, write_audit(tmp_path / "after.jsonl", {"a": 0.1}, 100), resamples=10)
    lines = [
        {"id": str(n), "verdicts": {"a": {"ok": n > 0}, **({"b": {"ok": False}} if n < 2 else {})}}
        for n in range(4)
    ]
    gaps = write_lines(tmp_path / "gaps.jsonl", lines)
    assert audit(before, gaps, resamples=10)["after"] == {"a": 0.25, "b": 1.0}


def test_no_hallucination_left_has_no_factor_and_no_upper_end(tmp_path: Path) -> None:
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2}, 100)
    after = write_audit(tmp_path / "after.jsonl", {"a": 0.0}, 100)
    found = audit(before, after, resamples=20)
    assert (found["factors"]["a"], found["intervals"]["ratio_of_means"]) == (None, None)
    assert "undefined" in render(found)
