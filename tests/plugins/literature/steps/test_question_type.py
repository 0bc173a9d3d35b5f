"""What a question asks for stands in a column of its record."""

from __future__ import annotations

import pytest

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo
from kgqa_hpc.plugins.literature.steps.question_type import question_form, question_type
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done


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


def test_a_record_and_each_of_many_records_get_their_columns() -> None:
    data = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": ["question_type"]}],
    }
    (step,) = build_chain(parse_config(data, "the test"), "main", EngineInfo("scripted", "1", "scripted-1"))
    one, many = (Item(Anchor("r", "records", "all", data={"record": {"id": "r"}})) for _ in range(2))
    one.output = {"question": "Where is it located?"}
    many.records = [{"question": "What does it bind?", "reason": None}, {"question": "?", "reason": "x: y"}]
    assert isinstance(step.run(one), Done)
    assert isinstance(step.run(many), Done)
    assert one.annotations == {"question_type": "localization", "question_form": "where"}
    assert [record["question_type"] for record in many.records] == ["interaction", "other"]
    assert many.records[0]["question_form"] == "what"
