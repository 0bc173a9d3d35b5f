"""The plan loop: scripts run on the evidence, their results are shown, and the answer is what execution gave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Retry, Step

NODES = (
    Node("g1", "ATP7B", "gene"),
    Node("d1", "Wilson disease", "disease"),
    Node("d2", "Tremor", "disease"),
)
ANCHOR = Anchor(
    "hub-1",
    "hub",
    "gene",
    NODES,
    (Relation(0, 1, "causes"), Relation(0, 2, "causes")),
    data={"degree": 2, "uses": 1},
)
FIND = "FIND nodes WITH type=disease AS found"


def say(plan: Step, item: Item, turn: int, **fields: Any) -> Outcome:
    answer = {"thought": "So.", "sufficient": False, "script": "", "question": "", **fields}
    plan.request(item, 0, 7, turn)
    return plan.take(item, Response("x", json.dumps(answer), "stop"), 0, turn)


def test_the_answer_is_what_execution_gave_and_carries_its_script(plan: Step) -> None:
    item = Item(ANCHOR)
    assert say(plan, item, 0, script=FIND) == Ask()
    assert say(plan, item, 1, script="COUNT found AS answer") == Ask()
    outcome = say(
        plan,
        item,
        2,
        sufficient=True,
        question="How many diseases does ATP7B cause?",
        script="SET answer = 9",
    )
    assert outcome == Done()
    assert item.output["answer"] == "2"
    assert item.output["script"] == f"{FIND}\nCOUNT found AS answer"
    assert item.annotations["rounds"] == 2


def test_the_model_sees_what_its_scripts_gave_and_where_they_failed(plan: Step) -> None:
    item = Item(ANCHOR)
    say(plan, item, 0, script=FIND)
    say(plan, item, 1, script="CUONT found AS answer")
    shown = plan.request(item, 0, 7, 2).messages[1]["content"]
    assert "Wilson disease" in shown
    assert "ended with error" in shown
    assert say(plan, item, 2, script="SELECT found FIELDS name AS answer") == Ask()
    assert say(plan, item, 3, sufficient=True, question="Which diseases does ATP7B cause?") == Done()
    assert item.output["answer"] == "Tremor; Wilson disease"
    assert "CUONT" not in item.output["script"]


def test_an_end_without_a_result_is_refused(plan: Step) -> None:
    item = Item(ANCHOR)
    say(plan, item, 0, script=FIND)
    assert say(plan, item, 1, sufficient=True, question="What?") == Reject("plan: no script gave an answer")


def test_what_nobody_has_executed_yet_is_not_sufficient(plan: Step) -> None:
    item, script = Item(ANCHOR), f"{FIND}\nCOUNT found AS answer"
    assert say(plan, item, 0, sufficient=True, script=script, question="How many?") == Ask()
    assert '"answer":2' in plan.request(item, 0, 7, 1).messages[1]["content"].replace(" ", "")
    assert say(plan, item, 1, sufficient=True, script=script, question="How many diseases?") == Done()
    assert item.output["script"] == script


def test_the_plan_ends_after_ten_rounds(plan: Step) -> None:
    item = Item(ANCHOR)
    for turn in range(9):
        assert say(plan, item, turn, script=FIND) == Ask()
    assert say(plan, item, 9, script=FIND) == Reject("plan: no end after 10 turns")


def test_a_plan_goes_on_from_a_journal(plan: Step) -> None:
    item = Item(ANCHOR)
    say(plan, item, 0, script=FIND)
    again = Item.from_record(ANCHOR, json.loads(json.dumps(item.to_record())))
    assert plan.request(again, 0, 7, 1) == plan.request(item, 0, 7, 1)
    assert say(plan, again, 1, script="COUNT found AS answer") == Ask()
    assert say(plan, again, 2, sufficient=True, question="How many?") == Done()


@pytest.mark.parametrize("script", ["", "\x00", "FIND " * 5000, "SET a = [" * 2000, "é" * 10])
def test_no_script_of_a_model_stops_the_run(plan: Step, script: str) -> None:
    assert isinstance(say(plan, Item(ANCHOR), 0, script=script[:1500]), Ask | Retry)
