"""Questions about the proteins that an abstract names, their organism and their entry in Swiss-Prot.

One item gives many records: up to ten pairs for each protein, each with its organism scope (QAProt, 3.2
and its prompts). Checks without a model reject single records, not the item: a protein that does
not occur in the text, a question that mentions its source, a repeated question.

A pair whose scope names an organism keeps it; one that holds for All, or Not sure, is given the document's main
organism (QAProt, 3.2). Pairs without an organism are left out and counted.

The mapping is offline, against a file that the user has, and adds accession, sequence, taxonomy and functional classes.
A name that is ambiguous, known of other organisms only, withdrawn or missing rejects the record under that class; the
first hit is never taken (QAProt, 3.3, which takes it).
"""

import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from kgqa_hpc.anchors.family import own_words
from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.documents.document import QuotableText
from kgqa_hpc.plugins.literature.documents.mapping import ProteinTable, names_of
from kgqa_hpc.plugins.literature.documents.proteins import (
    NO_ORGANISM,
    function_classes,
    read_proteins,
    taxon_groups,
)
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import PAIR, Item
from kgqa_hpc.steps.step import Done, Outcome, Step

PER_PROTEIN = 10  # QAProt, 3.2 and its prompt
# Words that refer to the source, which a reader of the question does not see.
_SOURCE = re.compile(
    r"\b(?:abstract|article|paper|authors?|manuscript|(?:this|the|present|current|our) (?:study|studies|text|work|"
    r"report|review|findings?|results?|data|passage))\b"
)


Scope = Annotated[
    Literal["any", "sequence"],
    Field(
        exclude_if=lambda scope: scope == "any",
        description="`sequence`: only pairs that the protein's sequence alone could answer (QAProt).",
    ),
]


class ExtractSettings(StepSettings):
    """Settings of an extraction step: scope and number of pairs."""

    scope: Scope = "any"
    per_protein: int = Field(
        PER_PROTEIN, ge=1, description="Maximum pairs per protein; further ones are rejected."
    )


class Extract(Step):
    """Turns a document into records, one for each pair of the model's answer; a rejected pair has a reason."""

    name = "extract"
    Settings = ExtractSettings
    default_prompt = "extract"
    answer = {"pairs": "array"}
    adds = "output"
    gives = ("question", "answer", "protein", "organism_scope")
    many = True
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
        quotable, most = QuotableText(item.anchor.data["document"]["text"]), self.settings.per_protein
        seen, questions = Counter[str](), set[str]()
        schema = self.prompt.schema["properties"]["pairs"]["items"]["properties"]
        # The grammar cuts a text at its maximum length.
        cut_at = {} if self.prompt.allow_cut else {name: schema[name].get("maxLength") for name in PAIR}
        item.records = []
        for pair in answer["pairs"]:
            fields = {name: pair[name] for name in self.gives}
            protein, question = plain(fields["protein"]), plain(fields["question"])
            texts, trouble = (question, fields["answer"]), None
            if quotable.find(fields["protein"]) is None:
                trouble = "protein not in the text"
            elif any(len(fields[name]) == length for name, length in cut_at.items()):
                trouble = "cut off"
            elif any(_SOURCE.search(plain(words)) or own_words(words) for words in texts):
                trouble = "speaks of its source"
            elif question in questions:
                trouble = "question repeated"
            elif seen[protein] >= most:
                trouble = f"more than {most} of a protein"
            else:
                seen[protein] += 1
                questions.add(question)
            item.records.append({**fields, "reason": trouble and f"{self.label}: {trouble}"})
        return Done()


def kept(item: Item) -> list[dict[str, Any]]:
    """Records of the item that no step has rejected so far."""
    return [record for record in item.records or () if record["reason"] is None]


class Organism(Step):
    """Adds the organism to each record; one request for each document that has records."""

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


class MapSettings(StepSettings):
    """Settings of the step map_protein: the protein file."""

    proteins: str = Field(description="Swiss-Prot as FASTA or as UniProt's table, plain or gzip.")
    paths = ("proteins",)


class MapProtein(Step):
    """Adds the Swiss-Prot entry to each record, or rejects it with the outcome: `map_protein: ambiguous`."""

    name = "map_protein"
    Settings = MapSettings
    adds = "column"
    columns = (
        Column("accession", "string", "UniProt accession of the protein."),
        Column("protein_name", "string", "Its recommended name."),
        Column("organism", "string", "Organism of the entry."),
        Column("organism_stated", "string", "The organism as the model stated it."),
        Column("sequence", "string", "Amino acid sequence."),
        Column("taxonomy", ["string"], "Groups of the organism, the narrowest first."),
        Column("functions", ["string"], "Functional classes, by the protein's name."),
        Column("mapping", "string", "What became of the names: mapped, ambiguous, homologue, …"),
        Column("candidates", ["string"], "Accessions that the names could have meant."),
    )

    @cached_property
    def _table(self) -> ProteinTable:
        return ProteinTable(read_proteins(Path(self.settings.proteins)))

    def compute(self, item: Item) -> Outcome:
        """Map all records; the first record reads the file. Raises DocumentFormatError."""
        for record in kept(item):
            mapped = self._table.map(record["protein"], record.get("organism") or "")
            record |= {"mapping": mapped.outcome.value, "organism_stated": record.get("organism")}
            if mapped.candidates:
                record["candidates"] = list(mapped.candidates)
            if (protein := mapped.protein) is None:
                record["reason"] = f"{self.label}: {mapped.outcome.value}"
                continue
            record |= {
                "accession": protein.accession,
                "protein_name": protein.name,
                "organism": protein.organism,
                "sequence": protein.sequence,
                "taxonomy": list(taxon_groups(protein.organism, protein.lineage)),
                "functions": list(function_classes(protein.name)),
                "names": names_of(protein),
            }
            if not protein.sequence:
                record["reason"] = f"{self.label}: no sequence"
        return Done()
