"""Organisms and functional classes as columns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kgqa_hpc.plugins.literature.documents.proteins import function_classes, read_proteins
from kgqa_hpc.plugins.literature.documents.taxa import organism_key, taxon_group, taxon_groups


@pytest.mark.parametrize(
    ("organism", "groups"),
    [
        ("Homo sapiens (Human)", ("human", "mammals", "vertebrates")),
        ("mouse", ("mammals", "vertebrates")),
        ("Gallus gallus", ("birds", "vertebrates")),
        ("Xenopus laevis", ("vertebrates",)),
        ("Escherichia coli (strain K12)", ("bacteria",)),
        ("Methanococcus maripaludis (strain S2 / LL)", ("archaea",)),
        ("Onion yellows phytoplasma (strain OY-M)", ("bacteria",)),
        ("Escherichia phage T4", ("viruses",)),
        ("African swine fever virus (isolate Pig/Kenya/KEN-50/1950)", ("viruses",)),
        ("Saccharomyces cerevisiae", ("fungi",)),
        ("Zea mays", ("plants",)),
        ("Nobody knowsit", ("other",)),
        ("", ("other",)),
    ],
)
def test_an_organism_belongs_to_its_group_and_the_wider_ones(organism: str, groups: tuple[str, ...]) -> None:
    assert taxon_groups(organism) == groups


def test_a_lineage_decides_before_the_genus() -> None:
    assert (
        taxon_group("Nobody knowsit", "Eukaryota, Metazoa, Chordata, Craniata, Vertebrata, Mammalia")
        == "mammals"
    )


@pytest.mark.parametrize(
    ("organism", "key"),
    [
        ("Escherichia coli (strain K12)", "escherichia coli"),
        ("Oryza sativa subsp. japonica", "oryza sativa"),
        ("Anaeromyxobacter sp. (strain Fw109-5)", "anaeromyxobacter sp. (strain fw109-5)"),
        ("Human", "homo sapiens"),
        ("Simian virus 40", "simian virus 40"),
        ("Candidatus Ruthia magnifica", "ruthia magnifica"),
    ],
)
def test_the_key_is_the_species(organism: str, key: str) -> None:
    assert organism_key(organism) == key


def test_nearly_all_real_entries_have_a_group(proteins: Path) -> None:
    counts = Counter(
        taxon_group(entry.organism) for entry in read_proteins(proteins / "proteins_reviewed.tsv.gz")
    )
    assert counts["human"] == 2268
    assert counts["other"] / counts.total() < 0.01


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("Tyrosine-protein kinase ABL1", ("kinase", "enzyme")),
        ("Cyclin-dependent kinase inhibitor 1", ("other",)),
        ("Insulin receptor", ("transmembrane",)),
        ("Insulin receptor substrate 1", ("other",)),
        ("Insulin receptor kinase", ("kinase", "transmembrane", "enzyme")),
        ("30S ribosomal protein S13", ("structural",)),
        ("Actin-binding protein", ("other",)),
        ("Keratin, type I cytoskeletal 9", ("structural",)),
        ("Elongation factor P", ("other",)),
    ],
)
def test_classes_follow_from_the_name(name: str, classes: tuple[str, ...]) -> None:
    assert function_classes(name) == classes
