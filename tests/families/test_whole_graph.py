"""Anchors are drawn on the reduced graph; what they say is recounted on the whole named graph."""

import random
from typing import Any

import pytest

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Source
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.reduce import AnswerGraph, reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from tests.families.conftest import draw, graph_of

SEED = 20
EXCLUDED = "secret"
Triple = tuple[str, str, str]


def hub_graph(seed: int = SEED, nodes: int = 400, edges: int = 1500) -> KnowledgeGraph:
    """Random edges with hubs, some nodes without a name, two of one name, loops, and a type to leave out."""
    chance = random.Random(seed)
    kinds = [chance.choice(["drug", "gene", "disease"]) for _ in range(nodes)]
    names = [f"name {k}" if k % 29 else " " for k in range(nodes)]
    names[1] = names[2]
    weights = [1 / (k % 97 + 1) for k in range(nodes)]
    ends = chance.choices(range(nodes), weights, k=2 * edges)
    relations = ["hits", "causes", EXCLUDED]
    rows = [(ends[2 * k], chance.choice(relations), ends[2 * k + 1]) for k in range(edges)]
    return graph_of(names, kinds, rows)


def source_of(graph: KnowledgeGraph, **wanted: Any) -> Source:
    limits = {"min_degree": 2, "max_degree": 12, "exclude_edge_types": [EXCLUDED], **wanted}
    reduction = reduce_to(graph, GraphConfig(**limits))
    return Source(reduction.graph, reduction.counts, AnswerGraph.of(graph, reduction))


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return hub_graph()


@pytest.fixture(scope="module")
def source(graph: KnowledgeGraph) -> Source:
    return source_of(graph)


