"""A mistake in the code of a step is told with its entry and item, or counted on its item; nothing hangs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.columns import Column, fits
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Reject, Retry, Step
from tests.golden.command import kgqa
from tests.project import write_graph

CONFIG = """
seed: 7
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 2, shapes: [1, 3]}
engine: {kind: scripted}
passes: [{name: main, steps: [generate, readability]}]
dataset: {z_score: null}
"""
Compute = Callable[[Item], Any]


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


def command(verb, folder):
    write_graph(folder)
    (folder / "run.yaml").write_text(CONFIG)
    arguments = [folder / "run"] if verb in ("all", "init") else ["-n", "2"]
    return kgqa(verb, folder / "run.yaml", *arguments)


@pytest.mark.parametrize("verb", ["preview", "all"])
@pytest.mark.parametrize("returned", [None, True, "done", {}])
def test_a_step_that_returns_no_outcome_ends_with_its_name_and_the_item(
    verb, returned, tmp_path, monkeypatch
):
    use(monkeypatch, lambda item: returned)
    done = command(verb, tmp_path)
    assert done.code == 2
    assert f"step readability of kgqa_hpc returned {returned!r} on item g" in done.error
    assert "return Done()" in done.error


def test_a_step_without_a_prompt_that_asks_is_told(tmp_path, monkeypatch):
    use(monkeypatch, lambda item: Ask())
    done = command("preview", tmp_path)
    assert done.code == 2
    assert "has no prompt" in done.error


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (Column("flesch", "float", "A score."), "'float' is no column type"),
        (Column("question", "string", "Mine."), "is a member of every record"),
    ],
)
def test_a_wrong_column_is_refused_before_anything_is_generated(column, words, tmp_path, monkeypatch):
    use(monkeypatch, lambda item: Done(), column)
    done = command("init", tmp_path)
    assert done.code == 2
    assert "step readability of kgqa_hpc" in done.error
    assert words in done.error
    assert not (tmp_path / "run").exists()


def some_fail(item):
    if sum(item.id.encode()) % 2:
        raise ZeroDivisionError("a sentence without words")
    return Done()


def a_typo(item):
    return Done(felsch=34.2) if sum(item.id.encode()) % 2 else Done(flesch=34.2)


def a_stray_annotation(item):
    item.annotations["felsch" if sum(item.id.encode()) % 2 else "flesch"] = 34
    return Done()


def a_set_as_feature(item):
    item.features["words"] = {"a", "b"} if sum(item.id.encode()) % 2 else 2
    return Done()


def some_are_text(item):
    item.annotations["flesch"] = "34.2" if sum(item.id.encode()) % 2 else 34
    return Done()


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (some_fail, "readability: ZeroDivisionError"),
        (a_set_as_feature, "readability: features cannot be written: Type is not JSON serializable: set"),
        (a_typo, "readability: felsch is no column of it, did you mean flesch?"),
        (a_stray_annotation, "readability: felsch is no column of it, did you mean flesch?"),
        (some_are_text, "readability: column flesch is no double"),
    ],
)
def test_an_item_on_which_a_step_fails_is_counted_and_the_others_go_on(
    compute, reason, tmp_path, monkeypatch
):
    use(monkeypatch, compute, Column("flesch", "double", "A score."))
    assert command("all", tmp_path).code == 0
    counts = json.loads((tmp_path / "run/dataset/accounting.json").read_text())
    assert counts["failed"][reason] > 0
    assert counts["accepted"] > 0
    assert (
        counts["accepted"] + counts["failed"][reason] + sum(counts["rejected"].values()) == counts["sampled"]
    )


@pytest.mark.parametrize(
    ("outcome", "words"),
    [(Reject(None), "gave the reason None on item g"), (Retry("no", "lost"), "lost_as is")],
)
def test_an_outcome_with_wrong_parts_ends_the_preview(outcome, words, tmp_path, monkeypatch):
    use(monkeypatch, lambda item: outcome)
    done = command("preview", tmp_path)
    assert done.code == 2
    assert words in done.error


def test_asks_about_that_raises_fails_that_item_alone(tmp_path, monkeypatch):
    def asks_about(self, item):
        if sum(item.id.encode()) % 2:
            raise LookupError("no state")
        return False

    use(monkeypatch, lambda item: Done())
    monkeypatch.setattr(STEPS.get("readability"), "asks_about", asks_about)
    assert command("all", tmp_path).code == 0
    counts = json.loads((tmp_path / "run/dataset/accounting.json").read_text())
    assert counts["failed"]["readability: LookupError"] > 0
    assert counts["accepted"] > 0


def test_done_fills_the_columns_that_it_names(tmp_path, monkeypatch):
    use(monkeypatch, lambda item: Done(flesch=1.5), Column("flesch", "double", "A score."))
    assert command("all", tmp_path).code == 0
    lines = (tmp_path / "run/dataset/accepted.jsonl").read_text().splitlines()
    assert {json.loads(line)["flesch"] for line in lines} == {1.5}


def test_a_filterable_column_stands_under_features_too_and_selects_records(tmp_path, monkeypatch):
    def grade(item):
        return Done(flesch=float(sum(item.id.encode()) % 2))

    use(monkeypatch, grade, Column("flesch", "double", "A score.", filterable=True))
    assert command("all", tmp_path).code == 0
    lines = (tmp_path / "run/dataset/accepted.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["flesch"] for record in records} == {0.0, 1.0}
    assert all(record["features"]["flesch"] == record["flesch"] for record in records)
    shown = kgqa(
        "export", tmp_path / "run", "--to", "messages", "--out", tmp_path / "high", "--score", "flesch=1"
    )
    assert shown.code == 0, shown.error
    high = (tmp_path / "high/train.jsonl").read_text().splitlines()
    assert len(high) == sum(record["flesch"] == 1.0 for record in records)


def test_explain_and_show_tell_what_a_computing_step_gave_a_rejected_item(tmp_path, monkeypatch):
    def hard(item):
        item.annotations["flesch"] = 12.5
        item.features["length"] = 7
        return Reject("readability: hard to read")

    use(monkeypatch, hard, Column("flesch", "double", "A score."))
    assert command("all", tmp_path).code == 0
    record = json.loads((tmp_path / "run/dataset/rejected.jsonl").read_text().splitlines()[0])
    told = kgqa("explain", tmp_path / "run", record["id"], "--json")
    story = json.loads(told.stdout)
    assert [(step["step"], step["requests"]) for step in story["steps"]] == [
        ("generate", 1),
        ("readability", 0),
    ]
    assert story["steps"][1]["columns"] == {"flesch": 12.5}
    assert story["features"] == {"length": 7}
    text = kgqa("explain", tmp_path / "run", record["id"]).stdout
    assert "readability: asked nobody; flesch 12.5" in text
    assert 'features: {"length": 7}' in text
    assert "flesch    12.5" in kgqa("show", tmp_path / "run", "--rejected").stdout


def test_preview_names_a_column_that_no_item_was_given(tmp_path, monkeypatch):
    use(monkeypatch, lambda item: Done(), Column("flesch", "double", "A score."))
    done = command("preview", tmp_path)
    assert done.code == 0
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
