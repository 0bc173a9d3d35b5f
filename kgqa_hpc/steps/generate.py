"""Write a question and its answer from an anchor (`generate`), or a question whose answer is known (`word`)."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step

# Fields in which a model thinks before it answers; they stay in the trace's raw text (docs/prompts.md).
THINKING = ("analysis", "draft_question", "draft_answer", "reflection")


class Generate(Step):
    """Fills the record's question and answer, and what else its prompt asks for."""

    name = "generate"
    default_prompt = "p5"
    answer = {"question": "string", "answer": "string"}
    adds = "output"
    gives = ("question", "answer")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        item.output = {name: value for name, value in answer.items() if name not in THINKING}
        return Done()


class Word(Step):
    """Fills the record's question; the answer stays what the anchor kind says it is."""

    name = "word"
    answer = {"question": "string"}
    adds = "output"
    gives = ("question",)
    needs = ("answer",)

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        item.output = {**item.output, "question": self.context.kind.worded(item.anchor, answer["question"])}
        return Done()
