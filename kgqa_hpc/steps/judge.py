"""Steps that ask a model about a question-answer pair: whether it is correct (`judge`), or how good it is (`score`).

A judge never changes the texts of the pair. A score rejects only with a `minimum`; the six criteria of the prompt study
(BioGraphletQA, section 3.2.1) are six `score` steps.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.decision import first_false
from kgqa_hpc.steps.item import PAIR, Item, choices_of, with_choices
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step


class JudgeSettings(StepSettings):
    """Settings of the step judge."""

    gate: bool = Field(False, description="Reject an item at once if this judge objects.")


class Judge(Step):
    """A verdict on question and answer; it approves if all its booleans are true (BioGraphletQA, section 3.3)."""

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
        return first_false(verdict) if verdict.get("original_answer_valid") else "invalid answer"


def pair_variables(item: Item) -> dict[str, Any]:
    """The prompt variables of a judge: question (with its options, if any) and answer, each on one line."""
    question = with_choices(item.output["question"], choices_of(item.output), " ")
    return {
        "question": clean_text(question, TEXT_LENGTH),
        "answer": clean_text(item.output["answer"], TEXT_LENGTH),
    }


UNREADABLE = "unreadable"  # annotation with the labels of the scores that could not be parsed


class ScoreSettings(StepSettings):
    """Settings of the step score."""

    minimum: float | None = Field(
        None, description="Reject below this score; default: score only. A boolean counts as 0 or 1."
    )
    inverted: bool = Field(False, description="Invert a boolean score: false counts as 1.")
    unreadable: float | None = Field(
        None,
        description="Score of an unreadable answer, instead of losing the item (one attempt).",
    )


class Score(Step):
    """The number or boolean `score` of the answer as a filterable column with the name of the step."""

    name = "score"
    Settings = ScoreSettings
    answer = {"score": "boolean|integer|number"}
    adds = "column"
    needs = PAIR

    def variables(self, item: Item) -> dict[str, Any]:
        return pair_variables(item)

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        value = float(answer["score"])
        if self.settings.inverted:
            value = 1.0 - value
        minimum = self.settings.minimum
        if minimum is not None and value < minimum:
            item.annotations[self.label] = value
            return Reject(f"{self.label}: below {minimum:g}")
        return Done(**{self.label: value})

    def take(self, item: Item, response: Response, attempt: int, turn: int = 0) -> Outcome:
        outcome = super().take(item, response, attempt, turn)
        if (
            isinstance(outcome, Retry)
            and outcome.lost_as == "invalid"
            and self.settings.unreadable is not None
        ):
            item.features[self.label] = self.settings.unreadable
            item.annotations.setdefault(UNREADABLE, []).append(self.label)
            return Done()
        return outcome

    @classmethod
    def columns_for(cls, settings: ScoreSettings) -> tuple[Column, ...]:
        return (Column(settings.label, "double", f"Score of the step {settings.label}.", filterable=True),)
