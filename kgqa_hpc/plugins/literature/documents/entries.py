"""Half a million entries of Swiss-Prot in the memory of a worker: packed rows, and an index of names in two arrays.

570,000 entries as objects in dictionaries took 1.6 GB in each worker; so they take 0.46 GB (tools/bench_proteins.py):
the text of an entry is one row of bytes, what its organism has in common with other entries is kept once, and names
only as hashes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kgqa_hpc.plugins.literature.documents.proteins import Protein
from kgqa_hpc.plugins.literature.documents.taxa import organism_key, strain_words

_SEPARATOR = b"\n"  # in no field: files are read by lines


@dataclass(frozen=True, slots=True)
class Taxon:
    """Data shared by the entries of an organism: name, id and lineage, species (`key`) and the words of its strain."""

    organism: str
    id: str
    lineage: str
    key: str
    strain: frozenset[str]


class Entries:
    """Entries by their number, in the order they were added."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._ends = array("Q", [0])
        self._taxon_of = array("I")
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._taxa: list[Taxon] = []

    def __len__(self) -> int:
        return len(self._taxon_of)

    def add(self, protein: Protein) -> int:
        """Its number."""
        fields = (
            protein.accession,
            protein.name,
            protein.entry_name,
            " ".join(protein.genes),
            protein.sequence,
        )
        self._rows += _SEPARATOR.join(field.encode() for field in fields)
        self._ends.append(len(self._rows))
        shared = protein.organism, protein.taxon_id, protein.lineage
        if shared not in self._numbers:
            self._numbers[shared] = len(self._taxa)
            self._taxa.append(Taxon(*shared, organism_key(protein.organism), strain_words(protein.organism)))
        self._taxon_of.append(self._numbers[shared])
        return len(self) - 1

    def __getitem__(self, number: int) -> Protein:
        row = bytes(self._rows[self._ends[number] : self._ends[number + 1]])
        accession, name, entry_name, genes, sequence = (field.decode() for field in row.split(_SEPARATOR))
        taxon = self.taxon(number)
        return Protein(
            accession,
            name,
            entry_name,
            tuple(genes.split()),
            taxon.organism,
            taxon.id,
            taxon.lineage,
            sequence,
        )

    def accession(self, number: int) -> str:
        start = self._ends[number]
        return self._rows[start : self._rows.index(_SEPARATOR, start)].decode()

    def taxon(self, number: int) -> Taxon:
        return self._taxa[self._taxon_of[number]]


class NameIndex:
    """Index from names to entries: sorted hashes of names, and the number of an entry for each.

    The hash has 64 bits: among ten million names a name that is none of them is taken for one with a probability of
    5e-13.
    """

    def __init__(self) -> None:
        self._added = array("q"), array("I")
        self._hashes, self._numbers = np.empty(0, np.int64), np.empty(0, np.uint32)

    def add(self, names: Iterable[str], number: int) -> None:
        for name in names:
            self._added[0].append(hash(name))
            self._added[1].append(number)

    def close(self) -> None:
        """Sort the index after all names were added; only then `find` works."""
        hashes, numbers = np.array(self._added[0], np.int64), np.array(self._added[1], np.uint32)
        self._added = array("q"), array("I")
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._numbers = hashes[order], numbers[order]

    def find(self, name: str) -> list[int]:
        """The numbers of the entries that have the name, ascending."""
        key = np.int64(hash(name))
        begin, last = (int(np.searchsorted(self._hashes, key, side=side)) for side in ("left", "right"))
        numbers: list[int] = self._numbers[begin:last].tolist()
        return numbers
