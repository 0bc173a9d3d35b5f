"""Questions with eight options: the right one stands at a given letter, and no two are alike.

Wrong options from the graph share the answer's type and no edge with the subject in the whole graph.
"""

import random
import tracemalloc
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson
import pytest

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, Source, Tools
from kgqa_hpc.anchors.family import Distractors
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.reduce import AnswerGraph, reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.run import Run
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step
from tests.families.conftest import graph_of, random_graph
from tests.golden.cases import config, write_graph
from tests.record_runs import chain_of

WRONG = ["Asthma", "Measles", "Migraine", "Psoriasis", "Gout", "Tetanus", "Mumps"]
OPTIONS = {"use": "options", "prompt": "demo_context"}


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return random_graph(3, 300, 900)


def chain(*steps: Any, distractors: str = "model") -> list[Step]:
    anchors = {"kind": "context", "distractors": distractors}
    return chain_of(*steps, graph={"source": "hpo"}, anchors=anchors)


def take(step: Step, item: Item, answer: dict[str, Any]) -> Outcome:
    return step.take(item, Response("one", orjson.dumps(answer).decode(), "stop"), 0)


def optioned(wrong: list[str]) -> tuple[Item, Outcome]:
    """An item of letter C after the model gave its options."""
    item = Item(Anchor("one", "context", "causal", (), data={"letter": "C"}))
    answer = {"question": "Which of these goes together with Ataxia?", "answer": "Ptosis"}
    return item, take(chain(OPTIONS)[0], item, {**answer, "distractors": wrong})


def drawn(graph: KnowledgeGraph, distractors: str, number: int = 60, excluded: Any = ()) -> list[Anchor]:
    """Contexts drawn on a reduction that lacks the nodes of many and of few neighbours."""
    limits = GraphConfig(min_degree=3, max_degree=9, exclude_edge_types=list(excluded))
    reduction = reduce_to(graph, limits)
    source = Source(reduction.graph, reduction.counts, AnswerGraph.of(graph, reduction))
    kind = KINDS.get("context")
    settings = kind.Settings(number=number, distractors=distractors)
    return list(kind().draw(source, settings, 1, Tools()).anchors)


def test_the_right_option_stands_at_the_letter_of_its_anchor() -> None:
    item, outcome = optioned(WRONG)
    assert isinstance(outcome, Done)
    assert list(item.output["choices"].values()) == [*WRONG[:2], "Ptosis", *WRONG[2:]]
    assert item.output["answer_letter"] == "C"


@pytest.mark.parametrize("alike", ["Asthma", "asthma", "PTOSIS"])
def test_options_that_are_alike_are_asked_again(alike: str) -> None:
    item, outcome = optioned([*WRONG[:6], alike])
    assert outcome == Retry("options are alike", lost_as="invalid")
    assert item.output == {}


@pytest.mark.parametrize(
    ("use", "prompt", "shown"),
    [("score", "quality", "A. Asthma"), ("judge_options", "judge_choices", "(1) Asthma")],
)
def test_a_judge_of_the_question_sees_all_its_options(use: str, prompt: str, shown: str) -> None:
    item, _ = optioned(WRONG)
    judge = chain(OPTIONS, {"use": use, "as": "quality_score", "prompt": prompt})[1]
    (user,) = [m["content"] for m in judge.request(item, 0).messages if m["role"] == "user"]
    assert shown in user
    assert all(text in user for text in item.output["choices"].values())


@pytest.mark.parametrize("excluded", [[], ["causes"]])
def test_no_wrong_option_is_joined_to_subject_or_answer_by_any_edge_of_the_graph(
    graph: KnowledgeGraph, excluded: list[str]
) -> None:
    ids = graph.node_ids.tolist()
    joined = {(ids[a], ids[b]) for a, b in zip(graph.edge_source, graph.edge_target, strict=True)}
    joined |= {(b, a) for a, b in joined}
    usable = [name not in excluded for name in graph.edge_types]
    counted = graph.with_edges(np.array(usable)[graph.edge_type]).degrees()
    degrees = dict(zip(ids, counted.tolist(), strict=True))
    anchors = [anchor for anchor in drawn(graph, "graph", 60, excluded) if "options" in anchor.data]
    assert len(anchors) > 50
    distances = []
    for anchor in anchors:
        options = anchor.data["options"]
        subject, answer = anchor.nodes[options["subject"]], anchor.nodes[options["answer"]]
        assert (subject.id, answer.id) in joined
        assert len({name for _, name, _ in options["wrong"]} | {subject.name, answer.name}) == 9
        for node, _, kind in options["wrong"]:
            assert not {(subject.id, node), (answer.id, node)} & joined
            assert kind == answer.type
            distances.append(abs(degrees[node] - degrees[answer.id]))
    spread = [abs(a - b) for a in degrees.values() for b in degrees.values()]
    assert median(distances) < median(spread)


