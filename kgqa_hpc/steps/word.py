"""Word a question whose answer is known already."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step


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
