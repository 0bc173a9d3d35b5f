"""Scripts of a model take a bounded time and memory, whatever they say, and results of earlier turns are kept."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.plugins.gasl import plan as plan_step
from kgqa_hpc.plugins.gasl.plan import run_on
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Step

NODES = tuple(Node(f"n{k}", f"Node number {k}", "t") for k in range(5))
RELATIONS = tuple(Relation(a, b, "e") for a in range(5) for b in range(5) if a != b)
ANCHOR = Anchor("hub-1", "hub", "t", NODES, RELATIONS, data={"degree": 4, "uses": 1})
# 400 items of one key, which a JOIN makes 160,000 pairs of.
CROWD = "FIND nodes AS v\nADD_FIELD v FIELD: k = 1\n" + "UPDATE v WITH v OPERATION: append\n" * 6
LINES = {
    "joins": "JOIN v WITH v ON k AS w\n",
    "joins to a count": "COUNT v UNIQUE AS n\n",
    "created nodes": "CREATE_NODES FROM v AS last\n",
    "batches": 'ITERATE v BATCH 1: COUNT WHERE name matches "a(b|c)*d" AS n\n',
    "long expressions": f"ADD_FIELD v FIELD: y = {'1+' * 400}k\n",
    "long conditions": f"COUNT v WHERE {' OR '.join(['name contains zz'] * 60)} AS n\n",
    "paths": "FIND paths DEPTH 10 AS p\n",
    "walks to nodes that were created": "CREATE_NODES FROM v AS c; GRAPHCONNECT c TO c AS p\n",
    "errors": "SET n = 1; SELECT v FIELDS nmae AS w\n",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
@pytest.mark.parametrize("stop_on_error", [True, False])
def test_no_script_of_a_model_takes_more_than_seconds(stop_on_error: bool, line: str) -> None:
    begin = time.process_time()
    commands = (CROWD + line * (15_000 // len(line))).splitlines()
    run_on(ANCHOR, json.dumps({"commands": commands, "config": {"stop_on_error": stop_on_error}}))
    assert time.process_time() - begin < 20, "two seconds on an idle core; hours without a bound"


def test_a_script_beyond_its_budget_ends_with_the_limit_named() -> None:
    result = run_on(ANCHOR, CROWD + LINES["joins"])
    assert result.error is not None
    assert result.error["kind"] == "limit"
    assert "in all" in result.error["message"] or "items and edges" in result.error["message"]


def test_variables_of_a_plan_stay_within_a_mebibyte() -> None:
    result = run_on(ANCHOR, CROWD + LINES["joins"])
    assert len(json.dumps(result.variables)) < 2 * 1024**2


def say(plan: Step, item: Item, turn: int, script: str) -> None:
    answer = {"thought": "So.", "sufficient": False, "script": script, "question": ""}
    plan.take(item, Response("x", json.dumps(answer), "stop"), 0, turn)


@pytest.mark.parametrize("killed", [False, True], ids=["in one process", "after a kill"])
def test_commands_of_earlier_turns_are_executed_once(
    plan: Step, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    commands: list[int] = []
    execute = plan_step.execute

    def counting(script: Any, graph: Any, state: Any, **rest: Any) -> Any:
        before = len(state.steps)
        result = execute(script, graph, state, **rest)
        commands.append(len(result.steps) - before)
        return result

    monkeypatch.setattr(plan_step, "execute", counting)
    item = Item(ANCHOR)
    for turn in range(4):
        if killed and turn == 3:
            item = Item.from_record(ANCHOR, json.loads(json.dumps(item.to_record())))
            monkeypatch.setattr(plan, "_states", plan_step._States())
        say(plan, item, turn, f"COUNT FIND nodes AS n{turn}")
    assert commands == ([1, 1, 1, 4] if killed else [1, 1, 1, 1])
    shown = plan.variables(item)["rounds"][-1][2]
    assert json.loads(shown) == {f"n{turn}": 5 for turn in range(4)}


def test_a_turn_that_failed_leaves_the_state_of_the_turns_before(plan: Step) -> None:
    item = Item(ANCHOR)
    say(plan, item, 0, "FIND nodes AS v")
    say(plan, item, 1, "UPDATE v WITH v OPERATION: append\nCUONT v")
    say(plan, item, 2, "ADD_FIELD v FIELD: k = nothing")
    say(plan, item, 3, "COUNT v AS n")
    assert '"n":5' in plan.variables(item)["rounds"][-1][2]


def test_the_budget_counts_all_turns_alike_before_and_after_a_kill() -> None:
    first, second = CROWD, "COUNT v UNIQUE AS n\n" * 3
    state = plan_step.State("", "")
    run_on(ANCHOR, first, state)
    going_on = plan_step.State.from_dict(json.loads(json.dumps(state.to_dict())))
    whole = plan_step.State("", "")
    run_on(ANCHOR, first + second, going_on)
    run_on(ANCHOR, first + second, whole)
    assert going_on.work == whole.work > state.work
