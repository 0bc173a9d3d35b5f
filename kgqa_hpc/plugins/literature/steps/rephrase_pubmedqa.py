"""A pair as a question of PubMedQA: answered by yes, no or maybe, with a long answer and a context.

The context is what the step `ground` has verified in the pair's documents; without any, the source answer.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.steps.rephrase import SOURCE, Rephrase, RephraseSettings, quotes_of, replaced
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Retry

DECISIONS = ("yes", "no", "maybe")
# What yes or no cannot answer. None of the benchmark's 1,000 labelled questions begins so, and all end with the mark.
_OPEN = re.compile(r"(?:what|which|who|whom|whose|when|where|why|how)\b", re.IGNORECASE)


class PubmedqaSettings(RephraseSettings):
    """As of every rephrasing; fewer examples, as published."""

    examples: int = Field(3, ge=0, le=20, description="Examples in each prompt.")


class RephrasePubmedqa(Rephrase):
    """The record's answer is the long answer; `final_decision` is yes, no or maybe."""

    name = "rephrase_pubmedqa"
    Settings = PubmedqaSettings
    default_prompt = "rephrase_pubmedqa"
    answer = {"question": "string", "long_answer": "string", "final_decision": "string"}
    gives = ("question", "answer", "final_decision", "context")
    columns = (
        *SOURCE,
        Column("final_decision", "string", "yes, no or maybe."),
        Column(
            "context", "string", "What the question is answered from: verified quotes, or the source answer."
        ),
    )

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        decision = answer["final_decision"].strip().lower()
        if decision not in DECISIONS:
            return Retry("decision", lost_as="invalid")
        if _OPEN.match(answer["question"]) or not answer["question"].endswith("?"):
            return Retry("no yes-or-no question", lost_as="invalid")
        context = " ".join(quotes_of(item.output)) or item.output["answer"]
        item.output = replaced(
            item, answer["question"], answer["long_answer"], final_decision=decision, context=context
        )
        return Done()
