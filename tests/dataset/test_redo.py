"""Steps that ask nobody at the end of a run are done again at merge with other settings; nothing else is."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import kgqa
from tests.project import write_graph

CONFIG = """
plugins: [my_steps.py]
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 40, shapes: [1, 2]}
engine: {kind: scripted}
passes:
- {name: main, steps: [generate, {use: weigh, as: before}, judge, {use: weigh, minimum: 40}]}
dataset: {z_score: null}
"""
STEP = '''
from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.step import Done, Reject, Step


class WeighSettings(StepSettings):
    minimum: int = Field(0, ge=0, description="Letters of a question at least.")


class Weigh(Step):
    """Letters of the question, rejected below a minimum."""

    name = "weigh"
    Settings = WeighSettings
    needs = ("question",)
    columns = (Column("weight", "int64", "Letters times ten."), Column("least", "int64", "The minimum."))

    def compute(self, item):
        letters = len(item.output["question"])
        if letters > 10_000:
            raise LookupError
        if letters < self.settings.minimum:
            return Reject(f"{self.label}: below {self.settings.minimum}")
        return Done(weight=10 * letters, least=self.settings.minimum)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_graph(tmp_path, nodes=60, edges=150)
    (tmp_path / "run.yaml").write_text(CONFIG)
    (tmp_path / "my_steps.py").write_text(STEP)
    return tmp_path


def accepted(run: Path) -> dict[str, Any]:
    lines = (run / "dataset/accepted.jsonl").read_text().splitlines()
    return {record["id"]: record for record in map(json.loads, lines)}


def rejected(run: Path) -> dict[str, int]:
    counts: dict[str, int] = json.loads((run / "dataset/accounting.json").read_text())["rejected"]
    return counts


def test_a_merge_with_other_settings_gives_the_dataset_of_a_run_that_had_them(folder: Path) -> None:
    kgqa("all", folder / "run.yaml", folder / "run")
    first = (folder / "run/dataset/accepted.jsonl").read_bytes()
    lengths = sorted(len(record["question"]) for record in accepted(folder / "run").values())
    least = lengths[len(lengths) // 2] + 1
    results = {path: path.read_bytes() for path in (folder / "run/results").rglob("*.h5")}
    kgqa("merge", folder / "run", "--set", f"dataset.steps.weigh.minimum={least}")
    assert {path: path.read_bytes() for path in (folder / "run/results").rglob("*.h5")} == results
    again, reasons = accepted(folder / "run"), rejected(folder / "run")
    (folder / "other.yaml").write_text(CONFIG.replace("minimum: 40", f"minimum: {least}"))
    kgqa("all", folder / "other.yaml", folder / "other")
    there = accepted(folder / "other")
    assert again.keys() == there.keys() != set()
    assert all(record["least"] == least for record in again.values())
    assert all({**again[i], "provenance": None} == {**there[i], "provenance": None} for i in again)
    assert reasons == rejected(folder / "other")
    assert reasons[f"weigh: below {least}"] > 0
    kgqa("merge", folder / "run", "--set", "dataset.steps=null")
    assert (folder / "run/dataset/accepted.jsonl").read_bytes() == first


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("dataset.steps.before.minimum=3", "dataset.steps.before: is no step at the end of the last pass"),
        ("dataset.steps.judge.prompt=strict", "such steps: weigh"),
        ("dataset.steps.weigh.minimum=-1", "minimum"),
        ("dataset.steps.weigh.least=1", "least: unknown key"),
    ],
)
def test_other_steps_and_wrong_settings_are_refused_and_the_dataset_stays(
    wish: str, words: str, folder: Path
) -> None:
    kgqa("all", folder / "run.yaml", folder / "run")
    before = (folder / "run/dataset/accounting.json").read_bytes()
    assert words in kgqa("merge", folder / "run", "--set", wish, code=2).stderr
    assert (folder / "run/dataset/accounting.json").read_bytes() == before
    kgqa("merge", folder / "run")
