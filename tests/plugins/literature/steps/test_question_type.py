"""What a question asks for stands in columns of its record: by a rule, and by a judge beside it."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.literature.judges import CHOICES, question_form, question_type
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Step
from tests.record_runs import chain_of, config_of, item_of, jsonl, made_run, stop


@pytest.mark.parametrize(
    ("question", "kind", "form"),
    [
        ("What is the function of the protein?", "function", "what"),
        ("How does its activity differ from that of FGF1?", "comparison", "how"),
        ("Which receptor does the ligand bind?", "interaction", "which"),
        ("Is the protein expressed in the liver?", "expression", "yes/no"),
        ("In which subcellular compartment is it found?", "localization", "which"),
        ("In which disease is it mutated?", "disease", "which"),
        ("How many residues does the domain have?", "structure", "how"),
        ("Name it.", "other", "other"),
        ("", "other", "other"),
    ],
)
def test_question_types_by_rule(question: str, kind: str, form: str) -> None:
    assert (question_type(question), question_form(question)) == (kind, form)


def typed(*questions: str, rejected: int | None = None) -> Item:
    """A record with this question; with several questions an item of many records, of which one is rejected."""
    item = item_of(question=questions[0] if questions else "", judged_question_type="an earlier run's")
    if len(questions) != 1:
        reasons = ["prune: cells" if number == rejected else None for number in range(len(questions))]
        item.records = [{"question": q, "reason": r} for q, r in zip(questions, reasons, strict=True)]
    return item


def test_a_record_and_each_of_many_records_get_their_columns() -> None:
    (step,) = chain_of("question_type")
    single, many = typed("Where is it located?"), typed("What does it bind?", "?", rejected=1)
    assert isinstance(step.run(single), Done)
    assert isinstance(step.run(many), Done)
    assert single.annotations == {"question_type": "localization", "question_form": "where"}
    assert [record["question_type"] for record in many.records or ()] == ["interaction", "other"]
    assert [record["question_form"] for record in many.records or ()] == ["what", "other"]


@pytest.fixture
def judge() -> Step:
    return chain_of("judged_question_type")[0]


def answer(word: str) -> str:
    return json.dumps({"reasoning": "what it does", "question_type": word})


def test_both_prompts_offer_the_types_of_the_rule() -> None:
    for name in ("question_type", "demo_question_type"):
        assert tuple(load_prompt(name).schema["properties"]["question_type"]["enum"]) == CHOICES


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (answer("localization"), "localization"),
        ("no JSON", None), (answer("astrology"), None), (answer("Function"), None),
    ],
)  # fmt: skip
def test_a_record_is_judged_once_and_an_unreadable_type_leaves_the_column_empty(
    judge: Step, text: str, kind: str | None
) -> None:
    item = typed("Where is it?")
    assert "Question: Where is it?" in judge.request(item, 0).messages[-1]["content"]
    assert isinstance(judge.take(item, stop(text), 0), Done)
    assert item.output["judged_question_type"] == kind


def test_each_kept_record_of_many_is_judged_in_turn(judge: Step) -> None:
    item = typed("What does it bind?", "What?", "How long is it?", rejected=1)
    assert isinstance(judge.take(item, stop(answer("interaction")), 0), Ask)
    assert "How long is it?" in judge.request(item, 0, turn=1).messages[-1]["content"]
    assert isinstance(judge.take(item, stop(answer("structure")), 0, 1), Done)
    types = [record.get("judged_question_type") for record in item.records or ()]
    assert types == ["interaction", None, "structure"]
    assert not judge.asks_about(typed())
    assert isinstance(judge.run(typed()), Done)


def test_both_types_reach_the_dataset_as_columns_of_text(tmp_path: Path) -> None:
    pairs = [{"id": f"r{n}", "question": "What does it bind?", "answer": "That."} for n in range(30)]
    jsonl(tmp_path / "pairs.jsonl", pairs)
    run = made_run(tmp_path, config_of("question_type", "judged_question_type"))
    rows = list(records(run))
    assert {record["question_type"] for record in rows} == {"interaction"}
    assert {record["judged_question_type"] for record in rows} <= set(CHOICES)
    assert len(rows) == 30
    for path in (run / "dataset").glob("accepted*.parquet"):
        assert str(pq.read_schema(path).field("judged_question_type").type) == "string"
