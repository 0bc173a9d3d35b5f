"""A mistake in the code of an anchor kind is told with its entry, or counted on its item."""

import json
from typing import Literal

import pytest

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Node
from kgqa_hpc.columns import Column
from kgqa_hpc.settings import KindSettings
from tests.command import kgqa
from tests.project import write_graph

CONFIG = """
graph: {source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 0}
anchors: {kind: single, number: 6}
engine: {kind: scripted}
passes: [{name: main, steps: [generate]}]
dataset: {z_score: null}
"""


class SingleSettings(KindSettings):
    kind: Literal["single"] = "single"
    number: int = 6


class Single(AnchorKind):
    """Single nodes."""

    name = "single"
    Settings = SingleSettings
    columns = (Column("first", "string", "The node's name."), Column("numbers", ["int64"], "Numbers."))
    sample = Anchor("sample", "single", "gene", (Node("a", "A", "gene"),))

    def draw(self, source, settings, seed, tools):
        for row in range(20):
            node = source.graph.node(row)
            yield Anchor("", "single", node.type, (node,))
            yield Anchor("", "single", node.type, (node,))

    def record(self, anchor, fields):
        return {"first": anchor.nodes[0].name, "numbers": [1]}


@pytest.fixture
def kind(monkeypatch):
    """A class of its own for each test, known as the kind `single`."""

    class Fresh(Single):
        """Single nodes."""

    monkeypatch.setitem(KINDS._shipped, "single", "tests.anchors:Single")
    monkeypatch.setitem(KINDS._loaded, "single", Fresh)
    return Fresh


def run(folder, verb="all", code=0):
    write_graph(folder, nodes=30, edges=60)
    (folder / "run.yaml").write_text(CONFIG)
    return kgqa(verb, folder / "run.yaml", folder / "run", code=code)


def accounting(folder):
    return json.loads((folder / "run/dataset/accounting.json").read_text())


def test_anchors_that_a_kind_yields_are_given_ids_ordered_cut_and_counted_once(kind, tmp_path):
    run(tmp_path)
    assert accounting(tmp_path)["sampled"] == 6
    lines = (tmp_path / "run/dataset/accepted.jsonl").read_text().splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == 6


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("record", {"frist": "x", "numbers": []}, "frist is no column of it, did you mean first?"),
        ("record", {"first": "x"}, "column numbers is not given"),
        ("record", {"first": "x", "numbers": "1"}, "column numbers is no ['int64']"),
        ("record", None, "record() returned None"),
        ("sample", None, "has no sample anchor"),
    ],
)
def test_a_kind_that_breaks_its_columns_or_has_no_sample_is_refused_before_a_run_exists(
    kind, member, value, words, tmp_path, monkeypatch
):
    monkeypatch.setattr(kind, member, value if member == "sample" else lambda self, anchor, fields: value)
    done = run(tmp_path, "init", code=2)
    assert "anchor kind single of kgqa_hpc" in done.stderr
    assert words in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("member", "wrong", "reason"),
    [
        ("record", {"first": 7, "numbers": []}, "single: column first is no string"),
        ("record", {"first": "x", "numbers": [], "more": 1}, "single: more is no column of it"),
        ("record", ZeroDivisionError("no edge"), "single: ZeroDivisionError: no edge"),
        ("start", KeyError("name"), "single: KeyError: 'name'"),
    ],
)
def test_an_item_on_which_a_kind_fails_is_counted_and_explained_and_others_go_on(
    kind, member, wrong, reason, tmp_path, monkeypatch
):
    whole = getattr(kind, member)

    def mistaken(self, anchor, *fields):
        if anchor.nodes[0].type == "gene" and anchor.id != "sample":
            if isinstance(wrong, Exception):
                raise wrong
            return dict(wrong)
        return whole(self, anchor, *fields)

    monkeypatch.setattr(kind, member, mistaken)
    run(tmp_path)
    counts = accounting(tmp_path)
    assert counts["failed"] == {reason: counts["sampled"] - counts["accepted"]}
    assert 0 < counts["accepted"] < counts["sampled"] == 6
    lost = json.loads((tmp_path / "run/dataset/lost.jsonl").read_text().splitlines()[0])
    assert reason in kgqa("explain", tmp_path / "run", lost["id"]).stdout


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero (test_contract.py line"),
        (lambda: None, "TypeError"),
        (lambda: ["text"], "draw() gave 'text'; yield Anchor"),
    ],
)
def test_a_draw_that_fails_is_one_line_with_its_entry(kind, drawn, words, tmp_path, monkeypatch):
    monkeypatch.setattr(kind, "draw", lambda self, source, settings, seed, tools: drawn())
    done = run(tmp_path, code=2)
    assert "anchor kind single of kgqa_hpc failed" in done.stderr
    assert words in done.stderr
