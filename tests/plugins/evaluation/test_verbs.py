"""The verbs: results on stdout, exit 2 with one clear line where the user can mend it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.cli import grounding_counts
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA
from kgqa_hpc.plugins.evaluation.score import ASPECTS
from tests import command
from tests.record_runs import jsonl

J = [f"j_{aspect}" for aspect in ASPECTS]
COMPARED = "both accept 2, only the first 1, only the second 0"
# Without a PATH there is no Java, which METEOR takes seconds to start.
kgqa = partial(command.kgqa, PATH="")


def test_sample_page_analyse_and_calibrate_go_together(merged_run: Path, tmp_path: Path) -> None:
    sheet, rated = tmp_path / "s.csv", tmp_path / "rated.csv"
    drawn = json.loads(kgqa("human", "sample", merged_run, sheet, "--number", 20, "--json").stdout)
    assert drawn["power"]["accepted"] == 10
    assert kgqa("human", "page", sheet, tmp_path / "p.html").stdout.endswith("20 items\n")
    rated.write_text(sheet.read_text("utf-8").replace(",,,,,,,\n", ",5,4,3,3,4,,\n"), encoding="utf-8")
    analysis = kgqa("human", "analyse", rated, "--key", tmp_path / "s.key.csv", "--json")
    document = json.loads(analysis.stdout)
    assert document["accepted"] == dict(zip(CRITERIA, (5, 4, 3, 3, 4), strict=True))
    assert document["all"] == document["rejected"] == document["accepted"]
    assert set(document["share_3"].values()) == {1.0}
    judged = json.loads(kgqa("calibrate", rated, "--judge", merged_run, "--json").stdout)
    assert judged["judges"]["judge"]["confusion"]["true_accept"] == 10
    text = kgqa("calibrate", rated, "--judge", merged_run).stdout
    assert "20 ratings give kappa ± 0.44; ± 0.10 needs about 390" in text


@pytest.mark.parametrize(
    ("words", "keys", "value", "phrase"),
    [
        (("score", "FILE", "FILE"), ("rougeL",), 1, "bleu4"),
        (("score", "FILE", "FILE"), ("not_computed", "cider"), "needs", "cider was not computed"),
        (("panel", "FILE"), ("rules", "all", "accepted"), 2, COMPARED),
        (("panel", "FILE"), ("alone", "b", "rejects_alone"), 1, "b: alone rejects 1"),
        (("panel", "FILE"), ("records",), 4, "Krippendorff's alpha: 0.5"),
        (("hallucination", "FILE", "FILE"), ("ratio_of_means",), 1, "ratio of the mean rates: 1.0"),
    ],
)
def test_a_verb_prints_its_figures_as_json_and_as_text(
    tmp_path: Path, words: tuple[str, ...], keys: tuple[str, ...], value: object, phrase: str
) -> None:
    votes = [(True, True), (True, False), (False, False), (True, True)]
    verdicts = ({"a": {"ok": a}, "b": {"ok": b}} for a, b in votes)
    rows = [{"id": str(n), "text": "one two three", "verdicts": row} for n, row in enumerate(verdicts)]
    file = jsonl(tmp_path / "rows.jsonl", rows)
    words = tuple(str(file) if word == "FILE" else word for word in words)
    document = json.loads(kgqa(*words, "--json").stdout)
    for key in keys:
        document = document[key]
    assert document.startswith(value) if isinstance(value, str) else document == value
    assert phrase in kgqa(*words).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("human", "sample", "nowhere", "s.csv"),
        ("human", "page", "nowhere.csv", "p.html"),
        ("human", "analyse", "nowhere.csv"),
        ("calibrate", "nowhere.csv", "--judge", "nowhere"),
        ("score", "nowhere.jsonl", "nowhere.jsonl"),
        ("hallucination", "nowhere", "nowhere"),
    ],
)
def test_a_missing_file_is_exit_2_and_one_line(words: tuple[str, ...]) -> None:
    done = kgqa(*words, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("error: nowhere")
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("words", "row", "message"),
    [
        ("panel FILE", {"verdicts": [1]}, "record 'a': verdicts is not an object"),
        ("hallucination FILE FILE", {"verdicts": "yes"}, "record 'a': verdicts is not an object"),
        ("score FILE FILE --judged FILE", {"features": [1]}, "record 'a': features is not an object"),
        ("score FILE FILE --judged FILE", {"features": dict.fromkeys(J, "x")}, "scores none of these"),
        ("grounding FILE", {"relevant_documents": "3"}, "no record has relevant_documents"),
    ],
)
def test_a_field_of_another_type_is_one_line(tmp_path: Path, words: str, row: dict, message: str) -> None:
    file = jsonl(tmp_path / "rows.jsonl", [{"id": "a", "text": "one", **row}])
    assert message in kgqa(*(file if word == "FILE" else word for word in words.split()), code=2).stderr


# Pairs with 0, 1, … 10 relevant documents of ten (BioGraphletQA, Figure 7).
RELEVANT = (2734, 3539, 4095, 4411, 4553, 4460, 4383, 4342, 4511, 5018, 7954)


def test_grounding_gives_the_published_mean_and_share_and_passes_over_other_records(tmp_path: Path) -> None:
    quotes = {"quotes_kept": 2, "quotes_dropped": 1}
    numbers = [n for n, pairs in enumerate(RELEVANT) for _ in range(pairs)]
    rows: list[dict[str, Any]] = [{"relevant_documents": n, **quotes} for n in (None, *numbers)]
    source = jsonl(tmp_path / "r.jsonl", [{"id": str(i), **row} for i, row in enumerate([{}, *rows])])
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
