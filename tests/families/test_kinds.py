"""What the graph says of each family's anchors is right, and wrong wordings are refused with their reason."""

import gc
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from scipy.stats import chisquare

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.anchors.family import gathered, place
from kgqa_hpc.errors import EmptyGraphError, InputError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.prompts.prompt import load_prompt
from tests.families.conftest import draw, graph_of, random_graph


def triples(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    rows = zip(graph.edge_source, graph.edge_type, graph.edge_target, strict=True)
    return {(graph.names[s], graph.edge_types[k], graph.names[t]) for s, k, t in rows}


def objection(kind: str, anchor: Anchor, **fields: Any) -> str | None:
    made = KINDS.get(kind)()
    return made.objection(anchor, {**made.start(anchor), **fields})


BOTH = "Vagabond and Cleo from 5 to 7."
WORDINGS = [
    ("path", "In which film that Agnes Varda directed, and who, played?", "", None),
    ("path", "Who played in a film by Agnes Varda", "", "is no question"),
    ("path", "Who played in a film by this director?", "", "does not name what is given"),
    ("path", "Did Sandrine Bonnaire play in a film by Agnes Varda?", "", "gives the answer away"),
    ("path", "Who played in Vagabond by Agnes Varda?", "", "names what lies between"),
    ("path", "Who played, as the text says, in a film by Agnes Varda?", "", "speaks of its source"),
    ("hub", "How did Agnes Varda work?", f"With {BOTH}", None),
    ("hub", "What did Agnes Varda do?", BOTH, "asks neither how nor why"),
    ("hub", "Tell me how Agnes Varda worked.", BOTH, "is no question"),
    ("hub", "Why did she work?", BOTH, "does not name the hub"),
    ("hub", "Why did Agnes Varda work?", "She made Vagabond.", "brings too few neighbours together"),
    ("hub", "How, in the figure, did Agnes Varda work?", BOTH, "speaks of its source"),
]


@pytest.mark.parametrize(("kind", "question", "answer", "reason"), WORDINGS)
def test_a_wording_keeps_to_the_rules_of_its_kind(
    films: KnowledgeGraph, kind: str, question: str, answer: str, reason: str | None
) -> None:
    if kind == "path":
        anchors = draw(films, "path", pattern=["director", "film", "actor"])
        (anchor,) = (one for one in anchors if one.nodes[1].name == "Vagabond")
        assert anchor.data["answers"] == ["Corinne Marchand", "Dorothee Blanck", "Sandrine Bonnaire"]
        assert objection("path", anchor, question=question) == reason
    else:
        (anchor,) = (one for one in draw(films, "hub", min_degree=2) if one.nodes[0].name == "Agnes Varda")
        assert objection("hub", anchor, question=question, answer=answer) == reason


def test_a_path_with_a_shortcut_is_left_out_unless_wanted() -> None:
    triangle = graph_of(["A", "B", "C"], ["x", "y", "z"], [(0, "r", 1), (1, "r", 2), (0, "r", 2)])
    with pytest.raises(EmptyGraphError):
        draw(triangle, "path", length=2)
    assert all(anchor.data["shortcut"] for anchor in draw(triangle, "path", length=2, shortcuts=True))


def test_paths_that_all_lead_through_a_hub_are_refused_with_its_cure() -> None:
    star = [(0, "r", leaf) for leaf in range(1, 200)]
    names = [f"name {number}" for number in range(200)]
    with pytest.raises(EmptyGraphError, match=r"none of [1-9][0-9,]+ drawn paths") as refused:
        draw(graph_of(names, ["x"] * 200, star), "path", max_answers=1)
    assert "through hubs" in refused.value.cure


def test_a_pattern_of_types_and_relations_is_kept_to() -> None:
    graph = random_graph(2, 60, 200)
    settings = {"pattern": ["drug", "gene", "disease"], "relations": ["hits", None], "max_answers": None}
    anchors = draw(graph, "path", number=50, **settings)
    assert {tuple(node.type for node in anchor.nodes) for anchor in anchors} == {("drug", "gene", "disease")}
    assert {anchor.data["way"][0]["relation"] for anchor in anchors} == {"hits"}


def test_a_changed_answer_or_step_is_refused(films: KnowledgeGraph) -> None:
    anchor = draw(films, "path", pattern=["director", "film", "actor"])[0]
    good = "Who played in a film by Agnes Varda?"
    assert objection("path", anchor, question=good, answers=["Jane Birkin"]) == "is not the graph's answer"
    wrong = Anchor.from_dict({**anchor.to_dict(), "relations": []})
    assert objection("path", wrong, question=good) == "a step is no edge"


def test_a_question_with_more_answers_than_allowed_is_not_asked(films: KnowledgeGraph) -> None:
    def asked(**settings: int) -> set[str]:
        anchors = draw(films, "fact", **settings)
        return {anchor.nodes[0].name for anchor in anchors if anchor.data["asked"] == "actor"}

    assert asked() == {"Vagabond"}
    assert asked(max_answers=2) == {"Vagabond", "Cleo from 5 to 7"}


def test_other_names_and_attributes_come_from_node_properties() -> None:
    graph = graph_of(
        ["Aspirin", "Pain"],
        ["drug", "symptom"],
        [(0, "treats", 1)],
        node_properties={
            "synonyms": pa.array(["acetylsalicylic acid|ASA", None], pa.large_string()),
            "year": pa.array([1899, None], pa.int64()),
        },
    )
    anchors = draw(graph, "fact", aliases="synonyms", attributes=["year"])
    by_group = {(anchor.group, anchor.nodes[0].name): anchor for anchor in anchors}
    assert by_group["treats", "Pain"].data["aliases"] == ["acetylsalicylic acid", "ASA"]
    assert by_group["year", "Aspirin"].data["answers"] == ["1899"]
    leak = "Does acetylsalicylic acid relieve Pain?"
    assert objection("fact", by_group["treats", "Pain"], question=leak) == "gives the answer away"
    with pytest.raises(InputError, match="no property 'aliases'"):
        draw(graph, "fact", aliases="aliases")


def test_a_property_with_several_values_has_several_answers() -> None:
    texts = ["pain|fever", "fever", "rash|pain|fever", "pain|", "rash|rash"]
    cells = {"uses": pa.array(texts, pa.large_string())}
    names = ["Aspirin", "Ibuprofen", "Cortisone", "Open end", "Repeated"]
    edges = [(number, "near", (number + 1) % 5) for number in range(5)]
    graph = graph_of(names, ["drug"] * 5, edges, node_properties=cells)
    drawn = draw(graph, "fact", attributes=["uses"], relations=[], max_answers=2)
    by_name = {anchor.nodes[0].name: anchor for anchor in drawn}
    answers = {name: anchor.data["answers"] for name, anchor in by_name.items()}
    assert answers == {"Aspirin": ["fever", "pain"], "Ibuprofen": ["fever"]}
    records = {name: KINDS.get("fact")().record(anchor, {}) for name, anchor in by_name.items()}
    assert (records["Aspirin"]["query"], records["Aspirin"]["cypher"]) == (None, None)
    assert "urn:kgqa:property:uses" in records["Ibuprofen"]["query"]


def test_a_hub_shows_one_of_several_neighbours_with_the_same_name() -> None:
    names = ["Gene", "Telomere maintenance", "telomere maintenance", "Ageing", "gene"]
    types = ["gene", "process", "process", "process", "gene"]
    graph = graph_of(names, types, [(0, "joins", n) for n in (1, 2, 3, 4)])
    (anchor,) = draw(graph, "hub", min_degree=2)
    shown = [node.name.lower() for node in anchor.nodes]
    assert sorted(shown) == ["ageing", "gene", "telomere maintenance"]
    assert anchor.data["degree"] == 4


def test_hubs_have_enough_neighbours_of_which_a_bounded_choice_is_shown() -> None:
    graph = random_graph(4, 200, 900)
    anchors = draw(graph, "hub", number=1000, min_degree=6, neighbours=4)
    assert len(anchors) == int((graph.degrees() >= 6).sum())
    edges = triples(graph)
    for anchor in anchors:
        assert len(anchor.nodes) == 5
        assert anchor.data["degree"] >= 6
        names = [node.name for node in anchor.nodes]
        ends = {names[r.source] if r.target == 0 else names[r.target] for r in anchor.relations}
        assert ends == set(names[1:])
        assert all((names[r.source], r.type, names[r.target]) in edges for r in anchor.relations)


@pytest.mark.plugin("reasoning")
def test_letters_and_types_are_balanced_and_rotated_by_the_seed() -> None:
    graph = random_graph(5, 1200, 4000)
    anchors = draw(graph, "context", number=1000)
    assert len(anchors) == 1000
    letters = Counter(anchor.data["letter"] for anchor in anchors)
    assert chisquare([letters[letter] for letter in "ABCDEFGH"]).pvalue > 0.99
    assert set(Counter(anchor.data["type"] for anchor in anchors).values()) == {200}
    other = draw(graph, "context", seed=2, number=1000)
    assert [one.data["letter"] for one in other] != [one.data["letter"] for one in anchors]


def repetitive_graph() -> KnowledgeGraph:
    """400 nodes whose names hold one of 120 topics each."""
    letters = "abcdefghijkl"
    words = [f"topic{first}{second}" for first in letters for second in letters[:10]]
    names = [f"{words[number % 120]} {number}" for number in range(400)]
    edges = [(number, "is near", (number * 7 + step) % 400) for number in range(400) for step in (1, 2, 3)]
    return graph_of(names, ["finding"] * 400, edges)


@pytest.mark.plugin("reasoning")
def test_topics_of_the_last_contexts_are_left_out() -> None:
    graph = repetitive_graph()

    def repeats(memory: int) -> int:
        """Contexts of which a topic occurs among the topics of the twenty before their block."""
        topics = [set(one.data["topics"]) for one in draw(graph, "context", number=200, memory=memory)]
        assert all(topics)
        before = [set.union(*topics[at - at % 20 - 20 : at - at % 20]) for at in range(20, 200)]
        return sum(bool(old & new) for old, new in zip(before, topics[20:], strict=True))

    assert repeats(20) == 0
    assert repeats(0) > 10


@pytest.mark.plugin("reasoning")
def test_a_prompt_names_the_topics_left_out_that_its_context_holds() -> None:
    anchors = draw(repetitive_graph(), "context", number=60, memory=10)
    prompt, made = load_prompt("context"), KINDS.get("context")()
    for at, anchor in enumerate(anchors):
        before = anchors[max(at - at % 20 - 10, 0) : at - at % 20]
        shown = {node.name.split()[0] for node in anchor.nodes}
        avoided = sorted({topic for one in before for topic in one.data["topics"]} & shown)
        assert anchor.data["avoided"] == avoided
        text = prompt.render(made.variables(anchor))[-1]["content"]
        assert ("Asked about lately" in text) == bool(avoided)
        assert ", ".join(avoided) in text
    assert sum(bool(anchor.data["avoided"]) for anchor in anchors) > 20


@pytest.mark.plugin("reasoning")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"question": "Tell me about NAME."}, "is no question"),
        ({"choices": {"A": "option C"}}, "options are alike"),
        ({"answer_letter": "A"}, "the letter is not that of the answer"),
        ({"question": "What does the passage say about NAME?"}, "speaks of its source"),
        ({"question": "Is it option C that holds for NAME?"}, "gives the answer away"),
        ({"question": "What is it?"}, "names nothing of its context"),
    ],
    ids=str,
)
def test_a_question_with_options_keeps_to_its_rules(changes: dict, reason: str | None) -> None:
    changes = dict(changes)
    anchor = draw(random_graph(5, 50, 200), "context", number=3)[0]
    choices = {letter: f"option {letter}" for letter in "ABCDEFGH"} | changes.pop("choices", {})
    fields = {"question": "What follows from NAME?", "answer": "option C", "answer_letter": "C", **changes}
    fields["question"] = fields["question"].replace("NAME", anchor.nodes[0].name)
    assert objection("context", anchor, choices=choices, **fields) == reason