def test_no_wrong_option_has_a_name_that_is_right_as_well() -> None:
    """The subject has two neighbours; a node of the answer's type is called as the other one, in capitals."""
    names = ["Subject", "Answer", "Goitre", "GOITRE", *(f"Gene {k}" for k in range(3))]
    kinds = ["drug", "gene", "sign", *["gene"] * 4]
    graph = graph_of(names, kinds, [(0, "r", 1), (0, "r", 2), (3, "r", 4), (4, "r", 5), (5, "r", 6)])
    drawn = Distractors(graph, frozenset()).draw([0], 1, 4, random.Random(1))
    assert {names[node] for node in drawn} == {"Gene 0", "Gene 1", "Gene 2"}


def test_the_graphs_options_change_no_context_and_no_draw(graph: KnowledgeGraph) -> None:
    plain, with_options = drawn(graph, "model"), drawn(graph, "graph")
    assert with_options == drawn(graph, "graph")
    for before, after in zip(plain, with_options, strict=True):
        data = {key: value for key, value in after.data.items() if key != "options"}
        assert (before.id, before.nodes, before.data) == (after.id, after.nodes, data)


def test_the_model_writes_the_question_alone_and_sees_every_option(graph: KnowledgeGraph) -> None:
    step = chain("graph_options", "verify", distractors="graph")[0]
    plain = Item(drawn(graph, "model", 1)[0])
    assert not step.asks_about(plain)
    assert step.compute(plain) == Reject("graph_options: no options in the graph")
    for anchor in drawn(graph, "graph", 20):
        if "options" not in anchor.data:
            continue
        item, options = Item(anchor), anchor.data["options"]
        right, wrong = anchor.nodes[options["answer"]].name, [name for _, name, _ in options["wrong"]]
        shown = step.request(item, 0).messages[1]["content"]
        assert f"Right answer: {right}\nWrong answers:\n" + "\n".join(f"- {name}" for name in wrong) in shown
        subject = anchor.nodes[options["subject"]].name
        answer = {"analysis": "So.", "decline_reason": "", "worth_asking": True}
        answer["question"] = f"Which thing would change first if {subject} were taken away from it?"
        assert isinstance(take(step, item, answer), Done)
        choices = item.output["choices"]
        assert sorted(choices.values()) == sorted([right, *wrong])
        assert choices[item.output["answer_letter"]] == item.output["answer"] == right
        assert item.output["answer_letter"] == anchor.data["letter"]


def test_a_run_with_the_graphs_options_ends_in_accepted_records_with_eight_choices(tmp_path: Path) -> None:
    file = config(
        tmp_path,
        graph={**write_graph(tmp_path), "min_degree": 0},
        anchors={"kind": "context", "number": 40, "distractors": "graph"},
        engine={"kind": "scripted"},
        passes=[{"name": "main", "steps": ["graph_options", "verify"]}],
        dataset={"z_score": None},
    )
    records = list(Run.from_config(file, tmp_path / "run").all().dataset.records())
    assert len(records) > 20
    assert all(record["choices"][record["answer_letter"]] == record["answer"] for record in records)


def test_a_draw_of_wrong_options_copies_nothing_of_the_size_of_the_graph() -> None:
    names = np.array([f"node {k}" for k in range(100_000)], object)
    ends = np.arange(len(names), dtype=np.int32)
    types = np.zeros(len(names), np.int32)
    graph = KnowledgeGraph(names, names, types, ("gene",), ends, np.roll(ends, 1), types, ("hits",))
    distractors = Distractors(graph, ())
    distractors.draw([1], 2, 3, random.Random(1))
    tracemalloc.start()
    try:
        options = distractors.draw([1], 2, 3, random.Random(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(set(options)) == 3
    assert peak < len(names)  # bytes
