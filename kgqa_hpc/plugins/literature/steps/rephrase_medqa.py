"""A pair as a question of MedQA: a case with five options, one of them right, and the reasoning.

The model writes the right option and four wrong ones in fields of their own, and the place of the right one
is drawn afterwards. So the label follows from the draw, not from a letter that a model wrote: the published
converter set it for one of five letters only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.steps.rephrase import SOURCE, Rephrase, replaced
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.steps.decision import first_false
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import pair_variables
from kgqa_hpc.steps.step import Done, Outcome, Retry, Step
from kgqa_hpc.text.digests import short_digest

WRONG = 4
_SUMMARY = re.compile(
    r"\b(?:all|none|any|both|neither)(?: of)? (?:the )?(?:above|these|options|answers|others)\b"
    r"|\b(?:both )?(?:options? )?[a-e] (?:and|or) [a-e]\b"
)
_SMALL = {"a", "an", "the", "of", "in", "and", "to", "by"}


class RephraseMedqa(Rephrase):
    """Five options in drawn order; `correct_option` is the place of the right one, from 0."""

    name = "rephrase_medqa"
    default_prompt = "rephrase_medqa"
    answer = {"question": "string", "correct": "string", "wrong": "array", "reasoning": "string"}
    gives = ("question", "answer", "options", "correct_option", "reasoning")
    example = {"options": ["One.", "Two.", "Three.", "Four.", "Five."], "correct_option": 0}
    columns = (
        *SOURCE,
        Column("options", ["string"], "The five options in their order."),
        Column("correct_option", "int64", "Place of the right option, from 0."),
        Column("reasoning", "string", "Why it is right and the others are not."),
    )

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        right, wrong = answer["correct"], answer["wrong"]
        if trouble := options_trouble(right, wrong):
            return Retry(trouble, lost_as="invalid")
        options = in_drawn_order([right, *wrong], f"{self.context.run_seed}/{item.id}/{self.label}")
        item.output = replaced(
            item,
            answer["question"],
            right,
            options=options,
            correct_option=options.index(right),
            reasoning=answer["reasoning"],
        )
        return Done()


class JudgeOptions(Step):
    """A verdict on the options: the right one follows from the source pair, and no other means the same."""

    name = "judge_options"
    default_prompt = "judge_options"
    adds = "verdict"
    answer = {"entailed": "boolean", "only_one": "boolean"}
    needs = ("question", "answer", "options", "correct_option")

    def variables(self, item: Item) -> dict[str, Any]:
        fields = item.output
        source = {name: fields.get(name, "") for name in ("source_question", "source_answer")}
        return {
            **pair_variables(item),
            **{name: clean_text(text, TEXT_LENGTH) for name, text in source.items()},
            "options": [clean_text(option, TEXT_LENGTH) for option in fields["options"]],
        }

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None:
        if not verdict["entailed"]:
            return "right option not entailed"
        return first_false(verdict) if verdict["only_one"] else "another option is right"


def options_trouble(right: str, wrong: Sequence[str]) -> str | None:
    """What can be said against options without a model; None: nothing."""
    if len(wrong) != WRONG:
        return "number of options"
    forms = [_form(option) for option in (right, *wrong)]
    if not all(forms):
        return "empty option"
    if len(set(forms)) < len(forms):
        return "options alike"
    if any(_SUMMARY.search(plain(option)) for option in (right, *wrong)):
        return "option about options"
    return None


def in_drawn_order(options: Sequence[str], seed: str) -> list[str]:
    """An order that depends on the seed and the texts alone; every place is as likely for each of them."""
    return sorted(options, key=lambda text: short_digest(f"{seed}/{text}"))


def _form(option: str) -> tuple[str, ...]:
    """The words that count, in order of the alphabet: what says the same in another order is alike."""
    words = re.findall(r"\w+", plain(option))
    return tuple(sorted(word for word in words if word not in _SMALL))
