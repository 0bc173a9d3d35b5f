"""A panel's rules, lone decisions and weights; a run's judges, or columns of labels, tabled from its records."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.plugins.evaluation import judges
from kgqa_hpc.plugins.evaluation.records import read_votes
from tests.plugins.evaluation.pairs import planted
from tests.record_runs import jsonl


def test_the_rules_of_a_panel() -> None:
    votes = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0], [1, -1, 1]])
    decisions = {name: decision.tolist() for name, decision in judges.rules(votes).items()}
    assert decisions == {"all": [1, 0, 0, 0, -1], "majority": [1, 1, 0, 0, -1], "1 of 3": [1, 1, 1, 0, -1]}
    assert judges.weighted(votes, np.array([5.0, 1.0, 1.0])).tolist() == [1, 1, 1, 0, -1]
    assert judges.rules(np.array([[1, 0]]))["majority"].tolist() == [0]


def test_who_decides_alone_and_who_differs_from_whom() -> None:
    votes = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [1, 0, -1]])
    alone = {name: tuple(counts.values()) for name, counts in judges.decides_alone(votes, "abc").items()}
    assert alone == {"a": (0, 0), "b": (0, 0), "c": (2, 1)}
    pair, with_gap, _ = judges.confusion(votes, "abc")
    counts = {"both": 3, "only_first": 1, "only_second": 0, "neither": 1, "missing": 0}
    assert pair == {"judges": ["a", "b"], **counts}
    assert with_gap["missing"] == 1
    assert judges.decides_alone(votes[:, :1], "a") == {"a": {"rejects_alone": 0, "accepts_alone": 0}}


def test_a_better_judge_weighs_more_and_a_coin_nothing() -> None:
    rng = np.random.default_rng(8)
    truth = rng.random(4000) < 0.5
    good, fair, coin = judges.log_odds_weights(planted(truth, (0.95, 0.7, 0.5), rng).votes, truth)
    assert good == pytest.approx(np.log(0.95 / 0.05), abs=0.3)
    assert fair == pytest.approx(np.log(0.7 / 0.3), abs=0.15)
    assert 0 < coin < 0.15
    assert judges.log_odds_weights(planted(truth, (0.3,), rng).votes, truth).tolist() == [judges.LEAST]


def lines(votes: list[dict[str, bool | None]]) -> list[dict[str, Any]]:
    """Records with these verdicts; None is a judge without a vote."""
    verdict = {True: {"ok": True}, False: {"ok": False}, None: {}}
    rows = ({name: verdict[vote] for name, vote in row.items()} for row in votes)
    return [{"id": str(i), "verdicts": row} for i, row in enumerate(rows)]


def test_the_table_counts_what_each_judge_and_each_rule_accepts(tmp_path: Path) -> None:
    full: list[dict[str, bool | None]] = [{"a": True, "b": True}, {"a": True, "b": False}]
    votes = [*full, {"a": False, "b": None}, {"b": True}]
    table = judges.panel_table(jsonl(tmp_path / "r.jsonl", lines(votes)))
    counts = {name: (r["accepted"], r["rejected"], r["missing"]) for name, r in table["judges"].items()}
    assert counts == {"a": (2, 1, 1), "b": (2, 1, 1)}
    assert (table["rules"]["all"]["accepted"], table["rules"]["all"]["missing"]) == (1, 2)
    assert table["alone"]["b"] == {"rejects_alone": 1, "accepts_alone": 0}
    assert table["agreement"]["voted_twice"] == 2


def test_a_judge_that_comes_late_has_gaps_before_and_after(tmp_path: Path) -> None:
    votes: list[dict[str, bool | None]] = [{"a": True}, {"a": True}, {"b": False}, {"a": False}]
    codes, names = read_votes(jsonl(tmp_path / "r.jsonl", lines(votes)))
    assert names == ("a", "b")
    assert codes.tolist() == [[1, -1], [1, -1], [-1, 0], [0, -1]]


def test_one_judge_is_tabled_without_agreement(merged_run: Path) -> None:
    table = judges.panel_table(merged_run)
    assert (table["records"], table["judges"]["judge"]["accepted"], table["agreement"]) == (100, 60, None)


# The example of Cohen's kappa that textbooks give: 20 and 15 of 50 alike, kappa 0.4.
ALIKE = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15


def source(folder: Path, pairs: list[tuple[str | None, str | None]]) -> Path:
    rows = [{"id": str(n), "rule": a, "judge": b, "third": "yes"} for n, (a, b) in enumerate(pairs)]
    return jsonl(folder / "r.jsonl", rows)


def test_labels_and_their_confusion_are_counted_and_kappa_is_cohens(tmp_path: Path) -> None:
    table = judges.label_table(source(tmp_path, [*ALIKE]), ["rule", "judge"])
    assert table["columns"]["rule"] == {"labels": {"no": 25, "yes": 25}, "missing": 0}
    assert table["columns"]["judge"] == {"labels": {"no": 20, "yes": 30}, "missing": 0}
    assert table["confusion"][0]["counts"] == {"no": {"no": 15, "yes": 10}, "yes": {"no": 5, "yes": 20}}
    assert table["agreement"]["cohen_kappa"][0]["value"] == pytest.approx(0.4)
    assert table["agreement"]["raw"]["value"] == pytest.approx(0.7)
    assert "Cohen's kappa of rule and judge: 0.400 [" in judges.render_labels(table)


def test_an_item_without_label_changes_no_agreement_and_three_columns_compare_by_two(tmp_path: Path) -> None:
    pairs = [*ALIKE, ("yes", None), (None, "other")]
    table = judges.label_table(source(tmp_path, pairs), ["rule", "judge", "third"])
    assert [table["columns"][name]["missing"] for name in ("rule", "judge")] == [1, 1]
    assert table["labels"] == ["no", "other", "yes"]
    pairs_of_columns = [pair["columns"] for pair in table["confusion"]]
    assert pairs_of_columns == [["rule", "judge"], ["rule", "third"], ["judge", "third"]]
    assert table["confusion"][0]["missing"] == 2
    kappas = [pair["value"] for pair in table["agreement"]["cohen_kappa"]]
    assert kappas == pytest.approx([0.4, 0.0, 0.0])
