"""Write a question and its answer from an anchor (`generate`), or a question whose answer is known (`word`)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from kgqa_hpc.errors import PromptError
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.sentences import Sentences, question, shipped_sentences, way_of
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step

# Fields in which a model thinks before it answers; they stay in the trace's raw text (docs/prompts.md).
THINKING = ("analysis", "draft_question", "draft_answer", "reflection")


class Generate(Step):
    """Fills the record's question and answer, and what else its prompt asks for."""

    name = "generate"
    default_prompt = "p5"
    answer = {"question": "string", "answer": "string"}
    adds = "output"
    gives = ("question", "answer")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        item.output = {name: value for name, value in answer.items() if name not in THINKING}
        return Done()


class WordSettings(StepSettings):
    """How a question is worded: by a model with a prompt, or from a template."""

    template: Annotated[Sentences, BeforeValidator(shipped_sentences)] | None = Field(
        None,
        exclude_if=lambda value: value is None,
        description="A sentence for each relation instead of a prompt, or the name of a bundled graph (hpo).",
    )


class Word(Step):
    """Fills the record's question; the answer stays what the anchor kind says it is."""

    name = "word"
    Settings = WordSettings
    answer = {"question": "string"}
    adds = "output"
    gives = ("question",)
    needs = ("answer",)

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        kind = context.kind
        if settings.template is not None and way_of(kind.variables(kind.sample)) is None:
            raise PromptError(
                f"step {self.label}: anchors of kind {kind.name} cannot be worded by a template",
                "templates word kinds fact and path; give this kind a prompt",
            )

    @classmethod
    def asks_with(cls, settings: Any) -> bool:
        return settings.template is None

    def compute(self, item: Item) -> Outcome:
        """Word the question from the template, with the name as the graph has it."""
        way = way_of(self.context.kind.variables(item.anchor))
        text = question(self.settings.template, item.anchor.nodes[0].name, way or [])
        if text is None:
            return Reject(f"{self.label}: no sentence for its relation")
        item.output = {**item.output, "question": text}
        return Done()

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        item.output = {**item.output, "question": self.context.kind.worded(item.anchor, answer["question"])}
        return Done()
