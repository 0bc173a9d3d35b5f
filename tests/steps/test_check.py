"""The symbolic gate: each fact is kept as a feature, and rejects only where the configuration says so."""

import json
from dataclasses import replace

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.anchors.graphlet import GraphletAnchors
from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.check import COPIED, graph_words
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Reject
from tests.record_runs import chain_of, item_of, stop

ANCHOR = Anchor(
    "a",
    "graphlet",
    "shape 3",
    tuple(Node(name, name, "thing") for name in ("ATP7B", "Wilson disease", "tremor", "lymph node")),
    (Relation(0, 1, "causes"), Relation(1, 2, "shows"), Relation(1, 3, "shows")),
    data={"shape": 3},
)
GOOD = ("Which gene underlies a tremor with copper in the cornea?", "A defect of ATP7B does.")
GRAPHLETS = {"kind": "graphlet"}


def check(question, answer, anchor=ANCHOR, **settings):
    item = Item(anchor, output={"question": question, "answer": answer})
    steps = chain_of("generate", {"use": "check", **settings}, anchors=GRAPHLETS)
    return steps[1].run(item), item.features


def test_a_good_pair_passes_and_its_facts_are_kept():
    outcome, features = check(*GOOD)
    assert isinstance(outcome, Done)
    nodes = {"question_nodes": [2], "answer_nodes": [0], "nodes_used": 2, "node_share": 0.5, "hops": 2}
    assert features == {**nodes, "answer_leak": False, "graph_words": [], "copied_example": False}


@pytest.mark.parametrize(
    ("rule", "question", "answer"),
    [
        ("answer_leak", "Does ATP7B cause tremor?", "Yes, ATP7B causes it."),
        ("few_nodes", "Which gene is it?", "A defect of ATP7B is."),
        ("few_hops", "Does ATP7B cause tremor?", "Yes, ATP7B causes tremor."),
        ("graph_words", "What is the connection between ATP7B and a tremor?", "Wilson disease, by two hops."),
        ("no_question", "Tremor of ATP7B.", "Wilson disease is it."),
        ("no_sentence", "Which disease joins ATP7B and tremor?", "Wilson disease"),
        ("same_text", "Is it ATP7B with tremor?", "Is it ATP7B with tremor."),
    ],
)
def test_a_fact_rejects_where_it_is_configured_and_is_only_kept_elsewhere(rule, question, answer):
    assert check(question, answer, reject=[rule])[0] == Reject(f"check: {rule.replace('_', ' ')}")
    assert isinstance(check(question, answer, reject=[])[0], Done)
    assert isinstance(check(*GOOD, reject=[rule])[0], Done)


def test_an_unguided_answer_without_its_form_is_read_and_rejected_by_the_check_not_by_the_parser():
    """Of a server that ignores the schema, or an engine without one: never invalid for its form alone."""
    generate, gate = chain_of("generate", "check", anchors=GRAPHLETS)
    assert "pattern" in generate.prompt.schema["properties"]["question"]
    answer = dict.fromkeys(generate.prompt.schema["properties"], "Some words that stand here.")
    answer |= {"question_entities": [], "answer_entities": [], "worth_asking": True}
    for pair, reason in (
        (("Name the gene of a tremor with copper.", "A defect of ATP7B does."), "check: no question"),
        (("Which gene causes tremor with copper?", "A defect of the gene ATP7B"), "check: no sentence"),
    ):
        item = Item(ANCHOR)
        text = json.dumps({**answer, "question": pair[0], "answer": pair[1]})
        assert isinstance(generate.take(item, stop(text), 0), Done)
        assert gate.run(item) == Reject(reason)


