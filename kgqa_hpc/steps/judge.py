"""Ask whether question and answer hold; never take their text from the judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step

PAIR = ("question", "answer")


class JudgeSettings(StepSettings):
    """How a judge's word counts."""

    gate: bool = Field(
        False, description="Reject at once what this judge refuses, so that no later step is asked about it."
    )


class Judge(Step):
    """A verdict on question and answer; both must hold (BioGraphletQA, section 3.3)."""

    name = "judge"
    Settings = JudgeSettings
    default_prompt = "filter"
    answer = {"valid_question": "boolean", "original_answer_valid": "boolean"}
    adds = "verdict"
    needs = PAIR

    def variables(self, item: Item) -> dict[str, Any]:
        return pair_variables(item)

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        super().accept(item, answer)
        objection = self.objection(answer)
        if objection and self.settings.gate:
            return Reject(f"{self.label}: {objection}")
        return Done()

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None:
        if not verdict.get("valid_question"):
            return "invalid question"
        return None if verdict.get("original_answer_valid") else "invalid answer"


def pair_variables(item: Item) -> dict[str, Any]:
    """The question and answer that a judge sees, each on one line."""
    return {key: clean_text(item.output[key], TEXT_LENGTH) for key in PAIR}
