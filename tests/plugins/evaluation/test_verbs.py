"""The verbs: results on stdout, exit 2 with one clear line where the user can mend it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.cli import grounding_counts
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA
from tests import command
from tests.plugins.evaluation.pairs import write_lines

kgqa = partial(
    command.kgqa, code=None, PATH=""
)  # without a PATH there is no Java, which METEOR takes seconds to start


def test_sample_page_analyse_and_calibrate_go_together(merged_run: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "s.csv"
    drawn = kgqa("human", "sample", merged_run, sheet, "--number", 20, "--json")
    assert drawn.returncode == 0, drawn.stderr
    assert json.loads(drawn.stdout)["power"]["accepted"] == 10
    assert kgqa("human", "page", sheet, tmp_path / "p.html").stdout.endswith("20 items\n")
    rated = tmp_path / "rated.csv"
    rated.write_text(
        sheet.read_text(encoding="utf-8").replace(",,,,,,,\n", ",5,4,3,3,4,,\n"), encoding="utf-8"
    )
    found = kgqa("human", "analyse", rated, "--key", tmp_path / "s.key.csv", "--json")
    document = json.loads(found.stdout)
    assert document["accepted"] == dict(zip(CRITERIA, (5, 4, 3, 3, 4), strict=True))
    assert document["all"] == document["rejected"] == document["accepted"]
    assert set(document["share_3"].values()) == {1.0}
    judged = kgqa("calibrate", rated, "--judge", merged_run, "--json")
    assert json.loads(judged.stdout)["judges"]["judge"]["confusion"]["true_accept"] == 10
    assert "± 0.10 needs about 390" in kgqa("calibrate", rated, "--judge", merged_run).stdout


def test_score_prints_the_metrics_by_name(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "r.jsonl", [{"id": "1", "text": "one two three four five"}])
    found = kgqa("score", lines, lines, "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["bleu2"] == pytest.approx(100)
    assert document["rougeL"] == 1
    assert set(document["not_computed"]) == {"meteor", "cider"}
    assert "bleu4" in kgqa("score", lines, lines).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("human", "sample", "nowhere", "s.csv"),
        ("human", "page", "nowhere.csv", "p.html"),
        ("human", "analyse", "nowhere.csv"),
        ("calibrate", "nowhere.csv", "--judge", "nowhere"),
        ("score", "nowhere.jsonl", "nowhere.jsonl"),
    ],
)
def test_what_is_not_there_is_exit_2_and_one_line(words: tuple[str, ...]) -> None:
    found = kgqa(*words)
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.startswith("error: nowhere")
    assert len(found.stderr.splitlines()) <= 2


def test_panel_tells_of_each_judge_and_hallucination_of_two_audits(tmp_path: Path) -> None:
    votes = [(True, True), (True, False), (False, False), (True, True)]
    rows = [{"id": str(n), "verdicts": {"a": {"ok": a}, "b": {"ok": b}}} for n, (a, b) in enumerate(votes)]
    source = write_lines(tmp_path / "votes.jsonl", rows)
    text = kgqa("panel", source).stdout
    assert "a and b: both accept 2, only the first 1, only the second 0, neither 1" in text
    assert "b: alone rejects 1" in text
    assert "Krippendorff's alpha: 0.5" in text
    assert json.loads(kgqa("panel", source, "--json").stdout)["rules"]["all"]["accepted"] == 2
    found = kgqa("hallucination", source, source, "--json")
    assert json.loads(found.stdout)["ratio_of_means"] == 1
    assert kgqa("hallucination", source, source, "--panel", source).returncode == 2


# Pairs with 0, 1, … 10 relevant documents of ten (BioGraphletQA, Figure 7).
RELEVANT = (2734, 3539, 4095, 4411, 4553, 4460, 4383, 4342, 4511, 5018, 7954)


def test_grounding_gives_the_published_mean_and_share_and_passes_over_other_records(tmp_path: Path) -> None:
    quotes = {"quotes_kept": 2, "quotes_dropped": 1}
    numbers = [n for n, pairs in enumerate(RELEVANT) for _ in range(pairs)]
    rows: list[dict[str, Any]] = [{"relevant_documents": n, **quotes} for n in (None, *numbers)]
    source = write_lines(tmp_path / "r.jsonl", [{"id": str(i), **row} for i, row in enumerate([{}, *rows])])
    document = json.loads(kgqa("grounding", source, "--json").stdout)
    assert document["pairs"] == 50_000
    assert list(document["relevant_documents"].values()) == list(RELEVANT)
    assert round(document["mean"], 2) == 5.66
    assert round(1 - document["share_without"], 3) == 0.945
    assert document["quotes"] == {"kept": 100_000, "dropped": 50_000}
    text = kgqa("grounding", source).stdout
    assert "50,000 pairs, 5.66 relevant documents each; 5.5% have none" in text


def test_a_number_of_documents_that_no_pair_has_is_0_and_a_run_without_grounding_is_told() -> None:
    rows = [{"relevant_documents": n} for n in (3, 0)]
    assert grounding_counts(rows, "the test")["relevant_documents"] == {"0": 1, "1": 0, "2": 0, "3": 1}
    with pytest.raises(InputError, match="no record has relevant_documents"):
        grounding_counts([{}], "the test")
