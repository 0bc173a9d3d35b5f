"""A name and an organism become one entry, or the reason why not; never the first hit."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.mapping import Outcome, ProteinTable
from kgqa_hpc.plugins.literature.documents.proteins import Protein, read_proteins

SEED = 20261122
K12, HUMAN, MOUSE = "Escherichia coli (strain K12)", "Homo sapiens (Human)", "Mus musculus (Mouse)"
P53 = "Cellular tumor antigen p53"
ENTRIES = [
    Protein(
        "P1", f"{P53} (Antigen NY-CO-13) (Phosphoprotein p53)", "P53_HUMAN", ("TP53", "P53"), HUMAN, "9606"
    ),
    Protein("P2", P53, "P53_MOUSE", ("Tp53", "Trp53"), MOUSE, "10090"),
    Protein("P3", "Protein RecA", "RECA_ECOLI", ("recA",), K12, "83333"),
    Protein("P4", "Protein RecA", "RECA_ECO57", ("recA",), "Escherichia coli O157:H7", "83334"),
    Protein("P5", "Interleukin-1 beta", "IL1B_HUMAN", ("IL1B", "IL1F2"), HUMAN, "9606"),
    Protein("P6", "Twin protein", "", ("TWN1",), HUMAN, "9606"),
    Protein("P7", "Twin protein", "", ("TWN2",), HUMAN, "9606"),
    Protein("P8", "CAT", "", (), HUMAN, "9606"),
    Protein("P9", "Cat", "", (), HUMAN, "9606"),
    Protein("P10", "deleted"),
    Protein("P11", "Deleted in cancer 1", "", (), HUMAN, "9606"),
    Protein("P12", "Large T antigen", "", (), "Simian virus 40", "1891767"),
]
TABLE = ProteinTable(ENTRIES, replaced_by={"Q99999": "P1"})


@pytest.mark.parametrize(
    ("name", "organism", "accession"),
    [
        ("p53", "human", "P1"),
        ("TP53", "Homo sapiens", "P1"),
        ("Antigen NY-CO-13", "9606", "P1"),
        ("cellular tumor antigen P53", "Mus musculus", "P2"),
        ("RecA", "Escherichia coli K-12", "P3"),
        ("recA", "E. coli O157:H7", "P4"),
        ("IL-1 β", "human", None),
        ("interleukin-1β", "human", "P5"),
        ("interleukin 1 beta", "human", "P5"),
        ("CAT", "human", "P8"),
        ("Cat", "human", "P9"),
        ("Deleted in cancer 1", "human", "P11"),
        ("large T-antigen", "Simian virus 40", "P12"),
        ("P53_MOUSE", "mouse", "P2"),
        ("P3", "Escherichia coli", "P3"),
    ],
)
def test_a_name_is_mapped_as_people_write_it(name: str, organism: str, accession: str | None) -> None:
    found = TABLE.map(name, organism)
    assert (found.protein.accession if found.protein else None) == accession
    assert (found.outcome is Outcome.MAPPED) == (accession is not None)


@pytest.mark.parametrize(
    ("name", "organism", "outcome", "candidates"),
    [
        ("Twin protein", "human", Outcome.AMBIGUOUS, ("P6", "P7")),
        ("cAT", "human", Outcome.AMBIGUOUS, ("P8", "P9")),
        ("recA", "Escherichia coli", Outcome.AMBIGUOUS, ("P3", "P4")),
        ("IL1B", "mouse", Outcome.HOMOLOGUE, ("P5",)),
        ("P10", "human", Outcome.OBSOLETE, ()),
        ("Q99999", "human", Outcome.OBSOLETE, ("P1",)),
        ("deleted", "human", Outcome.MISSING, ()),
        ("no such protein", "human", Outcome.MISSING, ()),
        ("TP53", "All", Outcome.NO_ORGANISM, ("P1", "P2")),
        ("TP53", "Not sure", Outcome.NO_ORGANISM, ("P1", "P2")),
    ],
)
def test_what_cannot_be_mapped_says_why(
    name: str, organism: str, outcome: Outcome, candidates: tuple[str, ...]
) -> None:
    found = TABLE.map(name, organism)
    assert (found.outcome, found.protein, found.candidates) == (outcome, None, candidates)


def test_the_order_of_the_entries_does_not_matter() -> None:
    print("seed", SEED)
    shuffled = ProteinTable(random.Random(SEED).sample(ENTRIES, len(ENTRIES)))
    for name in ("Twin protein", "p53", "recA", "cat"):
        for organism in ("human", "mouse", "E. coli"):
            assert shuffled.map(name, organism) == TABLE.map(name, organism)


def test_real_entries_are_found_by_their_own_name_or_said_to_be_ambiguous(proteins: Path) -> None:
    entries = list(read_proteins(proteins / "proteins_reviewed.tsv.gz"))
    table, outcomes = ProteinTable(entries), Counter[Outcome]()
    for entry in entries:
        found = table.map(entry.name, entry.organism)
        outcomes[found.outcome] += 1
        if found.protein is not None:
            assert found.protein == entry
        elif found.outcome is Outcome.AMBIGUOUS:
            assert entry.accession in found.candidates
    assert len(entries) == 9731
    assert outcomes[Outcome.MAPPED] >= 9700
    assert outcomes[Outcome.HOMOLOGUE] == outcomes[Outcome.NO_ORGANISM] == 0


def test_a_fasta_file_of_swiss_prot_is_read(proteins: Path) -> None:
    entries = list(read_proteins(proteins / "swissprot_mixed_800.fasta"))
    assert len(entries) == 800
    assert entries[0].accession == "Q8AWH3"
    assert (entries[0].genes, entries[0].organism) == (("sox17a",), "Xenopus tropicalis")
    assert all(entry.sequence.isalpha() and entry.name for entry in entries)


def test_the_headings_of_uniprots_own_tables_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "uniprot.tsv.gz"
    heading = "Entry\tEntry Name\tProtein names\tGene Names\tOrganism\tSequence\n"
    path.write_bytes(
        gzip.compress((heading + "P1\tX_HUMAN\tCat (Felis)\tA B\tHomo sapiens (Human)\tMK\n").encode())
    )
    (entry,) = read_proteins(path)
    assert entry == Protein("P1", "Cat (Felis)", "X_HUMAN", ("A", "B"), "Homo sapiens (Human)", sequence="MK")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\n", "line 1: no column accession or protein_name"),
        ("accession\tprotein_name\nP1\tx\ty\n", "line 2: 3 columns instead of 2"),
        (">sp|P1|X Cat OS=Homo sapiens\nMK\n>hello\n", "line 3: not a header"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(DocumentFormatError, match=message):
        list(read_proteins(tmp_path / "a.tsv"))
