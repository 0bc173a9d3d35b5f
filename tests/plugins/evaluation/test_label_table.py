"""Two columns of labels stand side by side: how often each names what, and how far they agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.label_table import label_table, render
from tests.plugins.evaluation.pairs import write_lines

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
    assert "Cohen's kappa of rule and judge: 0.400 [" in render(found)


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
