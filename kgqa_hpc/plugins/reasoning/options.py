"""Steps that write a question with one correct and seven wrong options, in an order that the model does not choose.

The options come from the model (`options`) or from the graph (`graph_options`).
"""

import random
from collections.abc import Sequence
from typing import Any

from kgqa_hpc.anchors.names import plain
from kgqa_hpc.plugins.reasoning.context import LETTERS, option_names
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step


class Options(Step):
    """Fills question, answer, the eight choices and the letter of the correct choice.

    The letter comes from the anchor if it has one (contexts: balanced over the run); otherwise it depends on run seed
    and item.
    """

    name = "options"
    default_prompt = "context"
    answer = {"question": "string", "answer": "string", "distractors": "array"}
    adds = "output"
    gives = ("question", "answer", "choices", "answer_letter")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        wrong = list(answer["distractors"])
        if len(wrong) != len(LETTERS) - 1:
            return Retry("not_allowed:distractors", lost_as="invalid")
        if len(set(map(plain, [answer["answer"], *wrong]))) < len(LETTERS):
            return Retry("options are alike", lost_as="invalid")
        return filled(item, answer["question"], answer["answer"], wrong, self.context.run_seed)


class GraphOptions(Step):
    """Fills a question with options from the graph (`anchors.distractors: graph`); the model writes only the
    question.
    """

    name = "graph_options"
    default_prompt = "graph_options"
    answer = {"question": "string"}
    adds = "output"
    gives = ("question", "answer", "choices", "answer_letter")

    def asks_about(self, item: Item) -> bool:
        return "options" in item.anchor.data

    def compute(self, item: Item) -> Outcome:
        """Reject a context for which the graph has too few options."""
        return Reject(f"{self.label}: no options in the graph")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        names = option_names(item.anchor)
        return filled(item, answer["question"], names["right"], names["wrong"], self.context.run_seed)


def filled(item: Item, question: str, right: str, wrong: Sequence[str], run_seed: int) -> Done:
    """Fill question, answer, choices and answer_letter; the letter comes from the anchor, or from run seed and item."""
    letter = item.anchor.data.get("letter")
    if letter is None:
        letter = random.Random(f"{run_seed}/{item.id}").choice(LETTERS)
    options = list(wrong)
    options.insert(LETTERS.index(letter), right)
    choices = dict(zip(LETTERS, options, strict=True))
    item.output = {
        **item.output,
        "question": question,
        "answer": right,
        "choices": choices,
        "answer_letter": letter,
    }
    return Done()