def test_the_worked_example_of_the_default_prompt_passes_the_default_check():
    text = load_prompt("p5").system
    pair = json.loads(text[text.index('{"analysis') :].split("\n")[0])
    names = ("Kayser-Fleischer ring", "Hepatolenticular degeneration", "ATP7B", "Tremor")
    edges = (Relation(1, 0, ""), Relation(2, 1, ""), Relation(1, 3, ""))
    nodes = tuple(Node(name, name, "") for name in names)
    anchor = Anchor("example", "graphlet", "shape 2", nodes, edges, data={"shape": 2})
    facts = GraphletAnchors().facts(anchor, pair)
    assert facts["question_nodes"] == [0]
    assert set(facts["answer_nodes"]) >= {1, 2}
    assert not facts["answer_leak"]
    assert facts["hops"] == 2


def test_what_is_copied_from_the_prompts_example_is_seen():
    example = load_prompt("p5").system.split('"question": "')[1].split('"')[0]
    outcome, features = check(example, "ATP7B, which bears on tremor.", reject=["copied_example"])
    assert features["copied_example"] is True
    assert outcome == Reject("check: copied example")
    words = example.replace("-", " ").split()[: COPIED - 1]
    assert check(f"{' '.join(words)} tremor?", GOOD[1])[1]["copied_example"] is False


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Which lymph node swells?", []),
        ("Does the sinoatrial node pace the heart?", []),
        ("Which node is between them?", ["node"]),
        ("Ethanol (1) acts on the receptor (3).", ["(1)", "(3)"]),
        ("Which signalling pathway and which gene network act?", []),
        ("At the edge of the tongue?", []),
        ("Which edge joins them, and is it two edges away in Fig. 3?", ["which edge", "two edges", "fig. 3"]),
        ("What lies at the leading edge of the cell, and at the edge of the nail?", []),
        ("What does the given passage show?", ["the given passage"]),
        ("What did the study show in Figure 2, as shown above?", ["the study", "figure 2", "as shown above"]),
        ("Does the texture differ, as the study of enzymes and a figure of merit say?", []),
        ("In the graphlet, which vertex?", ["graphlet", "vertex"]),
        ("A photograph of a paragraph?", []),
        ("Through its connection to RAP1A it acts.", ["connection"]),
        ("Which synaptic connections does connective tissue hold?", []),
        ("Does the knowledge graph syndrome exist?", []),  # inside a node's name
    ],
)
def test_words_of_graphs_are_told_from_words_of_anatomy(text, found):
    assert graph_words(text, "", ["Knowledge graph syndrome"]) == found


def test_synonyms_of_the_graph_and_aliases_of_a_file_count_as_the_name_and_broken_lines_are_named(tmp_path):
    table = tmp_path / "aliases.tsv"
    table.write_text("ATP7B\tWND\n", encoding="utf-8")
    synonyms = {"Wilson disease": ["Hepatolenticular degeneration", "The copper connection"]}
    with_synonyms = replace(ANCHOR, data={**ANCHOR.data, "synonyms": synonyms})
    question = "Which gene is altered in hepatolenticular degeneration, the copper connection?"
    for anchor, settings, found in (
        (ANCHOR, {}, ([], [], ["connection"])),
        (ANCHOR, {"aliases": str(table)}, ([], [0], ["connection"])),
        (with_synonyms, {}, ([1], [], [])),
        (with_synonyms, {"aliases": str(table)}, ([1], [0], [])),
    ):
        _, features = check(question, "A defect of WND does.", anchor, **settings)
        assert (features["question_nodes"], features["answer_nodes"], features["graph_words"]) == found
    (leak, _) = check("Is it hepatolenticular degeneration?", "Wilson disease is it.", with_synonyms)
    assert leak == Reject("check: answer leak")
    table.write_text("one\ttwo\nthree\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2"):
        check(*GOOD, aliases=str(table))


def test_a_pair_of_an_anchor_without_nodes_is_checked_by_its_words_alone():
    step = {"use": "check", "reject": ["few_hops", "few_nodes"]}
    (gate,) = chain_of(step)
    item = item_of(question=GOOD[0], answer=GOOD[1])
    assert isinstance(gate.run(item), Done)
    assert item.features == {"graph_words": [], "copied_example": False}
