"""Put a finished pair into the shape of a benchmark: what both shapes have in common.

The pair stays beside the new question (`source_question`, `source_answer`), so that the new one can be held
against it. Examples are the benchmark's questions most like the pair (BioGraphletQA, 3.4, stage 6).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.plugins.literature.steps.benchmark import Examples
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR, pair_variables
from kgqa_hpc.steps.step import Step

SOURCE = (
    Column("source_question", "string", "The question that was rephrased."),
    Column("source_answer", "string", "Its answer."),
)


class RephraseSettings(StepSettings):
    """Where examples come from."""

    benchmark: str | None = Field(None, description="Training file of the benchmark; default: no examples.")
    examples: int = Field(5, ge=0, le=20, description="Examples in each prompt.")
    paths = ("benchmark",)
    imitates = "benchmark"


class Rephrase(Step):
    """A step that writes another question from a pair; `gives` includes question and answer anew."""

    Settings: ClassVar[type[StepSettings]] = RephraseSettings
    adds = "output"
    needs = PAIR

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        self._examples: Examples | None = None

    def variables(self, item: Item) -> dict[str, Any]:
        """The pair, its verified quotes where it has any, and the examples."""
        shown = pair_variables(item)
        examples: list[str] = []
        if self._examples is not None:
            examples = self._examples.like(f"{shown['question']} {shown['answer']}", self.settings.examples)
        quotes = [clean_text(quote, TEXT_LENGTH) for quote in quotes_of(item.output)]
        return {**shown, "examples": examples, "quotes": quotes}

    def request(self, item: Item, attempt: int, run_seed: int, turn: int = 0) -> Request:
        """Reads the benchmark when it is needed first: prompts are tried without it."""
        if self._examples is None and self.settings.benchmark:
            self._examples = Examples(Path(self.settings.benchmark))
        return super().request(item, attempt, run_seed, turn)


def quotes_of(fields: dict[str, Any]) -> list[str]:
    """The verified quotes of a pair's documents, best document first, each once."""
    documents = fields.get("documents") or []
    quotes = [quote["text"] for document in documents for quote in document.get("snippets") or []]
    return list(dict.fromkeys(quotes))


def replaced(item: Item, question: str, answer: str, **more: Any) -> dict[str, Any]:
    """The item's fields with another question and answer, and the former ones beside."""
    source = {"source_question": item.output["question"], "source_answer": item.output["answer"]}
    return {**item.output, **source, "question": question, "answer": answer, **more}
