"""Questions about the proteins that an abstract names, and their answers, from the abstract alone.

One item gives many records: up to ten pairs for each protein, each with its organism scope (QAProt, 3.2
and its prompts). What can be said against a pair without a model rejects that record, not the item: a protein that does
not stand in the text, a question that speaks of its source, the same question again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from kgqa_hpc.anchors.family import own_words
from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.documents.quotes import QuotableText
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step

PER_PROTEIN = 10  # QAProt, 3.2 and its prompt
# Words that refer to the source, which a reader of the question does not see.
_SOURCE = re.compile(
    r"\b(?:abstract|article|paper|authors?|manuscript|(?:this|the|present|current|our) (?:study|studies|text|work|"
    r"report|review|findings?|results?|data|passage))\b"
)


Scope = Literal["any", "sequence"]


class ExtractSettings(StepSettings):
    """How many pairs are taken, and about what."""

    scope: Scope = Field(
        "any",
        exclude_if=lambda scope: scope == "any",
        description="`sequence`: only questions that the protein's sequence alone could answer (QAProt).",
    )
    per_protein: int = Field(PER_PROTEIN, ge=1, description="Pairs of one protein; more are rejected.")


class Extract(Step):
    """Fills `item.records`; every pair that the model gave is there, with the reason why it is left out."""

    name = "extract"
    Settings = ExtractSettings
    default_prompt = "extract"
    answer = {"pairs": "array"}
    adds = "output"
    gives = ("question", "answer", "protein", "organism_scope")
    columns = (
        Column("protein", "string", "The protein, as the document names it."),
        Column(
            "organism_scope",
            "string",
            "Organism that the pair holds for, as stated: a name, All, or Not sure.",
        ),
    )

    def variables(self, item: Item) -> dict[str, Any]:
        return {"scope": self.settings.scope}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        text = item.anchor.data["document"]["text"]
        item.records = list(_records(answer["pairs"], text, self.settings.per_protein, self.label))
        return Done()


def kept(item: Item) -> list[dict[str, Any]]:
    """The item's records that no step has rejected so far."""
    return [record for record in item.records or () if record["reason"] is None]


def _records(pairs: list[dict[str, Any]], text: str, most: int, label: str) -> Iterator[dict[str, Any]]:
    quotable, seen, questions = QuotableText(text), Counter[str](), set[str]()
    for pair in pairs:
        fields = {name: pair[name] for name in Extract.gives}
        protein, question = plain(fields["protein"]), plain(fields["question"])
        trouble = None
        if quotable.find(fields["protein"]) is None:
            trouble = "protein not in the text"
        elif any(_SOURCE.search(plain(words)) or own_words(words) for words in (question, fields["answer"])):
            trouble = "speaks of its source"
        elif question in questions:
            trouble = "question repeated"
        elif seen[protein] >= most:
            trouble = f"more than {most} of a protein"
        else:
            seen[protein] += 1
            questions.add(question)
        yield {**fields, "reason": trouble and f"{label}: {trouble}"}
