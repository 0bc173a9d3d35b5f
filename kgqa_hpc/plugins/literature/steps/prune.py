"""Two filters on pairs about proteins: pruning of uninformative pairs, and replacement of names (QAProt, B.2).

Both are counted and can be undone: a pruned pair is a rejected record whose reason is the term, and a pair
without names keeps the texts with them beside.
"""

from __future__ import annotations

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.documents.delexicalise import (
    PLACEHOLDER,
    PLACEHOLDERS,
    delexicalise,
    name_finder,
    pruned_by,
)
from kgqa_hpc.plugins.literature.steps.extract import kept
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step


class PruneSettings(StepSettings):
    """Settings of pruning: the terms of uninformative pairs."""

    terms: list[str] = Field(
        default_factory=lambda: list(PLACEHOLDERS),
        description="Words or phrases that reject a pair; upper and lower case are equal.",
    )


class Prune(Step):
    """Rejects records in which one of the terms stands: `prune: not sure`."""

    name = "prune"
    Settings = PruneSettings
    adds = "column"

    def compute(self, item: Item) -> Outcome:
        for record in kept(item):
            term = pruned_by((record["question"], record["answer"]), self.settings.terms)
            if term is not None:
                record["reason"] = f"{self.label}: {term}"
        return Done()


class DelexicaliseSettings(StepSettings):
    """Settings of de-lexicalisation: the placeholder for names."""

    placeholder: str = Field(
        PLACEHOLDER, min_length=1, description="Text that replaces a name of the protein."
    )


class Delexicalise(Step):
    """Replaces the names of a record's protein (all names of its entry, if it was mapped) in its texts."""

    name = "delexicalise"
    Settings = DelexicaliseSettings
    adds = "column"
    columns = (
        Column("question_with_names", "string", "The question before names were replaced."),
        Column("answer_with_names", "string", "The answer before names were replaced."),
        Column("names_replaced", "int64", "Names that were replaced in both."),
    )

    def compute(self, item: Item) -> Outcome:
        for record in kept(item):
            finder = name_finder([record["protein"], *record.get("names", ())])
            replaced = 0
            for name in ("question", "answer"):
                changed = delexicalise(record[name], finder, self.settings.placeholder)
                record[f"{name}_with_names"], record[name] = changed.original, changed.text
                replaced += len(changed.replaced)
            record["names_replaced"] = replaced
        return Done()
