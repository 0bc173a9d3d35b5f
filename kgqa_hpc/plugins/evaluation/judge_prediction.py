"""Ratings of another model's answers by a judge: five aspects from 0 to 5 (QAProt, appendix, Figure 8).

Over the file that `kgqa score PREDICTIONS REFERENCES --joined FILE` writes: records with question, answer (the
reference) and `prediction`. `kgqa score … --judged RUN` then sets the means beside the other metrics.
"""

from __future__ import annotations

from typing import Any

from kgqa_hpc.columns import Column
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR, pair_variables
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step

ASPECTS = ("correctness", "completeness", "conciseness", "relevance", "fluency")
BEST = 5


class JudgePrediction(Step):
    """Features `NAME_correctness` and so on, NAME being the step's; an empty prediction has 0 in all, unasked."""

    name = "judge_prediction"
    default_prompt = "judge_prediction"
    answer = dict.fromkeys(ASPECTS, "integer")
    adds = "column"
    needs = PAIR

    def asks_about(self, item: Item) -> bool:
        return bool(item.output.get("prediction"))

    def compute(self, item: Item) -> Outcome:
        """Score an empty or missing prediction with 0, without a request."""
        if item.output.get("prediction") is None:
            return Reject(f"{self.label}: no prediction")
        return self._scored(item, dict.fromkeys(ASPECTS, 0))

    def variables(self, item: Item) -> dict[str, Any]:
        prediction = clean_text(item.output.get("prediction") or "", TEXT_LENGTH)
        return {**pair_variables(item), "prediction": prediction}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        for aspect in ASPECTS:
            if not 0 <= answer[aspect] <= BEST:
                return Retry(f"not_allowed:{aspect}", lost_as="invalid")
        return self._scored(item, answer)

    def _scored(self, item: Item, scores: dict[str, Any]) -> Outcome:
        return Done(**{f"{self.label}_{aspect}": float(scores[aspect]) for aspect in ASPECTS})

    @classmethod
    def columns_for(cls, settings: StepSettings) -> tuple[Column, ...]:
        return tuple(
            Column(
                f"{settings.label}_{aspect}",
                "double",
                f"{aspect.capitalize()} of the prediction, 0 to {BEST}.",
                filterable=True,
            )
            for aspect in ASPECTS
        )
