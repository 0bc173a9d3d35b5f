"""Score a question-answer pair by some criterion; never rejects by itself.

The field `score` of the answer becomes a feature of the item. The six criteria of the prompt study
(BioGraphletQA, section 3.2.1) are six steps of this sort.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR, pair_variables
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step


class ScoreSettings(StepSettings):
    """What a score leads to."""

    minimum: float | None = Field(
        None, description="Reject below this score; default: score only. A boolean counts as 0 or 1."
    )


class Score(Step):
    """The number or boolean `score` of the answer, as the feature named like the step."""

    name = "score"
    Settings = ScoreSettings
    answer = {"score": "boolean|integer|number"}
    adds = "feature"
    needs = PAIR

    def variables(self, item: Item) -> dict[str, Any]:
        return pair_variables(item)

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        value = float(answer["score"])
        item.features[self.label] = value
        minimum = self.settings.minimum
        if minimum is not None and value < minimum:
            return Reject(f"{self.label}: below {minimum:g}")
        return Done()

    @classmethod
    def columns_for(cls, settings: ScoreSettings) -> tuple[Column, ...]:
        return (Column(settings.label, "double", f"Score of the step {settings.label}."),)
