"""Mapping of the names in a pair to an entry of Swiss-Prot: accession, sequence, taxonomy, functional classes.

Offline, against a file that the user has. A name that is ambiguous, known of other organisms only, withdrawn
or missing rejects the record under that class; the first hit is never taken (QAProt, 3.3, which takes it).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.documents.mapping import Mapped, Outcome, ProteinTable, names_of
from kgqa_hpc.plugins.literature.documents.proteins import Protein, function_classes, read_proteins
from kgqa_hpc.plugins.literature.documents.taxa import taxon_groups
from kgqa_hpc.plugins.literature.steps.extract import kept
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Step
from kgqa_hpc.steps.step import Outcome as StepOutcome


class MapSettings(StepSettings):
    """Settings of the mapping: the protein file."""

    proteins: str = Field(description="Swiss-Prot as FASTA or as UniProt's table, plain or gzip.")
    paths = ("proteins",)


class MapProtein(Step):
    """Gives each record its entry, or rejects it with the outcome: `map_protein: ambiguous`."""

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

    def compute(self, item: Item) -> StepOutcome:
        """Map all records; the first call reads the file. Raises DocumentFormatError."""
        for record in kept(item):
            if self._table is None:
                self._table = ProteinTable(read_proteins(Path(self.settings.proteins)))
            mapped = self._table.map(record["protein"], record.get("organism") or "")
            record |= dict(_columns(mapped, record))
            if mapped.protein is None:
                record["reason"] = f"{self.label}: {mapped.outcome.value}"
            elif not mapped.protein.sequence:
                record["reason"] = f"{self.label}: no sequence"
        return Done()


def _columns(mapped: Mapped, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "mapping", mapped.outcome.value
    yield "organism_stated", record.get("organism")
    if mapped.candidates:
        yield "candidates", list(mapped.candidates)
    if mapped.outcome is Outcome.MAPPED and mapped.protein is not None:
        yield from _entry(mapped.protein)


def _entry(protein: Protein) -> Iterator[tuple[str, Any]]:
    yield "accession", protein.accession
    yield "protein_name", protein.name
    yield "organism", protein.organism
    yield "sequence", protein.sequence
    yield "taxonomy", list(taxon_groups(protein.organism, protein.lineage))
    yield "functions", list(function_classes(protein.name))
    yield "names", names_of(protein)
