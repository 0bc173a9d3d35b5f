"""A mistake in the code of a step is told with its entry and item, or counted on its item; nothing hangs."""

import json

import pytest

from kgqa_hpc.columns import Column, fits
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.step import Ask, Done, Reject, Retry, Step
from tests.command import kgqa
from tests.dataset.conftest import records_of
from tests.project import write_graph

CONFIG = """
seed: 7
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 2, shapes: [1, 3]}
engine: {kind: scripted}
passes: [{name: main, steps: [generate, readability]}]
dataset: {z_score: null}
"""


def use(monkeypatch, compute, *columns):
    """Register a step `readability` that computes so and declares these columns."""

    class Readability(Step):
        """How readable a question is."""

        name = "readability"
        adds = "column"
        needs = ("question",)

        def compute(self, item):
            return compute(item)

    Readability.columns = columns
    monkeypatch.setitem(STEPS._shipped, "readability", "tests.steps:Readability")
    monkeypatch.setitem(STEPS._loaded, "readability", Readability)


def command(verb, folder, code=0):
    write_graph(folder)
    (folder / "run.yaml").write_text(CONFIG)
    arguments = [folder / "run"] if verb == "all" else ["-n", "2"]
    return kgqa(verb, folder / "run.yaml", *arguments, code=code)


@pytest.mark.parametrize(
    ("verb", "returned", "words"),
    [
        ("all", None, "step readability of kgqa_hpc returned None on item g"),
        ("preview", None, "step readability of kgqa_hpc returned None on item g"),
        ("preview", True, "step readability of kgqa_hpc returned True on item g"),
        ("preview", {}, "step readability of kgqa_hpc returned {} on item g"),
        ("preview", Ask(), "has no prompt"),
        ("preview", Reject(None), "gave the reason None on item g"),
        ("preview", Retry("no", "lost"), "lost_as is"),
    ],
)
def test_a_step_that_returns_no_outcome_ends_with_name_and_item(verb, returned, words, tmp_path, monkeypatch):
    use(monkeypatch, lambda item: returned)
    assert words in command(verb, tmp_path, code=2).stderr


def is_odd(item):
    """Whether a step of these tests makes its mistake on this item: half of them."""
    return sum(item.id.encode()) % 2 == 1


def test_an_item_on_which_a_step_fails_to_say_if_it_asks_is_counted_and_others_go_on(tmp_path, monkeypatch):
    def asks_about(self, item):
        if is_odd(item):
            raise ZeroDivisionError("a sentence without words")
        return False

    use(monkeypatch, lambda item: Done(), Column("flesch", "double", "A score."))
    monkeypatch.setattr(STEPS.get("readability"), "asks_about", asks_about)
    command("all", tmp_path)
    counts = json.loads((tmp_path / "run/dataset/accounting.json").read_text())
    failed = counts["failed"]["readability: ZeroDivisionError"]
    assert failed > 0
    assert counts["accepted"] > 0
    assert counts["accepted"] + failed + sum(counts["rejected"].values()) == counts["sampled"]


def test_a_filterable_column_stands_under_features_too_and_selects_records(tmp_path, monkeypatch):
    column = Column("flesch", "double", "A score.", filterable=True)
    use(monkeypatch, lambda item: Done(flesch=float(is_odd(item))), column)
    command("all", tmp_path)
    records = records_of(tmp_path / "run/dataset")
    assert {record["flesch"] for record in records} == {0.0, 1.0}
    assert all(record["features"]["flesch"] == record["flesch"] for record in records)
    kgqa("export", tmp_path / "run", "--to", "messages", "--out", tmp_path / "high", "--score", "flesch=1")
    high = (tmp_path / "high/train.jsonl").read_text().splitlines()
    assert len(high) == sum(record["flesch"] == 1.0 for record in records)


def test_explain_and_show_tell_what_a_computing_step_gave_a_rejected_item(tmp_path, monkeypatch):
    def hard(item):
        item.annotations["flesch"] = 12.5
        item.features["length"] = 7
        return Reject("readability: hard to read")

    use(monkeypatch, hard, Column("flesch", "double", "A score."))
    command("all", tmp_path)
    record = records_of(tmp_path / "run/dataset", "rejected")[0]
    told = kgqa("explain", tmp_path / "run", record["id"], "--json")
    story = json.loads(told.stdout)
    assert {step["step"]: step["requests"] for step in story["steps"]} == {"generate": 1, "readability": 0}
    assert story["steps"][1]["columns"] == {"flesch": 12.5}
    assert story["features"] == {"length": 7}
    text = kgqa("explain", tmp_path / "run", record["id"]).stdout
    assert "readability: asked nobody; flesch 12.5" in text
    assert 'features: {"length": 7}' in text
    assert "flesch    12.5" in kgqa("show", tmp_path / "run", "--rejected").stdout


def test_preview_names_a_column_that_no_item_was_given(tmp_path, monkeypatch):
    use(monkeypatch, lambda item: Done(), Column("flesch", "double", "A score."))
    done = command("preview", tmp_path)
    assert "column flesch of step readability has no value in any of these items" in done.stdout


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, "int64", True),
        (1, "double", True),
        (1.5, "int64", False),
        (True, "int64", False),
        ("a", ["string"], False),
        (["a", None], ["string"], True),
        ({"a": 1}, {"a": "int64", "b": "string"}, True),
        ({"a": "1"}, {"a": "int64"}, False),
        (0, "bool", False),
    ],
)
def test_a_value_fits_a_column_of_its_type_alone(value, kind, expected):
    assert fits(value, kind) is expected
