"""The symbolic gate: what can be said against a pair without asking a model.

Every fact is kept as a feature of the item; which of them reject is configuration. It answers the paper's
limitation that nothing guarantees the use of the graphlet (BioGraphletQA, Limitations).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step

Rule = Literal["same_text", "no_question", "no_sentence", "answer_leak", "few_nodes"]
RULES: tuple[Rule, ...] = ("same_text", "no_question", "no_sentence", "answer_leak", "few_nodes")
_ENDS = (".", "!", "?", "…", '."', ".”", ".)", "]")


class CheckSettings(StepSettings):
    """Which facts reject."""

    reject: list[Rule] = Field(
        default_factory=lambda: list(RULES), description="Facts that reject; the others are only recorded."
    )
    nodes: int = Field(2, ge=0, description="few_nodes: fewer named nodes of the anchor than so many.")


class Check(Step):
    """Computes facts about a pair and rejects it for those that are configured."""

    name = "check"
    Settings = CheckSettings
    adds = "feature"
    needs = PAIR
    columns = (
        Column("nodes_used", "int64", "Nodes of the anchor that question and answer name together."),
        Column("question_nodes", ["int64"], "Positions of the nodes that the question names."),
        Column("answer_nodes", ["int64"], "Positions of the nodes that the answer names."),
        Column("answer_leak", "bool", "Whether the question gives the answer away."),
    )

    def compute(self, item: Item) -> Outcome:
        facts = {**self.context.kind.facts(item.anchor, item.output)}
        item.features |= facts
        found = _findings(item.output["question"], item.output["answer"], facts, self.settings.nodes)
        for rule in RULES:
            if rule in found and rule in self.settings.reject:
                return Reject(f"{self.label}: {rule.replace('_', ' ')}")
        return Done()


class Verify(Step):
    """Rejects what the anchor kind objects to, with its reason."""

    name = "verify"
    adds = "annotation"
    needs = PAIR

    def compute(self, item: Item) -> Outcome:
        objection = self.context.kind.objection(item.anchor, item.output)
        return Done() if objection is None else Reject(f"{self.label}: {objection}")


def _findings(question: str, answer: str, facts: dict[str, Any], nodes: int) -> set[str]:
    found = set()
    if question.casefold().strip(" ?.!") == answer.casefold().strip(" ?.!"):
        found.add("same_text")
    if not question.endswith("?"):
        found.add("no_question")
    if not answer.endswith(_ENDS) or answer.endswith("?"):
        found.add("no_sentence")
    if facts.get("answer_leak"):
        found.add("answer_leak")
    if facts.get("nodes_used", nodes) < nodes:
        found.add("few_nodes")
    return found
