"""Questions with eight options: where the right one stands is given, and options that are alike are asked again."""

from __future__ import annotations

import orjson
import pytest

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Retry

WRONG = ["Asthma", "Measles", "Migraine", "Psoriasis", "Gout", "Tetanus", "Mumps"]


def taken(wrong: list[str], **data: object) -> tuple[Item, Outcome]:
    plain = {
        "graph": {"source": "hpo"},
        "anchors": {"kind": "context"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": [{"use": "options", "prompt": "demo_context"}]}],
    }
    (step,) = build_chain(parse_config(plain, "a test"), "main", EngineInfo("scripted", "1", "model", 1))
    item = Item(Anchor("one", "context", "causal", (), data=data))
    answer = {"question": "Which of these goes together with Ataxia?", "answer": "Ptosis"}
    text = orjson.dumps({**answer, "distractors": wrong}).decode()
    return item, step.take(item, Response("one", text, "stop"), 0)


def test_the_right_option_stands_at_the_letter_of_its_anchor() -> None:
    item, outcome = taken(WRONG, letter="C")
    assert isinstance(outcome, Done)
    assert list(item.output["choices"].values()) == [*WRONG[:2], "Ptosis", *WRONG[2:]]
    assert item.output["answer_letter"] == "C"


@pytest.mark.parametrize(
    ("use", "prompt", "first"),
    [("score", "quality", "A. Asthma"), ("judge_options", "judge_choices", "(1) Asthma")],
)
def test_a_judge_of_the_question_sees_all_its_options(use: str, prompt: str, first: str) -> None:
    item, _ = taken(WRONG, letter="C")
    steps = [
        {"use": "options", "prompt": "demo_context"},
        {"use": use, "as": "quality_score", "prompt": prompt},
    ]
    plain = {
        "graph": {"source": "hpo"},
        "anchors": {"kind": "context"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": steps}],
    }
    judge = build_chain(parse_config(plain, "a test"), "main", EngineInfo("scripted", "1", "model", 1))[1]
    (user,) = [m["content"] for m in judge.request(item, 0, 1).messages if m["role"] == "user"]
    assert first in user
    assert all(text in user for text in item.output["choices"].values())


@pytest.mark.parametrize("alike", ["Asthma", "asthma", "PTOSIS"])
def test_options_that_are_alike_are_asked_again(alike: str) -> None:
    item, outcome = taken([*WRONG[:6], alike], letter="C")
    assert outcome == Retry("options are alike", lost_as="invalid")
    assert item.output == {}
