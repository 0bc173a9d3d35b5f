"""Judges of what a model wrote from documents: pairs of an abstract, options of a question, a yes, no or maybe.

Each judges by several criteria, which all must hold.

The judge of an abstract's pairs sees a pair with its names, as the document has them. Three judges of different
families that must agree are a panel: three such steps over the records of a finished run, with
`dataset.decide: {rule: all}`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kgqa_hpc.plugins.literature.steps.extract import Scope
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.decision import first_false
from kgqa_hpc.steps.item import PAIR, Item, choices_of
from kgqa_hpc.steps.step import Outcome, Reject, Step

_DOCUMENT = 20_000  # characters of a document that a prompt shows


class JudgeCriteria(Step):
    """A verdict by several criteria, which all must hold; `criteria` maps each to the objection where it does not."""

    adds = "verdict"
    criteria: ClassVar[dict[str, str]]

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None:
        missed = next((words for name, words in cls.criteria.items() if not verdict[name]), None)
        return missed or first_false(verdict)


class SupportSettings(StepSettings):
    """Settings of the step judge_support: the scope from which a pair must be answerable."""

    scope: Scope = Field(
        "any",
        exclude_if=lambda scope: scope == "any",
        description="`sequence`: a pair that the protein's sequence could not answer is not answerable (QAProt).",
    )


class JudgeSupport(JudgeCriteria):
    """Verdict on a record and its document by three criteria, which all must hold (QAProt, 3.4)."""

    name = "judge_support"
    Settings = SupportSettings
    default_prompt = "judge_support"
    criteria = {
        "supported": "not supported",
        "answerable": "not answerable",
        "entities_match": "other entities",
    }
    answer = dict.fromkeys(criteria, "boolean")
    needs = PAIR

    def variables(self, item: Item) -> dict[str, Any]:
        fields = item.output
        pair = {name: fields.get(f"{name}_with_names") or fields[name] for name in PAIR}
        about = {name: fields.get(name) or "" for name in ("protein", "organism")}
        return {
            **{name: clean_text(text, TEXT_LENGTH) for name, text in {**pair, **about}.items()},
            "text": clean_text(fields.get("document_text") or "", _DOCUMENT),
            "scope": self.settings.scope,
        }


class JudgeOptions(JudgeCriteria):
    """Verdict on the options: the right one follows from the source pair, if there is one, and no other is right."""

    name = "judge_options"
    default_prompt = "judge_options"
    criteria = {"entailed": "right option not entailed", "only_one": "another option is right"}
    answer = dict.fromkeys(criteria, "boolean")
    needs = ("question", "answer")

    def asks_about(self, item: Item) -> bool:
        return bool(choices_of(item.output))

    def compute(self, item: Item) -> Outcome:
        """End the step for a pair without options."""
        return Reject(f"{self.label}: no options")

    def variables(self, item: Item) -> dict[str, Any]:
        fields = item.output
        texts = {name: fields.get(name, "") for name in ("source_question", "source_answer", *PAIR)}
        return {
            **{name: clean_text(text, TEXT_LENGTH) for name, text in texts.items()},
            "options": [clean_text(option, TEXT_LENGTH) for option in choices_of(fields).values()],
        }


class JudgeDecision(JudgeCriteria):
    """Verdict on a yes, no or maybe: decision and long answer follow from the context."""

    name = "judge_decision"
    default_prompt = "judge_decision"
    criteria = {
        "decision_follows": "decision does not follow",
        "long_answer_follows": "long answer does not follow",
    }
    answer = dict.fromkeys(criteria, "boolean")
    needs = (*PAIR, "final_decision", "context")

    def asks_about(self, item: Item) -> bool:
        return bool(item.output["context"])

    def compute(self, item: Item) -> Outcome:
        """Reject a question without context."""
        return Reject(f"{self.label}: no context")

    def variables(self, item: Item) -> dict[str, Any]:
        names = (*PAIR, "final_decision", "context")
        return {name: clean_text(item.output[name], TEXT_LENGTH) for name in names}
