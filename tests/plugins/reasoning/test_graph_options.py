"""Options from the graph: wrong options share the answer's type and no edge with the subject in the whole graph."""

import json
from pathlib import Path
from statistics import median

import orjson
import pytest

from kgqa_hpc import stages
from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, Source, Tools
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.reduce import AnswerGraph, reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Reject, Step
from tests.families.graphs import random_graph
from tests.golden.cases import config, write_graph


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return random_graph(3, 300, 900)


def drawn(graph: KnowledgeGraph, distractors: str, number: int = 60) -> list[Anchor]:
    """Contexts drawn on a reduction that lacks the nodes of many and of few neighbours."""
    reduction = reduce_to(graph, GraphConfig(min_degree=3, max_degree=9))
    source = Source(reduction.graph, reduction.counts(), AnswerGraph.of(graph, reduction))
    kind = KINDS.get("context")
    settings = kind.Settings(number=number, distractors=distractors)
    return list(kind().draw(source, settings, 1, Tools()).anchors)


def test_no_wrong_option_is_joined_to_the_subject_or_to_the_answer_anywhere_in_the_graph(
    graph: KnowledgeGraph,
) -> None:
    ids = graph.node_ids.tolist()
    joined = {(ids[a], ids[b]) for a, b in zip(graph.edge_source, graph.edge_target, strict=True)}
    joined |= {(b, a) for a, b in joined}
    degrees = dict(zip(ids, graph.degrees().tolist(), strict=True))
    anchors = [anchor for anchor in drawn(graph, "graph") if "options" in anchor.data]
    assert len(anchors) > 50
    distances = []
    for anchor in anchors:
        options = anchor.data["options"]
        subject, answer = anchor.nodes[options["subject"]], anchor.nodes[options["answer"]]
        assert (subject.id, answer.id) in joined
        assert len({name for _, name, _ in options["wrong"]} | {subject.name, answer.name}) == 9
        for node, _, kind in options["wrong"]:
            assert (subject.id, node) not in joined
            assert (answer.id, node) not in joined
            assert kind == answer.type
            distances.append(abs(degrees[node] - degrees[answer.id]))
    spread = [abs(a - b) for a in degrees.values() for b in degrees.values()]
    assert median(distances) < median(spread)


def test_the_graphs_options_change_no_context_and_no_draw(graph: KnowledgeGraph) -> None:
    plain, with_options = drawn(graph, "model"), drawn(graph, "graph")
    assert with_options == drawn(graph, "graph")
    for before, after in zip(plain, with_options, strict=True):
        data = {key: value for key, value in after.data.items() if key != "options"}
        assert (before.id, before.nodes, before.data) == (after.id, after.nodes, data)


def step_of() -> Step:
    plain = {
        "graph": {"source": "hpo"},
        "anchors": {"kind": "context", "distractors": "graph"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": ["graph_options", "verify"]}],
    }
    return build_chain(parse_config(plain, "a test"), "main", EngineInfo("scripted", "1", "model", 1))[0]


def test_the_model_writes_the_question_alone_and_sees_every_option(graph: KnowledgeGraph) -> None:
    step = step_of()
    for anchor in drawn(graph, "graph", 20):
        if "options" not in anchor.data:
            continue
        item, options = Item(anchor), anchor.data["options"]
        right, wrong = anchor.nodes[options["answer"]].name, [name for _, name, _ in options["wrong"]]
        shown = step.request(item, 0, 1).messages[1]["content"]
        assert f"Right answer: {right}\nWrong answers:\n" + "\n".join(f"- {name}" for name in wrong) in shown
        subject = anchor.nodes[options["subject"]].name
        answer = {"analysis": "So.", "decline_reason": "", "worth_asking": True}
        answer["question"] = f"Which thing would change first if {subject} were taken away from it?"
        assert isinstance(step.take(item, Response("one", orjson.dumps(answer).decode(), "stop"), 0), Done)
        choices = item.output["choices"]
        assert sorted(choices.values()) == sorted([right, *wrong])
        assert choices[item.output["answer_letter"]] == item.output["answer"] == right
        assert item.output["answer_letter"] == anchor.data["letter"]


def test_a_context_without_options_in_the_graph_is_rejected_and_nobody_is_asked(
    graph: KnowledgeGraph,
) -> None:
    step, item = step_of(), Item(drawn(graph, "model", 1)[0])
    assert not step.asks_about(item)
    assert step.compute(item) == Reject("graph_options: no options in the graph")


def test_a_run_with_the_graphs_options_ends_in_accepted_records_with_eight_choices(tmp_path: Path) -> None:
    file = config(
        tmp_path,
        graph={**write_graph(tmp_path), "min_degree": 0},
        anchors={"kind": "context", "number": 40, "distractors": "graph"},
        engine={"kind": "scripted"},
        passes=[{"name": "main", "steps": ["graph_options", "verify"]}],
        dataset={"z_score": None},
    )
    run = stages.all_stages(file, tmp_path / "run")
    records = [json.loads(line) for line in (run.dataset / "accepted.jsonl").read_text().splitlines()]
    assert len(records) > 20
    assert all(record["choices"][record["answer_letter"]] == record["answer"] for record in records)
