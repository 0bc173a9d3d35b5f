"""Steps that ask nobody at the end of a run are done again at merge with other settings; nothing else is."""

from pathlib import Path

import pytest

from tests.command import kgqa
from tests.dataset.conftest import contents, records_of
from tests.project import write_project

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
    write_project(tmp_path, CONFIG, nodes=60, edges=150)
    (tmp_path / "my_steps.py").write_text(STEP)
    return tmp_path


def test_a_merge_with_other_settings_gives_the_dataset_of_a_run_that_had_them(folder: Path) -> None:
    kgqa("all", folder / "run.yaml", folder / "run")
    first = (folder / "run/dataset/accepted.jsonl").read_bytes()
    lengths = sorted(len(record["question"]) for record in records_of(folder / "run/dataset"))
    least = lengths[len(lengths) // 2] + 1
    results = {path: path.read_bytes() for path in (folder / "run/results").rglob("*.h5")}
    kgqa("merge", folder / "run", "--set", f"dataset.steps.weigh.minimum={least}")
    assert {path: path.read_bytes() for path in (folder / "run/results").rglob("*.h5")} == results
    (folder / "other.yaml").write_text(CONFIG.replace("minimum: 40", f"minimum: {least}"))
    kgqa("all", folder / "other.yaml", folder / "other")
    again, there = (records_of(folder / run / "dataset", "accepted", "rejected") for run in ("run", "other"))
    assert {record["least"] for record in again if record["accepted"]} == {least}
    assert f"weigh: below {least}" in {record["reason"] for record in again}
    assert [{**record, "provenance": None} for record in again] == [
        {**record, "provenance": None} for record in there
    ]
    kgqa("merge", folder / "run", "--set", "dataset.steps=null")
    assert (folder / "run/dataset/accepted.jsonl").read_bytes() == first


REFUSED = {
    "dataset.steps.before.minimum=3": "dataset.steps.before: is no step at the end of the last pass",
    "dataset.steps.judge.prompt=strict": "such steps: weigh",
    "dataset.steps.weigh.minimum=-1": "minimum",
    "dataset.steps.weigh.least=1": "least: unknown key",
    "order=nope": "has no column 'nope'",
    "split.by=nope": "has no column 'nope'",
    "decontaminate=[gone.jsonl]": "gone.jsonl",
}


def test_other_steps_and_wrong_settings_are_refused_and_the_dataset_stays(folder: Path) -> None:
    kgqa("all", folder / "run.yaml", folder / "run")
    before = contents(folder / "run/dataset")
    for wish, words in REFUSED.items():
        assert words in kgqa("merge", folder / "run", "--set", wish, code=2).stderr
        assert contents(folder / "run/dataset") == before
    kgqa("merge", folder / "run")
    assert contents(folder / "run/dataset") == before
