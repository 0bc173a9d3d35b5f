"""The one organism that a document is about, or none: pairs without an organism are left out and counted.

A pair whose scope names an organism keeps it; one that holds for All, or Not sure, is given the main organism
(QAProt, 3.2).
"""

from __future__ import annotations

from typing import Any

from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.documents.taxa import NO_ORGANISM
from kgqa_hpc.plugins.literature.steps.extract import kept
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step


class Organism(Step):
    """Gives each record its organism; asks once for each document with records left."""

    name = "organism"
    default_prompt = "organism"
    answer = {"organism": "string"}
    adds = "column"
    columns = (
        Column("organism", "string", "Organism of the protein."),
        Column("main_organism", "string", "The one organism that the document is about."),
    )

    def asks_about(self, item: Item) -> bool:
        return bool(kept(item))

    def compute(self, item: Item) -> Outcome:
        """End the step for a document without records."""
        return Done()

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        main = answer["organism"].strip(' ."')
        item.annotations["main_organism"] = main
        for record in kept(item):
            scope = record["organism_scope"].strip()
            record["organism"] = main if scope.lower() in NO_ORGANISM else scope
            if record["organism"].lower() in NO_ORGANISM:
                record["reason"] = f"{self.label}: unknown"
        return Done()