@pytest.mark.parametrize("kind", ["path", "fact", "hub", "context"])
def test_a_seed_draws_the_same_anchors_with_a_difficulty_and_a_prefix_is_the_smaller_draw(kind: str) -> None:
    graph, made = random_graph(9, 150, 500), KINDS.get(kind)()
    many = [one.to_dict() for one in draw(graph, kind, number=40)]
    assert many == [one.to_dict() for one in draw(graph, kind, number=40)]
    assert many != [one.to_dict() for one in draw(graph, kind, seed=2, number=40)]
    few = [one.to_dict() for one in draw(graph, kind, number=15)]
    assert few == many[:15]
    assert len({one["id"] for one in many}) == len(many)
    for one in many:
        anchor = Anchor.from_dict(one)
        assert anchor.to_dict() == one
        record = made.record(anchor, {})
        assert record["difficulty"] in ("easy", "medium", "hard")
        assert {column.name for column in made.columns} == set(record)


def test_gathered_anchors_hold_only_those_to_keep_with_all_counts() -> None:
    alive: list[int] = []

    def every() -> Iterator[Anchor]:
        for number in range(900):
            yield Anchor(f"a{number % 600}", "own", f"group {number % 3}", ())
        alive.append(sum(isinstance(item, Anchor) for item in gc.get_objects()))

    before = sum(isinstance(item, Anchor) for item in gc.get_objects())
    drawn = gathered(every(), SimpleNamespace(number=5), 7)
    ids = sorted((f"a{number}" for number in range(600)), key=lambda name: place(7, name))
    assert [anchor.id for anchor in drawn.anchors] == ids[:5]
    groups = list(dict.fromkeys(f"group {int(name[1:]) % 3}" for name in ids))
    assert list(drawn.totals.items()) == [(group, 200) for group in groups]  # in the order of the anchors
    assert alive[0] - before < 20
    assert [anchor.id for anchor in gathered(every(), SimpleNamespace(), 7).anchors] == ids