class Recount:
    """The imported graph read again: named nodes, edges without the excluded type."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.name = dict(zip(graph.node_ids, graph.names, strict=True))
        self.type = {node: graph.node(k).type for k, node in enumerate(graph.node_ids)}
        named = {node for node, name in self.name.items() if name.strip()}
        rows = zip(graph.edge_source, graph.edge_type, graph.edge_target, strict=True)
        found = {(graph.node_ids[s], graph.edge_types[k], graph.node_ids[t]) for s, k, t in rows}
        self.edges = {e for e in found if e[1] != EXCLUDED and {e[0], e[2]} <= named and e[0] != e[2]}
        self.around: dict[str, set[tuple[str, bool, str]]] = {node: set() for node in named}
        for a, relation, b in self.edges:
            self.around[a].add((relation, True, b))
            self.around[b].add((relation, False, a))

    def ends(self, start: str, way: list[dict[str, Any]]) -> set[str]:
        paths = [(start,)]
        for step in way:
            paths = [
                (*path, other)
                for path in paths
                for relation, out, other in self.around[path[-1]]
                if (relation, out, self.type[other]) == (step["relation"], step["out"], step["type"])
                and other not in path
            ]
        return {self.name[path[-1]] for path in paths}

    def near(self, node: str, radius: int) -> set[str]:
        ball = {node}
        for _ in range(radius):
            ball |= {other for one in ball for _, _, other in self.around[one]}
        return ball


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_answers_shortcuts_and_degrees_of_paths_are_those_of_the_whole_graph(
    graph: KnowledgeGraph, source: Source, length: int
) -> None:
    recount = Recount(graph)
    anchors = draw(source, "path", number=400, length=length, max_answers=60, shortcuts=True)
    assert len(anchors) > 300
    reduced = set(source.graph.node_ids)
    for anchor in anchors:
        ids = [node.id for node in anchor.nodes]
        assert set(ids) <= reduced
        assert set(anchor.data["answers"]) == recount.ends(ids[0], anchor.data["way"])
        assert anchor.data["shortcut"] == (ids[-1] in recount.near(ids[0], length - 1))
        assert anchor.data["degree"] == len(recount.near(ids[-1], 1)) - 1
        assert KINDS.get("path")().record(anchor, {})["steps_hold"] == [True] * length
    assert length == 1 or any(len(one.data["answers"]) > 5 for one in anchors)
    few = draw(source, "path", number=400, length=length, max_answers=5, shortcuts=True)
    assert max(len(one.data["answers"]) for one in few) <= 5
    every = draw(source, "path", number=400, length=length, max_answers=None, shortcuts=True)
    assert all(set(one.data["answers"]) == recount.ends(one.nodes[0].id, one.data["way"]) for one in every)


def test_a_path_question_is_asked_once(source: Source) -> None:
    anchors = draw(source, "path", number=5000, length=2, max_answers=None, shortcuts=True)
    asked = [(one.nodes[0].id, repr(one.data["way"])) for one in anchors]
    assert len(asked) > 500
    assert len(set(asked)) == len(asked)


def test_answers_of_facts_are_those_of_the_whole_graph(graph: KnowledgeGraph, source: Source) -> None:
    recount, reduced = Recount(graph), set(source.graph.node_ids)
    anchors = draw(source, "fact", number=10_000, max_answers=3)
    asked = set()
    for anchor in anchors:
        way = [{"relation": anchor.data["relation"], "out": anchor.data["out"], "type": anchor.data["asked"]}]
        assert set(anchor.data["answers"]) == recount.ends(anchor.nodes[0].id, way)
        assert any(node.id in reduced for node in anchor.nodes[1:])
        asked.add((anchor.nodes[0].id, *way[0].values()))
    complete = set()
    for node in reduced:
        if list(recount.name.values()).count(recount.name[node]) > 1:
            continue
        for relation, out, kind in {
            (relation, out, recount.type[other])
            for relation, out, other in recount.around[node]
            if other in reduced
        }:
            ends = [
                recount.name[other]
                for found, away, other in recount.around[node]
                if (found, away, recount.type[other]) == (relation, out, kind)
            ]
            # Two nodes are named `name 2`: a fact with both as its answers is left out.
            if len(ends) == len(set(ends)) <= 3:
                complete.add((node, relation, out, kind))
    assert asked == complete
    assert len(asked) > 100


HIT = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one FOLLOW hits DIRECTION out AS near\n"
HITS = [
    {"name": name, "script": f"{HIT}{last} AS answer", "entity": "gene", "asks": "something"}
    for name, last in (("names", "SELECT near FIELDS name"), ("count", "COUNT near"))
]


def test_scripts_run_on_the_whole_graph(graph: KnowledgeGraph, source: Source) -> None:
    recount = Recount(graph)
    anchors = draw(source, "script", number=60, scripts=HITS, max_answers=30)
    assert {anchor.group for anchor in anchors} == {"names", "count"}
    for anchor in anchors:
        around = recount.around[anchor.nodes[0].id]
        ends = {other for relation, out, other in around if (relation, out) == ("hits", True)}
        names = {recount.name[end] for end in ends}
        expected = names if anchor.group == "names" else {str(len(ends))}
        assert set(anchor.data["answers"]) == expected


def test_statements_of_puzzles_come_from_the_whole_graph(graph: KnowledgeGraph, source: Source) -> None:
    pytest.importorskip("clingo", reason="CLINGO IS NOT INSTALLED (extra: puzzles)")
    edges, reduced = Recount(graph).edges, set(source.graph.node_ids)
    effects = {"hits": "raises", "causes": "lowers"}
    anchors = draw(source, "puzzle", number=100, length=2, distractors=8, effects=effects)
    for anchor in anchors:
        assert {node.id for node in anchor.nodes[:3]} <= reduced
        ids = [node.id for node in anchor.nodes]
        assert all((ids[one.source], one.type, ids[one.target]) in edges for one in anchor.relations)
    assert any(node.id not in reduced for anchor in anchors for node in anchor.nodes)


@pytest.mark.parametrize("kind", ["hub", "context"])
def test_nodes_of_the_reduced_graph_count_all_neighbours(
    graph: KnowledgeGraph, source: Source, kind: str
) -> None:
    recount = Recount(graph)
    for anchor in draw(source, kind, number=1000, min_degree=3):
        assert anchor.data["degree"] == len(recount.near(anchor.nodes[0].id, 1)) - 1


def test_the_largest_hubs_are_those_of_the_whole_graph(source: Source) -> None:
    degrees = [anchor.data["degree"] for anchor in draw(source, "hub", number=1000, first="largest")]
    assert degrees == sorted(degrees, reverse=True)


TWINS = [(a, "r", b) for a, b in ((0, 3), (1, 3), (2, 3), (3, 4), (4, 5), (0, 5), (2, 4), (2, 5))]
TEMPLATE = {
    "name": "near",
    "entity": "x",
    "asks": "what is near",
    "script": "FIND nodes WITH id=<entity> AS a\nGRAPHWALK FROM a AS b\nSELECT b FIELDS name AS answer",
}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("path", {"length": 1}),
        ("fact", {"max_answers": 5}),
        ("script", {"scripts": [TEMPLATE]}),
        ("hub", {"min_degree": 2}),
    ],
)
def test_a_name_of_two_nodes_of_the_graph_is_not_asked_about(kind: str, settings: dict[str, Any]) -> None:
    graph = graph_of(["Twin", "Twin", "Own", "B", "C", "D"], ["x"] * 6, TWINS)
    source = source_of(graph, min_degree=2, exclude_edge_types=[])
    assert "Twin" in source.graph.names  # the other twin has one neighbour: it is not in the reduced graph
    given = {anchor.nodes[0].name for anchor in draw(source, kind, **settings)}
    assert "Own" in given
    assert "Twin" not in given


def test_a_question_whose_answer_is_what_it_names_is_not_asked() -> None:
    graph = graph_of(["Alpha", "alpha", "B"], ["x", "y", "y"], [(0, "r", 1), (0, "r", 2), (2, "r", 1)])
    template = {**TEMPLATE, "entity": "x"}
    source = source_of(graph, min_degree=0, exclude_edge_types=[])
    asked = {one.nodes[0].name for one in draw(source, "fact", max_answers=5)}
    assert "Alpha" not in asked
    assert asked
    with pytest.raises(Exception, match="no script gave an answer"):
        draw(source, "script", scripts=[template])


def test_a_number_is_asked_for_with_the_source_and_its_version_where_the_graph_has_one() -> None:
    attributes = {"title": "A graph of hits", "version": "2025-01"}
    edges = [(0, "hits", 1), (0, "hits", 2)]
    kind = KINDS.get("script")()
    for more, prefix in ((attributes, "According to A graph of hits, version 2025-01: "), ({}, "")):
        whole = graph_of(["A", "B", "C"], ["gene", "drug", "drug"], edges, attributes=more)
        worded = {
            anchor.group: kind.worded(anchor, "How many does A hit?")
            for anchor in draw(Source(whole), "script", number=9, scripts=HITS)
        }
        assert worded == {"count": f"{prefix}How many does A hit?", "names": "How many does A hit?"}
