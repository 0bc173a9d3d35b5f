"""Items, answers and chains for the tests of steps."""

import json

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item

ENGINE = EngineInfo("scripted", "1", "scripted-1", digest="d", quantisation="q")


@pytest.fixture
def item():
    names = [("D:1", "Wilson disease", "Disease"), ("G:1", "ATP7B", "Gene"), ("C:1", "Copper", "Compound")]
    nodes, edges = tuple(Node(*entry) for entry in names), (Relation(1, 0, "causes"),)
    return Item(Anchor("g01-0011223344556677", "graphlet", "shape 1", nodes, edges, data={"shape": 1}))


@pytest.fixture
def chain():
    return build_chain(parse_config({"engine": {"kind": "scripted"}, "seed": 7}, "test"), "main", ENGINE)


def text_of(**fields):
    """A function that gives these fields, some of them changed, as a model's answer."""
    return lambda **changes: json.dumps({**fields, **changes})


@pytest.fixture
def pair_text():
    return text_of(
        analysis="Gene, disease, compound.",
        decline_reason="",
        worth_asking=True,
        draft_question="Which gene is connected?",
        draft_answer="ATP7B.",
        reflection="Too easy.",
        question="Which transporter takes copper out of liver cells?",
        answer="ATP7B, by way of the bile.",
        question_entities=["Copper"],
        answer_entities=["ATP7B"],
    )


@pytest.fixture
def verdict_text():
    reasons = {"question_reasoning": "Sound.", "my_answer": "ATP7B.", "answer_reasoning": "Same."}
    return text_of(**reasons, valid_question=True, original_answer_valid=True)


@pytest.fixture
def stop():
    """A regular answer."""
    return lambda text: Response(
        "x", text, "stop", prompt_tokens=1200, completion_tokens=300, cached_tokens=1100
    )
