"""The verbs: results on stdout, exit 2 with one clear line where the user can mend it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.plugins.evaluation.cli import grounding_counts
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA
from kgqa_hpc.plugins.evaluation.score import ASPECTS
from tests import command
from tests.record_runs import jsonl

FEATURES = json.dumps({f"j_{aspect}": "x" for aspect in ASPECTS})
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


ONE = '{"id": 1, "text": "a"}'
SHEET = "ID,Question,Answer"
RATED = f"{SHEET},{CRITERIA[1]}\ni0,q,a,4\n"
LABELS = '{"id": "a", "rule": "yes", "judge": "no", "third": "yes"}'


@pytest.mark.parametrize(
    ("words", "a", "b", "message"),
    [
        ("human sample nowhere s.csv", "", "", "error: nowhere"),
        ("human page nowhere.csv p.html", "", "", "error: nowhere"),
        ("human analyse nowhere.csv", "", "", "error: nowhere"),
        ("calibrate nowhere.csv --judge nowhere", "", "", "error: nowhere"),
        ("score nowhere.jsonl nowhere.jsonl", "", "", "error: nowhere"),
        ("hallucination nowhere nowhere", "", "", "error: nowhere"),
        ("panel A", '{"id": "a", "verdicts": [1]}', "", "record 'a': verdicts is not an object"),
        ("panel A", '{"id": "1"}', "", "no record has a judge's vote"),
        ("panel A --column rule", LABELS, "", "one column"),
        ("panel A --column rule --column rule", LABELS, "", "one"),
        ("panel A --column rule --column x", LABELS, "", "label in x"),
        ("hallucination A A", '{"id": "a", "verdicts": "yes"}', "", "record 'a': verdicts is not an object"),
        ("score A A --judged A", ONE[:-1] + ', "features": [1]}', "", "'1': features is not an object"),
        ("score A A --judged A", ONE[:-1] + f', "features": {FEATURES}}}', "", "scores none of these"),
        ("grounding A", '{"id": "a", "relevant_documents": "3"}', "", "no record has relevant_documents"),
        ("score A B", ONE, "", "holds no references"),
        ("score A B", '{"id": 2, "text": "a"}', ONE, "id '2' has no reference"),
        ("score A B", "", ONE, "1 references have no prediction"),
        ("score A B", '{"id": 1}', ONE, "line 1: no text"),
        ("score A B", '{"text": "a"}', ONE, "line 1: no id"),
        ("score A B", ONE + '\n{"id": "1", "text": "b"}', ONE, "line 2: id '1' was"),
        ("score A B", '["a"]', ONE, "not a JSON object"),
        ("human page A page.html", "ID,Question\n1,a\n", "", "no column 'answer'"),
        ("human page A page.html", f"{SHEET}\n1,a,b\n1,c,d\n", "", "line 3: id '1'"),
        ("human page A page.html", f"{SHEET}\n", "", "holds no items"),
        ("calibrate A --judge B", RATED, '{"id": "x"}', "no record is one of the rated pairs"),
        ("calibrate A --judge B", RATED, '{"id": "i0"}', "hold no verdicts"),
        ("calibrate A --judge B", RATED, '{"id": "i0", "verdicts": [1]}', "verdicts is not an object"),
        ("calibrate A --judge B", RATED, '{"question": "q"}', "line 1: no id"),
        ("calibrate A --judge B", RATED, '{"id": "i0"}\n{"id"', "line 2: not JSON"),
        ("calibrate A --judge B", RATED, '{"id": "i0", "verdicts": {"j": {"ok": true}}}', "rate more"),
    ],
)
def test_a_file_that_is_missing_or_of_no_use_is_one_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, a: str, b: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("A").write_text(a, encoding="utf-8")
    Path("B").write_text(b, encoding="utf-8")
    done = kgqa(*words.split(), code=2)
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) <= 2
    assert done.stdout == ""
    assert {path.name for path in tmp_path.iterdir()} == {"A", "B"}


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


def test_a_number_of_documents_that_no_pair_has_is_0() -> None:
    rows = [{"relevant_documents": n} for n in (3, 0)]
    assert grounding_counts(rows, "the test")["relevant_documents"] == {"0": 1, "1": 0, "2": 0, "3": 1}
