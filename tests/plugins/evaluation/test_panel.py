"""A panel's rules, lone decisions and weights; judges or labels tabled from records; audits for hallucinations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.errors import InputError
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
    document = judges.audit(*audits, resamples=300)
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
    text = judges.render_audit(document)
    assert "mean of the judges' factors: 13.4 " in text
    assert "ratio of the mean rates: 9.9 " in text
    assert "--panel" in text


def test_a_judge_that_cleaned_may_not_audit(tmp_path: Path) -> None:
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2})
    after = write_audit(tmp_path / "after.jsonl", {"a": 0.1})
    others = write_audit(tmp_path / "cleaned.jsonl", {"x": 0.2})
    same = write_audit(tmp_path / "same.jsonl", {"x": 0.2}, model="model of a")
    assert judges.audit(before, after, others, resamples=10)["panel_checked"] is True
    with pytest.raises(InputError, match="a judge agrees with itself"):
        judges.audit(before, after, same, resamples=10)


def test_audits_by_different_judges_are_refused_and_missing_votes_are_in_no_rate(tmp_path: Path) -> None:
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2, "b": 0.4})
    with pytest.raises(InputError, match="same judges"):
        judges.audit(before, write_audit(tmp_path / "after.jsonl", {"a": 0.1}), resamples=10)
    votes = [{"a": {"ok": n > 0}, **({"b": {"ok": False}} if n < 2 else {})} for n in range(4)]
    gaps = [{"id": str(n), "verdicts": verdicts} for n, verdicts in enumerate(votes)]
    assert judges.audit(before, jsonl(tmp_path / "gaps.jsonl", gaps), resamples=10)["after"] == {
        "a": 0.25,
        "b": 1.0,
    }


def test_a_judge_without_a_hallucination_left_has_no_factor_and_no_upper_end(tmp_path: Path) -> None:
    before, after = ({"a": 0.2, "b": 0.1}, {"a": 0.0, "b": 0.1})
    audits = (write_audit(tmp_path / f"{len(rates)}{rates['a']}", rates) for rates in (before, after))
    document = judges.audit(*audits, resamples=20)
    assert (document["factors"], document["mean_of_factors"]) == ({"a": None, "b": 1.0}, None)
    assert document["ratio_of_means"] == pytest.approx(3.0)
    before = write_audit(tmp_path / "before.jsonl", {"a": 0.2})
    document = judges.audit(before, write_audit(tmp_path / "after.jsonl", {"a": 0.0}), resamples=20)
    assert (document["factors"]["a"], document["intervals"]["ratio_of_means"]) == (None, None)
    assert "undefined" in document["text"]
    assert "undefined" in judges.render_audit(document)
