"""What a question asks for, by a judge: a column beside the one that the step `question_type` gives by rule.

The judge chooses among the same types, so that `kgqa panel --column question_type --column judged_question_type` can
set both side by side. It decides nothing: a question whose answer cannot be read stays without a type.
"""

from __future__ import annotations

from typing import Any

from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.plugins.literature.steps.extract import kept
from kgqa_hpc.plugins.literature.steps.question_type import OTHER, TYPES
from kgqa_hpc.prompts.front_matter import MOST
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Outcome, Retry, Step

CHOICES = (*TYPES, OTHER)


class JudgedQuestionType(Step):
    """Asks about the record, or about each of an item's records in turn; the column is named like the step."""

    name = "judged_question_type"
    default_prompt = "question_type"
    answer = {"question_type": "string"}
    adds = "annotation"
    needs = ("question",)
    turns = MOST  # as many pairs as an answer may list

    def asks_about(self, item: Item) -> bool:
        return bool(_records(item))

    def compute(self, item: Item) -> Outcome:
        """Of an item without records."""
        return Done()

    def variables(self, item: Item) -> dict[str, Any]:
        record = _records(item)[item.state.get("typed", 0)]
        return {"question": clean_text(record.get("question") or "", TEXT_LENGTH)}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        if answer["question_type"] not in CHOICES:
            return Retry("not_allowed:question_type", lost_as="invalid")
        return self._typed(item, answer["question_type"])

    def take(self, item: Item, response: Response, attempt: int, turn: int = 0) -> Outcome:
        outcome = super().take(item, response, attempt, turn)
        unreadable = isinstance(outcome, Retry) and outcome.lost_as == "invalid"
        return self._typed(item, None) if unreadable else outcome

    def _typed(self, item: Item, found: str | None) -> Outcome:
        records, typed = _records(item), item.state.get("typed", 0)
        records[typed][self.label] = found
        item.state["typed"] = typed + 1
        return Ask() if typed + 1 < len(records) else Done()

    @classmethod
    def columns_for(cls, settings: StepSettings) -> tuple[Column, ...]:
        return (
            Column(
                settings.label, "string", f"What the question asks for, by a judge: {', '.join(CHOICES)}."
            ),
        )


def _records(item: Item) -> list[dict[str, Any]]:
    """The item's one record, or those of several that are kept."""
    return [item.output] if item.records is None else kept(item)
