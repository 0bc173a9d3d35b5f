"""The step `plan`: scripts run on the evidence within a bounded time and memory, their results are shown, and the
answer is the result of execution, in whole runs too.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.plugins.gasl.plan import run_on
from kgqa_hpc.plugins.gasl.script import answers_of
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Retry, Step
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import AnchorsFile
from tests.families.conftest import finished, lines, sampled, whole_and_killed
from tests.project import write_tables
from tests.record_runs import chain_of
from tests.work.rig import Processes

GENE = Anchor(
    "hub-1",
    "hub",
    "gene",
    (Node("g1", "ATP7B", "gene"), Node("d1", "Wilson disease", "disease"), Node("d2", "Tremor", "disease")),
    (Relation(0, 1, "causes"), Relation(0, 2, "causes")),
    data={"degree": 2, "uses": 1},
)
DENSE = Anchor(
    "hub-1",
    "hub",
    "t",
    tuple(Node(f"n{k}", f"Node number {k}", "t") for k in range(5)),
    tuple(Relation(a, b, "e") for a in range(5) for b in range(5) if a != b),
    data={"degree": 4, "uses": 1},
)
FIND = "FIND nodes WITH type=disease AS found"
COUNT = "COUNT found AS answer"
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


@pytest.fixture
def plan() -> Step:
    """The step of a run over hubs with the scripted engine."""
    return chain_of("plan", anchors={"kind": "hub"})[0]


def say(plan: Step, item: Item, turn: int, script: str = "", question: str = "") -> Outcome:
    """A turn of the model; with a question it calls the result sufficient."""
    answer = {"thought": "So.", "sufficient": bool(question), "script": script, "question": question}
    plan.request(item, 0, turn)
    return plan.take(item, Response("x", json.dumps(answer), "stop"), 0, turn)


def restored(item: Item) -> Item:
    return Item.from_record(item.anchor, json.loads(json.dumps(item.to_record())))


def test_the_answer_is_the_result_of_execution_and_carries_its_script(plan: Step) -> None:
    item = Item(GENE)
    assert say(plan, item, 0, FIND) == Ask()
    again = restored(item)
    assert plan.request(again, 0, 1) == plan.request(item, 0, 1)
    for branch in (item, again):
        assert say(plan, branch, 1, COUNT) == Ask()
        question = "How many diseases does ATP7B cause?"
        assert say(plan, branch, 2, "SET answer = 9", question) == Done()
        assert branch.output["answer"] == "2"
        assert branch.output["script"] == f"{FIND}\n{COUNT}"
        assert branch.annotations["rounds"] == 2


def test_the_model_sees_what_its_scripts_gave_and_where_they_failed(plan: Step) -> None:
    item = Item(GENE)
    say(plan, item, 0, FIND)
    say(plan, item, 1, "CUONT found AS answer")
    shown = plan.request(item, 0, 2).messages[1]["content"]
    assert "Wilson disease" in shown
    assert "ended with error" in shown
    assert say(plan, item, 2, "SELECT found FIELDS name AS answer") == Ask()
    assert say(plan, item, 3, question="Which diseases does ATP7B cause?") == Done()
    assert item.output["answer"] == "Tremor; Wilson disease"
    assert "CUONT" not in item.output["script"]


def test_a_script_without_result_or_execution_is_not_sufficient(plan: Step) -> None:
    item = Item(GENE)
    say(plan, item, 0, FIND)
    assert say(plan, item, 1, question="What?") == Reject("plan: no script gave an answer")
    item, script = Item(GENE), f"{FIND}\n{COUNT}"
    assert say(plan, item, 0, script, "How many?") == Ask()
    assert '"answer":2' in plan.request(item, 0, 1).messages[1]["content"].replace(" ", "")
    assert say(plan, item, 1, script, "How many diseases?") == Done()
    assert item.output["script"] == script


def test_the_plan_ends_after_ten_rounds(plan: Step) -> None:
    item = Item(GENE)
    assert [say(plan, item, turn, FIND) for turn in range(9)] == [Ask()] * 9
    assert say(plan, item, 9, FIND) == Reject("plan: no end after 10 turns")


@pytest.mark.parametrize("script", ["", "\x00", "FIND " * 300, "SET a = [" * 150, "é" * 10])
def test_no_script_of_a_model_stops_the_run(plan: Step, script: str) -> None:
    assert isinstance(say(plan, Item(GENE), 0, script), Ask | Retry)


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_no_script_of_a_model_takes_more_than_seconds_and_a_mebibyte(line: str) -> None:
    begin = time.process_time()
    commands = (CROWD + line * (15_000 // len(line))).splitlines()  # all are tried, whatever fails
    result = run_on(DENSE, json.dumps({"commands": commands, "config": {"stop_on_error": False}}))
    assert time.process_time() - begin < 20, "two seconds on an idle core; hours without a bound"
    assert len(json.dumps(result.variables)) < 2 * 1024**2


def test_a_script_beyond_its_budget_ends_with_the_limit_named() -> None:
    error = run_on(DENSE, CROWD + LINES["joins"]).error
    assert error is not None
    assert error["kind"] == "limit"
    assert "in all" in error["message"] or "items and edges" in error["message"]


def test_a_turn_that_failed_leaves_the_state_of_the_turns_before(plan: Step) -> None:
    item = Item(DENSE)
    broken = ["UPDATE v WITH v OPERATION: append\nCUONT v", "ADD_FIELD v FIELD: k = nothing"]
    for turn, script in enumerate(["FIND nodes AS v", *broken, "COUNT v AS n"]):
        say(plan, item, turn, script)
    assert '"n":5' in plan.variables(item)["rounds"][-1][2]


CONFIG = Path(__file__).parents[3] / "configs" / "plan.yaml"


def prepared(folder: Path, number: int, **engine: Any) -> RunFolder:
    """The shipped configuration with the scripted engine and another graph, whose tables lie beside the folder."""
    nodes = [(f"n{i}", f"Node number {i}", ("gene", "disease", "phenotype")[i % 3]) for i in range(300)]
    edges = [(f"n{i}", f"n{(i + k) % 300}", "linked_to") for i in range(300) for k in (1, 7, 20)]
    write_tables(folder.parent, nodes, edges)
    files = {name: str(folder.parent / f"{name}.csv") for name in ("nodes", "edges")}
    config = yaml.safe_load(CONFIG.read_text())
    config["graph"] = {"source": "csv", **files, "min_degree": 0}
    config["engine"] = {"kind": "scripted", "accept": 0.3, **engine}
    config["anchors"]["number"] = number
    config["runtime"] = {"shard_size": 20, "commit_every": 1, "lease": 2}
    return sampled(folder, config)


@pytest.mark.slow
def test_a_run_killed_in_mid_plan_ends_in_the_same_bytes(tmp_path: Path, processes: Processes) -> None:
    whole, killed = whole_and_killed(
        lambda name, **engine: prepared(tmp_path / name, 60, **engine), processes
    )
    assert killed == whole
    assert max(record["rounds"] for record in lines(killed["accepted.jsonl"])) >= 3


def test_every_answer_is_what_its_script_gives_on_its_evidence(tmp_path: Path) -> None:
    run = prepared(tmp_path / "run", 100)
    found = finished(run)
    with AnchorsFile(run.anchors) as file:
        anchors = {row["id"]: Anchor.from_dict(row) for row in file.rows()}
    accepted = lines(found["accepted.jsonl"])
    assert accepted
    for record in accepted:
        result = run_on(anchors[record["id"]], record["script"])
        assert record["answer"] == "; ".join(answers_of(result.variables["answer"]))
    refused = lines(found["rejected.jsonl"]) + lines(found["lost.jsonl"])
    assert refused
    assert all(record["reason"].startswith(("plan: ", "check: ")) for record in refused)
