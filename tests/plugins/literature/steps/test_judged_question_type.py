"""A judge's type of a question stands beside the rule's, for one record and for each of many."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.literature.steps.question_type import CHOICES
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Step

StopAnswer = Callable[[str], Response]


def step_for(kind: dict[str, object]) -> Step:
    data = {
        "anchors": kind,
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": [{"use": "judged_question_type"}]}],
    }
    return build_chain(parse_config(data, "the test"), "main", EngineInfo("scripted", "1", "scripted-1"))[0]


@pytest.fixture
def step() -> Step:
    return step_for({"kind": "records", "from": "pairs.jsonl"})


def answer(word: str) -> str:
    return json.dumps({"reasoning": "what it does", "question_type": word})


def test_both_prompts_offer_the_types_of_the_rule() -> None:
    for name in ("question_type", "demo_question_type"):
        schema = load_prompt(name).schema
        assert tuple(schema["properties"]["question_type"]["enum"]) == CHOICES


def test_one_record_is_asked_about_once(step: Step, stop: StopAnswer) -> None:
    item = Item(Anchor("r", "records", "all", data={"record": {"id": "r"}}))
    item.output = {"question": "Where is it?", "answer": "There.", "judged_question_type": "an earlier run's"}
    assert "Question: Where is it?" in step.request(item, 0, 1).messages[-1]["content"]
    assert isinstance(step.take(item, stop(answer("localization")), 0), Done)
    assert item.output["judged_question_type"] == "localization"


def test_each_kept_record_of_many_is_asked_about_in_turn(step: Step, stop: StopAnswer) -> None:
    item = Item(Anchor("d", "abstract", "1 name"))
    item.records = [
        {"question": "What does it bind?", "reason": None},
        {"question": "What?", "reason": "prune: cells"},
        {"question": "How long is it?", "reason": None},
    ]
    assert isinstance(step.take(item, stop(answer("interaction")), 0), Ask)
    assert "How long is it?" in step.request(item, 0, 1, turn=1).messages[-1]["content"]
    assert isinstance(step.take(item, stop(answer("structure")), 0, 1), Done)
    assert [record.get("judged_question_type") for record in item.records] == [
        "interaction",
        None,
        "structure",
    ]


def test_nobody_is_asked_about_an_item_without_records(step: Step) -> None:
    item = Item(Anchor("d", "abstract", "1 name"))
    item.records = []
    assert not step.asks_about(item)
    assert isinstance(step.run(item), Done)


@pytest.mark.parametrize("text", ["no JSON", answer("astrology"), answer("Function")])
def test_an_unreadable_type_leaves_the_column_empty_and_loses_nothing(
    step: Step, stop: StopAnswer, text: str
) -> None:
    item = Item(Anchor("r", "records", "all", data={"record": {"id": "r"}}))
    item.output = {"question": "Where is it?"}
    assert isinstance(step.take(item, stop(text), 0), Done)
    assert item.output["judged_question_type"] is None


def test_both_types_reach_the_dataset_as_columns_of_text(tmp_path: Path) -> None:
    made = [{"id": f"r{n}", "question": "What does it bind?", "answer": "That."} for n in range(30)]
    (tmp_path / "made.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
    steps = ["question_type", "judged_question_type"]
    config = {
        "anchors": {"kind": "records", "from": "made.jsonl"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": steps}],
        "dataset": {"z_score": None},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(tmp_path / "run.yaml", tmp_path / "run")
    found = list(records(tmp_path / "run"))
    assert {record["question_type"] for record in found} == {"interaction"}
    assert {record["judged_question_type"] for record in found} <= set(CHOICES)
    assert len(found) == 30
    for path in (tmp_path / "run" / "dataset").glob("accepted*.parquet"):
        assert str(pq.read_schema(path).field("judged_question_type").type) == "string"
