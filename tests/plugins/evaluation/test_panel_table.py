"""A run's judges, or columns of labels, are tabled from its records, gaps included, and size costs little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import Votes, agreement, agreement_table
from kgqa_hpc.plugins.evaluation.panel import label_table, panel_table, read_votes, render_labels
from tests.plugins.evaluation.pairs import write_lines


def lines(votes: list[dict[str, bool | None]]) -> list[dict[str, Any]]:
    """Records with these verdicts; None is a judge without a vote."""
    return [
        {"id": str(i), "verdicts": {name: {"ok": v} if v is not None else {} for name, v in row.items()}}
        for i, row in enumerate(votes)
    ]


def test_the_table_counts_what_each_judge_and_each_rule_accepts(tmp_path: Path) -> None:
    votes: list[dict[str, bool | None]] = [
        {"a": True, "b": True},
        {"a": True, "b": False},
        {"a": False, "b": None},
        {"b": True},
    ]
    found = panel_table(write_lines(tmp_path / "r.jsonl", lines(votes)))
    assert {n: (r["accepted"], r["rejected"], r["missing"]) for n, r in found["judges"].items()} == {
        "a": (2, 1, 1),
        "b": (2, 1, 1),
    }
    assert found["rules"]["all"]["accepted"] == 1
    assert found["rules"]["all"]["missing"] == 2
    assert found["alone"]["b"] == {"rejects_alone": 1, "accepts_alone": 0}
    assert found["agreement"]["voted_twice"] == 2


def test_a_judge_that_comes_late_has_gaps_before_and_after(tmp_path: Path) -> None:
    votes: list[dict[str, bool | None]] = [{"a": True}, {"a": True}, {"b": False}, {"a": False}]
    codes, judges = read_votes(write_lines(tmp_path / "r.jsonl", lines(votes)))
    assert judges == ("a", "b")
    assert codes.tolist() == [[1, -1], [1, -1], [-1, 0], [0, -1]]


def test_one_judge_is_tabled_without_agreement(merged_run: Path) -> None:
    found = panel_table(merged_run)
    assert found["records"] == 100
    assert found["judges"]["judge"]["accepted"] == 60
    assert found["agreement"] is None


def test_no_vote_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no record has a judge's vote"):
        panel_table(write_lines(tmp_path / "r.jsonl", [{"id": "1"}]))


def test_items_of_one_pattern_are_resampled_as_the_items_they_are() -> None:
    """The interval from counted patterns has the width that resampling single items gives."""
    rng = np.random.default_rng(3)
    truth = rng.random(400) < 0.5
    codes = np.stack([np.where(rng.random(400) < 0.85, truth, ~truth) for _ in range(2)], axis=1).astype(
        np.int64
    )
    found = agreement(Votes(codes, ("a", "b"), (False, True)), "krippendorff_alpha", resamples=2000)
    single = []
    for _ in range(400):
        rows = codes[rng.integers(0, 400, 400)]
        single.append(
            agreement(Votes(rows, ("a", "b"), (False, True)), "krippendorff_alpha", resamples=0).value or 0.0
        )
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low == pytest.approx(np.diff(np.quantile(single, [0.025, 0.975]))[0], rel=0.15)


def test_a_million_records_of_three_judges_have_few_patterns() -> None:
    codes = np.random.default_rng(4).integers(-1, 2, size=(1_000_000, 3))
    table = agreement_table(Votes(codes, ("a", "b", "c"), (False, True)))
    assert abs(table["krippendorff_alpha"]["value"]) < 0.01
    assert table["krippendorff_alpha"]["high"] - table["krippendorff_alpha"]["low"] < 0.01


# The example of Cohen's kappa that textbooks give: 20 and 15 of 50 alike, kappa 0.4.
ALIKE = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15


def source(folder: Path, pairs: list[tuple[str | None, str | None]]) -> Path:
    return write_lines(
        folder / "r.jsonl", [{"id": str(n), "rule": a, "judge": b} for n, (a, b) in enumerate(pairs)]
    )


def test_labels_and_their_confusion_are_counted_and_kappa_is_cohens(tmp_path: Path) -> None:
    found = label_table(source(tmp_path, [*ALIKE]), ["rule", "judge"])
    assert found["columns"]["rule"] == {"labels": {"no": 25, "yes": 25}, "missing": 0}
    assert found["columns"]["judge"] == {"labels": {"no": 20, "yes": 30}, "missing": 0}
    (confusion,) = found["confusion"]
    assert confusion["counts"] == {"no": {"no": 15, "yes": 10}, "yes": {"no": 5, "yes": 20}}
    (kappa,) = found["agreement"]["cohen_kappa"]
    assert kappa["value"] == pytest.approx(0.4)
    assert found["agreement"]["raw"]["value"] == pytest.approx(0.7)
    assert "Cohen's kappa of rule and judge: 0.400 [" in render_labels(found)


def test_what_has_no_label_in_one_column_is_counted_and_changes_no_agreement(tmp_path: Path) -> None:
    found = label_table(source(tmp_path, [*ALIKE, ("yes", None), (None, "other")]), ["rule", "judge"])
    assert (found["columns"]["rule"]["missing"], found["columns"]["judge"]["missing"]) == (1, 1)
    assert found["confusion"][0]["missing"] == 2
    assert found["agreement"]["cohen_kappa"][0]["value"] == pytest.approx(0.4)
    assert found["labels"] == ["no", "other", "yes"]


def test_three_columns_are_compared_two_by_two(tmp_path: Path) -> None:
    rows = [{"id": str(n), "a": x, "b": x, "c": "one"} for n, x in enumerate(["one", "two"] * 5)]
    found = label_table(write_lines(tmp_path / "r.jsonl", rows), ["a", "b", "c"])
    assert [one["columns"] for one in found["confusion"]] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert [one["value"] for one in found["agreement"]["cohen_kappa"]] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["rule"], "one column"), (["rule", "rule"], "one"), (["rule", "x"], "label in x")],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, columns: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        label_table(source(tmp_path, [*ALIKE]), columns)
