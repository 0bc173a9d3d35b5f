"""Write a question with one right and seven wrong options; where the right one stands is not the model's choice."""

from __future__ import annotations

import random
from typing import Any

from kgqa_hpc.anchors.names import plain
from kgqa_hpc.steps.generate import DECLINED, declines
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Retry, Step

LETTERS = "ABCDEFGH"


class Options(Step):
    """Fills question, answer, the eight choices and the letter of the right one.

    The letter is the anchor's where it brings one (contexts: balanced over the run), else follows from run
    seed and item.
    """

    name = "options"
    default_prompt = "context"
    answer = {"question": "string", "answer": "string", "distractors": "array"}
    adds = "output"
    gives = ("question", "answer", "choices", "answer_letter")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        if declines(answer):
            return DECLINED
        wrong = list(answer["distractors"])
        if len(wrong) != len(LETTERS) - 1:
            return Retry("not_allowed:distractors", lost_as="invalid")
        if len(set(map(plain, [answer["answer"], *wrong]))) < len(LETTERS):
            return Retry("options are alike", lost_as="invalid")
        letter = item.anchor.data.get("letter")
        if letter is None:
            letter = random.Random(f"{self.context.run_seed}/{item.id}").choice(LETTERS)
        wrong.insert(LETTERS.index(letter), answer["answer"])
        item.output = {
            **item.output,
            "question": answer["question"],
            "answer": answer["answer"],
            "choices": dict(zip(LETTERS, wrong, strict=True)),
            "answer_letter": letter,
        }
        return Done()
