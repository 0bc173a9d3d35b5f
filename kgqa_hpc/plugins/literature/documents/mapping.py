"""Mapping of a protein's name and organism to one entry of Swiss-Prot, offline, or to a reason for none.

A name is a recommended or alternative name, a gene, an entry name or an accession. It is compared literally, then
without regard to case, hyphens and the spelling of Greek letters; the first comparison with matches decides. Several
matches are `ambiguous`; the first one is never taken. (QAProt, 2.3, asked UniProt's web service instead.)

For memory, the fields of an entry are one row of bytes, the data of an organism is stored once, and names are stored
as hashes: 570,000 entries take 0.46 GB in each worker instead of the 1.6 GB of objects (tools/bench_proteins.py).
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from kgqa_hpc.plugins.literature.documents.names import spellings
from kgqa_hpc.plugins.literature.documents.proteins import NO_ORGANISM, Protein, organism_key, strain_words

_WITHDRAWN = re.compile(r"^(?:(?:deleted|obsolete)\.?|(?:de)?merged into\b.*|)$", re.IGNORECASE)
_JOINTS = re.compile(r"[\s\u00a0\u2010-\u2015\u2212-]+")
# Alternative names stand in brackets behind the recommended one: `Tumor antigen p53 (Antigen NY-CO-13)`.
_ALTERNATIVE = re.compile(r"\s\(([^()]*(?:\([^()]*\)[^()]*)*)\)(?=\s\(|$)")


# homologue: the name is known, of other organisms only; obsolete: the entry was withdrawn.
Outcome = Literal["mapped", "ambiguous", "homologue", "obsolete", "missing", "no organism"]


class Mapped(NamedTuple):
    """The outcome with the protein if it is mapped, or with the sorted accessions of candidates."""

    outcome: Outcome
    protein: Protein | None = None
    candidates: tuple[str, ...] = ()


class ProteinTable:
    """Entries by their names."""

    def __init__(self, proteins: Iterable[Protein]) -> None:
        self._withdrawn: set[str] = set()
        # For each entry: its fields between line ends, which occur in no field of a file of lines; its organism's
        # name, id and lineage, one tuple an organism.
        self._rows: list[bytes] = []
        self._organisms: list[tuple[str, str, str]] = []
        self._species: defaultdict[str, set[str]] = defaultdict(set)
        distinct: dict[tuple[str, str, str], tuple[str, str, str]] = {}
        exact, folded = (array("q"), array("I")), (array("q"), array("I"))
        for protein in proteins:
            if _WITHDRAWN.match(protein.name):
                self._withdrawn.add(protein.accession)
                continue
            names, codes = names_of(protein), (protein.entry_name, protein.accession)
            ways = chain.from_iterable((_fold(n),) if n in codes else _ways(n) for n in names)
            for (hashes, numbers), spellings_of_entry in ((exact, names), (folded, set(ways))):
                for spelling in spellings_of_entry:
                    hashes.append(hash(spelling))
                    numbers.append(len(self._rows))
            genes = " ".join(protein.genes)
            fields = protein.accession, protein.name, protein.entry_name, genes, protein.sequence
            self._rows.append("\n".join(fields).encode())
            organism = protein.organism, protein.taxon_id, protein.lineage
            self._organisms.append(distinct.setdefault(organism, organism))
            key = organism_key(protein.organism)
            if " " in key:
                self._species[f"{key[0]}. {key.split(' ', 1)[1]}"].add(key)
        # Hashes have 64 bits: an unknown name collides with one of ten million names with probability 5e-13.
        self._exact, self._folded = (
            pd.Series(np.array(numbers), index=np.array(hashes)).sort_index(kind="stable")
            for hashes, numbers in (exact, folded)
        )

    def map(self, name: str, organism: str) -> Mapped:
        """The entry with this name in this organism, or the reason for none. `organism`: a name or a taxon id."""
        name = name.strip()
        if name in self._withdrawn:
            return Mapped("obsolete")
        key, folded = hash(name), hash(_fold(name))
        exact, alike = self._exact.loc[key:key].tolist(), self._folded.loc[folded:folded].tolist()
        if not (everywhere := alike or exact):
            return Mapped("missing")
        candidates = tuple(sorted(self._by_accession(everywhere)))
        if organism.strip().lower() in NO_ORGANISM:
            return Mapped("no organism", candidates=candidates)
        for numbers in (exact, alike):
            entries = self._by_accession(self._in_organism(numbers, organism.strip()))
            if len(entries) == 1:
                return Mapped("mapped", self._protein(entries.popitem()[1]))
            if entries:
                return Mapped("ambiguous", candidates=tuple(sorted(entries)))
        return Mapped("homologue", candidates=candidates)

    def _by_accession(self, numbers: Iterable[int]) -> dict[str, int]:
        """Accessions and their entries; the last entry of a repeated accession."""
        return {self._rows[number].partition(b"\n")[0].decode(): number for number in numbers}

    def _protein(self, number: int) -> Protein:
        accession, name, entry_name, genes, sequence = self._rows[number].decode().split("\n")
        organism = self._organisms[number]
        return Protein(accession, name, entry_name, tuple(genes.split()), *organism, sequence)

    def _in_organism(self, numbers: list[int], organism: str) -> list[int]:
        """The entries of an organism; only those of its strain, if `organism` names a strain that occurs."""
        organisms = {number: self._organisms[number] for number in numbers}
        if organism.isdigit():
            return [number for number, (_, taxon_id, _) in organisms.items() if taxon_id == organism]
        key, strain = organism_key(organism), strain_words(organism)
        full = self._species.get(key, set())
        keys = full if len(full) == 1 else {key}
        matching = [number for number, (name, _, _) in organisms.items() if organism_key(name) in keys]
        return [n for n in matching if strain and strain <= strain_words(organisms[n][0])] or matching


def names_of(protein: Protein) -> list[str]:
    """All names of an entry: recommended and alternative names, genes, entry name, accession."""
    recommended = _ALTERNATIVE.sub("", protein.name).strip()
    alternative = _ALTERNATIVE.findall(protein.name)
    names = [protein.name, recommended, *alternative, *protein.genes, protein.entry_name, protein.accession]
    return [name for name in dict.fromkeys(names) if name]


@lru_cache(maxsize=1 << 14)  # homologues share a name
def _ways(name: str) -> tuple[str, ...]:
    return tuple(_fold(spelling) for spelling in spellings(name))


def _fold(name: str) -> str:
    return _JOINTS.sub(" ", name).strip().lower()
