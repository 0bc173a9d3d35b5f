"""Hallucination rates with both published summaries."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.hallucination import audit, render
from tests.record_runs import jsonl

# QAProt, Table 3, in percent.
BEFORE = {"Claude Sonnet 4": 20.58, "Gemini 2.5 Pro": 17.77, "GPT-4o": 14.07}
AFTER = {"Claude Sonnet 4": 1.91, "Gemini 2.5 Pro": 2.77, "GPT-4o": 0.61}


def write_audit(path: Path, rates: dict[str, float], pairs: int = 100, model: str | None = None) -> Path:
    """An audit in which each judge finds exactly its share of hallucinations, each by one failed criterion."""
    rng = np.random.default_rng(len(path.name))
    numbers = {judge: round(share * pairs) for judge, share in rates.items()}
    flagged = {judge: {*rng.permutation(pairs)[:number].tolist()} for judge, number in numbers.items()}
    engine = {j: {"model": model or f"model of {j}"} for j in rates}
    lines: list[dict[str, Any]] = []
    for n in range(pairs):
        other = {"answerable": True, "reasoning": "x"}
        verdicts = {j: {"supported": n not in flagged[j], **other} for j in rates}
        lines.append({"id": f"p{n}", "verdicts": verdicts, "provenance": {"engine": engine}})
    return jsonl(path, lines)


def test_two_audits_of_published_rates_give_the_published_summaries_with_intervals(tmp_path: Path) -> None:
    # 10,000 pairs each, of which the published percentages are whole numbers.
    audits = [
        write_audit(tmp_path / f"{side}.jsonl", {name: share / 100 for name, share in rates.items()}, 10_000)
        for side, rates in (("before", BEFORE), ("after", AFTER))
    ]
    document = audit(*audits, resamples=300)
    assert [round(factor, 1) for factor in document["factors"].values()] == [10.8, 6.4, 23.1]
    means = document["mean_before"], document["mean_after"]
    assert [round(100 * mean, 2) for mean in means] == [17.47, 1.76]
    assert "mean of the judges' factors 13.4, ratio of the mean rates 9.9" in document["text"]
    assert document["mean_of_factors"] == pytest.approx(13.42, abs=0.005)
    assert document["ratio_of_means"] == pytest.approx(9.91, abs=0.005)
    intervals = document["intervals"]
    for value, (low, high) in (
        (document["mean_of_factors"], intervals["mean_of_factors"]),
        (document["ratio_of_means"], intervals["ratio_of_means"]),
        (0.1407, intervals["before"]["GPT-4o"]),
    ):
        assert low < value < high
    text = render(document)
    assert "mean of the judges' factors: 13.4 " in text
    assert "ratio of the mean rates: 9.9 " in text
    assert "--panel" in text


def test_a_judge_that_cleaned_may_not_audit(tmp_path: Path) -> None:
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2})
    after = write_audit(tmp_path / "after.jsonl", {"a": 0.1})
    others = write_audit(tmp_path / "cleaned.jsonl", {"x": 0.2})
    same = write_audit(tmp_path / "same.jsonl", {"x": 0.2}, model="model of a")
    assert audit(before, after, others, resamples=10)["panel_checked"] is True
    with pytest.raises(InputError, match="a judge agrees with itself"):
        audit(before, after, same, resamples=10)


def test_audits_by_different_judges_are_refused_and_missing_votes_are_in_no_rate(tmp_path: Path) -> None:
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2, "b": 0.4})
    with pytest.raises(InputError, match="same judges"):
        audit(before, write_audit(tmp_path / "after.jsonl", {"a": 0.1}), resamples=10)
    votes = [{"a": {"ok": n > 0}, **({"b": {"ok": False}} if n < 2 else {})} for n in range(4)]
    gaps = [{"id": str(n), "verdicts": verdicts} for n, verdicts in enumerate(votes)]
    assert audit(before, jsonl(tmp_path / "gaps.jsonl", gaps), resamples=10)["after"] == {"a": 0.25, "b": 1.0}


def test_a_judge_without_a_hallucination_left_has_no_factor_and_no_upper_end(tmp_path: Path) -> None:
    before, after = ({"a": 0.2, "b": 0.1}, {"a": 0.0, "b": 0.1})
    audits = (write_audit(tmp_path / f"{len(rates)}{rates['a']}", rates) for rates in (before, after))
    document = audit(*audits, resamples=20)
    assert (document["factors"], document["mean_of_factors"]) == ({"a": None, "b": 1.0}, None)
    assert document["ratio_of_means"] == pytest.approx(3.0)
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2})
    document = audit(before, write_audit(tmp_path / "after.jsonl", {"a": 0.0}), resamples=20)
    assert (document["factors"]["a"], document["intervals"]["ratio_of_means"]) == (None, None)
    assert "undefined" in document["text"]
    assert "undefined" in render(document)
