"""Packed entries come back as they were, and every name leads to all entries that have it."""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.plugins.literature.documents.mapping import Entries, NameIndex, Outcome, ProteinTable
from kgqa_hpc.plugins.literature.documents.proteins import Protein, read_proteins

HUMAN = "Homo sapiens (Human)"


def test_an_entry_comes_back_as_it_was_whatever_it_lacks() -> None:
    given = [
        Protein(
            "P1", "Interleukin-1β (IL-1)", "IL1B_HUMAN", ("IL1B", "IL1F2"), HUMAN, "9606", "cellular", "MK"
        ),
        Protein("P2", "Cat"),
        Protein("P3", "Dog", organism=HUMAN, taxon_id="9606", lineage="other lineage"),
    ]
    entries = Entries()
    numbers = [entries.add(one) for one in given]
    assert [entries[number] for number in numbers] == given
    assert [entries.accession(number) for number in numbers] == ["P1", "P2", "P3"]
    assert len(entries) == 3


def test_real_entries_come_back_as_they_were(proteins: Path) -> None:
    for name in ("proteins_reviewed.tsv.gz", "swissprot_mixed_800.fasta"):
        entries, given = Entries(), list(read_proteins(proteins / name))
        assert [entries[entries.add(one)] for one in given] == given


def test_a_name_leads_to_all_its_entries_and_another_to_none() -> None:
    index = NameIndex()
    for number, names in enumerate([["a", "b"], ["b"], ["c", "b"]]):
        index.add(names, number)
    index.close()
    assert [index.find(name) for name in ("a", "b", "c", "d", "")] == [[0], [0, 1, 2], [2], [], []]


def test_a_table_without_entries_has_no_name() -> None:
    assert ProteinTable([]).map("TP53", "human").outcome is Outcome.MISSING


def test_an_accession_given_twice_is_one_entry_as_it_stands_last() -> None:
    table = ProteinTable([Protein("P1", "Cat", organism=HUMAN), Protein("P1", "Cat", "CAT_HUMAN", (), HUMAN)])
    found = table.map("cat", "human")
    assert found.protein is not None
    assert found.protein.entry_name == "CAT_HUMAN"
