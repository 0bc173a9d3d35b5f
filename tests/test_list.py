"""`kgqa list`: every entry with its description and package; one entry with its keys and columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgqa_hpc.registry import FILE_ENTRIES
from tests.golden.command import Ended, kgqa, succeed
from tests.project import write_graph

FILE = '''
import kgqa_hpc


@kgqa_hpc.step(columns={"letters": "int64"})
def length(item):
    """Letters of the answer."""
    return {"letters": len(item.output["answer"])}


class Lines:
    """A line for each record."""

    name = "one-liners"

    def write(self, source, folder):
        text = "".join(f"{record['question']}\\n" for record in source.records("train"))
        (folder / "all.txt").write_text(text)


@kgqa_hpc.section
def longest_question(dataset):
    """The longest question."""
    return f"<p class='mine'>{max(len(r['question']) for r in dataset.records('train'))} letters</p>"


@kgqa_hpc.metric
def same_length(predictions, references):
    """Whether prediction and reference are as long."""
    return [float(len(p) == len(r)) for p, r in zip(predictions, references)]
'''
CONFIG = """
plugins: [my_things.py]
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 2, shapes: [1]}
engine: {kind: scripted}
passes: [{name: main, steps: [generate, length]}]
dataset: {z_score: null}
"""
KINDS = ("kinds", "steps", "engines", "sources", "exports", "rules", "metrics", "sections", "commands")


@pytest.fixture
def plugin(tmp_path: Path, forget_file_entries: None) -> Path:
    path = tmp_path / "my_things.py"
    path.write_text(FILE)
    return path


def run_all(folder: Path) -> Ended:
    write_graph(folder, nodes=30, edges=60)
    (folder / "run.yaml").write_text(CONFIG)
    return kgqa("all", folder / "run.yaml", folder / "run")


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_has_a_description_and_a_package(kind: str) -> None:
    entries = json.loads(succeed("list", kind, "--json").stdout)
    assert entries or kind == "sections"
    for entry in entries:
        assert entry["description"], entry
        assert entry["package"] == "kgqa_hpc"


def test_an_entry_is_told_with_its_keys_and_columns() -> None:
    step = json.loads(succeed("list", "steps", "check", "--json").stdout)
    assert step["needs"] == ["question", "answer"]
    assert "aliases" in {key["key"] for key in step["keys"]}
    assert "hops" in {column["name"] for column in step["columns"]}
    assert "hops  int64" in succeed("list", "steps", "check").stdout


def test_entries_of_a_file_are_listed_with_the_file(plugin: Path) -> None:
    for kind, name in (
        ("steps", "length"),
        ("exports", "one-liners"),
        ("sections", "longest_question"),
        ("metrics", "same_length"),
    ):
        lines = succeed("list", kind, "--plugin", plugin).stdout.splitlines()
        assert [line for line in lines if line.startswith(name) and line.endswith("[my_things.py]")]


def test_an_unknown_kind_or_name_is_told_with_the_nearest() -> None:
    assert "did you mean steps?" in kgqa("list", "stepps").error
    ended = kgqa("list", "steps", "chekc")
    assert ended.code == 2
    assert "did you mean check?" in ended.error


def test_a_section_of_a_file_stands_on_the_report_and_its_export_writes(plugin: Path, tmp_path: Path) -> None:
    assert run_all(tmp_path).code == 0
    page = (tmp_path / "run/report/index.html").read_text()
    assert "<h2 id=\"section-longest_question\">The longest question</h2>\n<p class='mine'>" in page
    FILE_ENTRIES.clear()
    succeed("export", tmp_path / "run", "--to", "one-liners", "--out", tmp_path / "out")
    assert (tmp_path / "out/all.txt").read_text()


def test_a_section_that_fails_is_one_line_with_its_name(plugin: Path, tmp_path: Path) -> None:
    plugin.write_text(FILE.replace("return f", "return 1 / 0 or f"))
    ended = run_all(tmp_path)
    assert ended.code == 2
    assert "report section longest_question of my_things.py failed: ZeroDivisionError" in ended.error


@pytest.mark.plugin("evaluation")
def test_a_metric_of_a_file_is_scored_beside_the_others(plugin: Path, tmp_path: Path) -> None:
    for name, text in (("given", "ab"), ("wanted", "cd")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "1", "text": text}) + "\n")
    files = (tmp_path / "given.jsonl", tmp_path / "wanted.jsonl")
    found = json.loads(succeed("score", *files, "--plugin", plugin, "--json").stdout)
    assert found["same_length"] == 1.0
    assert found["rouge1"] == 0.0
    plugin.write_text(FILE.replace("return [float", "return 2 * [float"))
    ended = kgqa("score", *files, "--plugin", plugin)
    assert ended.code == 2
    assert "score metric same_length of my_things.py gave values of shape (2,)" in ended.error
