"""Puzzles have one conclusion, the right one, and a wording that keeps it to itself."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Source, Tools
from kgqa_hpc.kg.relations import Relation
from kgqa_hpc.kg.settings import graph_config, load_graph
from kgqa_hpc.plugins.reasoning.puzzle import PuzzleAnchors, PuzzleSettings, conclusions
from tests.command import kgqa

pytest.importorskip("clingo", reason="CLINGO IS NOT INSTALLED (extra: puzzles)")
FOLDER = Path(__file__).parents[3] / "configs" / "puzzle"
EFFECTS = {"activates": "raises", "inhibits": "lowers", "requires": "needs"}
FLIP = {"up": "down", "down": "up"}


def pushes(edge: Relation, levels: dict[int, str]) -> tuple[int, str] | None:
    """What a statement does to a thing, where the others stand as in `levels`."""
    level = levels[edge.target] if edge.type == "requires" else levels[edge.source]
    if level == "same" or (edge.type == "requires" and level == "up"):
        return None
    if edge.type == "requires":
        return edge.source, "down"
    return edge.target, FLIP[level] if edge.type == "inhibits" else level


def outcomes(relations: tuple[Relation, ...], changed: int, change: str, asked: int) -> set[str]:
    """By trying every assignment: the rules of docs/guide/families.md, without any solver."""
    nodes = sorted({changed, asked, *(end for edge in relations for end in (edge.source, edge.target))})
    found = set()
    for values in product(("up", "same", "down"), repeat=len(nodes)):
        levels = dict(zip(nodes, values, strict=True))
        if levels[changed] != change:
            continue
        into: dict[int, set[str]] = {node: set() for node in nodes}
        for edge in relations:
            if push := pushes(edge, levels):
                into[push[0]].add(push[1])
        fits = all(
            node == changed
            or (levels[node] in into[node] if levels[node] != "same" else len(into[node]) != 1)
            for node in nodes
        )
        if fits and _founded(relations, levels, changed):
            found.add(levels[asked])
    return found


def _founded(relations: tuple[Relation, ...], levels: dict[int, str], changed: int) -> bool:
    """Whether every change leads back to the given one."""
    reached = {changed}
    while True:
        known = {node: level if node in reached else "same" for node, level in levels.items()}
        new = {p[0] for edge in relations if (p := pushes(edge, known)) and levels[p[0]] == p[1]} - reached
        if not new:
            return all(level == "same" or node in reached for node, level in levels.items())
        reached |= new


def puzzles(number: int, **settings: Any) -> list[Anchor]:
    nodes, edges = str(FOLDER / "nodes.csv"), str(FOLDER / "edges.csv")
    graph = load_graph(graph_config({"source": "csv", "nodes": nodes, "edges": edges, "min_degree": 0}))
    settings_ = PuzzleSettings(number=number, effects=EFFECTS, **settings)
    return list(PuzzleAnchors().draw(Source(graph), settings_, 3, Tools()).anchors)


@pytest.fixture(scope="module")
def drawn() -> list[Anchor]:
    return puzzles(300)


def test_every_conclusion_of_300_puzzles_is_the_only_one(drawn: list[Anchor]) -> None:
    assert len(drawn) == 300
    for anchor in drawn:
        data = anchor.data
        assert outcomes(anchor.relations, data["changed"], data["change"], data["asked"]) == {data["outcome"]}
    assert {anchor.group for anchor in drawn} == {"rises", "falls", "stays as it is"}


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        (["0 activates 1", "0 inhibits 2", "1 activates 3", "2 activates 3"], ["down", "same", "up"]),
        (["0 activates 1", "1 activates 3"], ["up"]),
        (["1 activates 2", "2 activates 1", "2 activates 3"], ["same"]),
    ],
    ids=["two conclusions", "one conclusion", "a circle does not hold itself up"],
)
def test_conclusions_are_all_that_follow(edges: list[str], expected: list[str]) -> None:
    words = [edge.split() for edge in edges]
    relations = [Relation(int(source), int(target), kind) for source, kind, target in words]
    assert conclusions(relations, EFFECTS, 0, "up", 3) == expected


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("What happens to ASKED?", None),
        ("What happens to ASKED when CHANGED changes?", None),
        ("What happens then?", "does not name what is given"),
        ("Does ASKED fall?", "hints at the outcome"),
        ("Does BETWEEN act on ASKED?", "names what lies between"),
        ("What happens to ASKED", "is no question"),
    ],
)
def test_the_model_words_the_question_only(drawn: list[Anchor], sentence: str, reason: str | None) -> None:
    kind, anchor = PuzzleAnchors(), drawn[0]
    names = {"ASKED": anchor.data["asked"], "CHANGED": anchor.data["changed"], "BETWEEN": 1}
    for word, number in names.items():
        sentence = sentence.replace(word, anchor.nodes[number].name)
    fields = {**kind.start(anchor), "question": kind.worded(anchor, sentence)}
    assert kind.objection(anchor, fields) == reason
    if reason is None:
        changed = {**fields, "question": fields["question"].replace("activates", "inhibits", 1)}
        swapped = {**fields, "answer": "Something else."}
        assert kind.objection(anchor, swapped) == "is not what follows"
        if changed["question"] != fields["question"]:
            assert kind.objection(anchor, changed) == "changes the statements"


def test_the_example_with_its_tables_is_imported_where_it_was_written(tmp_path):
    kgqa("init", "--example", "puzzle", tmp_path / "mine.yaml")
    run = tmp_path / "run"
    kgqa("init", tmp_path / "mine.yaml", run)
    assert "90 nodes of 2 types" in kgqa("import", run).stdout
