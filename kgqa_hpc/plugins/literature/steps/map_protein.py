"""Steps `organism`, the one organism that a document is about, and `map_protein`, the entry of a pair in Swiss-Prot.

A pair whose scope names an organism keeps it; one that holds for All, or Not sure, is given the document's main
organism (QAProt, 3.2). Pairs without an organism are left out and counted.

The mapping is offline, against a file that the user has, and adds accession, sequence, taxonomy and functional classes.
A name that is ambiguous, known of other organisms only, withdrawn or missing rejects the record under that class; the
first hit is never taken (QAProt, 3.3, which takes it).
"""

from pathlib import Path
from typing import Any

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.documents.mapping import ProteinTable, names_of
from kgqa_hpc.plugins.literature.documents.proteins import (
    NO_ORGANISM,
    function_classes,
    read_proteins,
    taxon_groups,
)
from kgqa_hpc.plugins.literature.steps.extract import kept
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step


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

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        self._table: ProteinTable | None = None

    def compute(self, item: Item) -> Outcome:
        """Map all records; the first call reads the file. Raises DocumentFormatError."""
        for record in kept(item):
            if self._table is None:
                self._table = ProteinTable(read_proteins(Path(self.settings.proteins)))
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
