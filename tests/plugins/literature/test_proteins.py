"""Proteins: files of entries, the mapping of a name and an organism to one entry or the reason why not (never the
first hit), groups of organisms, and classes of functions.
"""

import gzip
import random
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.proteins import (
    Outcome,
    Protein,
    ProteinTable,
    function_classes,
    organism_key,
    read_proteins,
    taxon_groups,
)
from tests.foreign.test_hostile_names import LONGEST, PIECES
from tests.foreign.watchdog import watched

SEED = 20261122
DATA = Path(__file__).parent / "data"
K12, HUMAN, MOUSE = "Escherichia coli (strain K12)", "Homo sapiens (Human)", "Mus musculus (Mouse)"
P53 = "Cellular tumor antigen p53"
ALL_NAMES = f"{P53} (Antigen NY-CO-13) (Phosphoprotein p53)"
ENTRIES = [
    Protein("P1", ALL_NAMES, "P53_HUMAN", ("TP53", "P53"), HUMAN, "9606"),
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
TABLE = ProteinTable(ENTRIES)
BY_ACCESSION = {entry.accession: entry for entry in ENTRIES}


@pytest.mark.parametrize(
    ("name", "organism", "accession"),
    [
        ("p53", "human", "P1"), ("TP53", "Homo sapiens", "P1"), ("Antigen NY-CO-13", "9606", "P1"),
        ("cellular tumor antigen P53", "Mus musculus", "P2"), ("P53_MOUSE", "mouse", "P2"),
        ("RecA", "Escherichia coli K-12", "P3"), ("P3", "Escherichia coli", "P3"), ("recA", "E. coli O157:H7", "P4"),
        ("interleukin-1β", "human", "P5"), ("interleukin 1 beta", "human", "P5"),
        ("CAT", "human", "P8"), ("Cat", "human", "P9"), ("Deleted in cancer 1", "human", "P11"),
        ("large T-antigen", "Simian virus 40", "P12"),
    ],
)  # fmt: skip
def test_a_name_is_mapped_as_people_write_it_and_its_entry_comes_back_whole(
    name: str, organism: str, accession: str
) -> None:
    mapped = TABLE.map(name, organism)
    assert (mapped.outcome, mapped.protein) == ("mapped", BY_ACCESSION[accession])


@pytest.mark.parametrize(
    ("name", "organism", "outcome", "candidates"),
    [
        ("Twin protein", "human", "ambiguous", ("P6", "P7")),
        ("cAT", "human", "ambiguous", ("P8", "P9")),
        ("recA", "Escherichia coli", "ambiguous", ("P3", "P4")),
        ("IL1B", "mouse", "homologue", ("P5",)),
        ("P10", "human", "obsolete", ()),
        ("deleted", "human", "missing", ()),
        ("IL-1 β", "human", "missing", ()),
        ("TP53", "All", "no organism", ("P1", "P2")),
        ("TP53", "Not sure", "no organism", ("P1", "P2")),
    ],
)
def test_what_cannot_be_mapped_says_why(
    name: str, organism: str, outcome: str, candidates: tuple[str, ...]
) -> None:
    mapped = TABLE.map(name, organism)
    assert (mapped.outcome, mapped.protein, mapped.candidates) == (outcome, None, candidates)
    assert ProteinTable([]).map(name, organism).outcome == "missing"


def test_the_order_of_the_entries_does_not_matter() -> None:
    print("seed", SEED)
    shuffled = ProteinTable(random.Random(SEED).sample(ENTRIES, len(ENTRIES)))
    for name in ("Twin protein", "p53", "recA", "cat"):
        for organism in ("human", "mouse", "E. coli"):
            assert shuffled.map(name, organism) == TABLE.map(name, organism)


def test_an_accession_given_twice_is_one_entry_as_it_stands_last() -> None:
    last = Protein("P1", "Cat", "CAT_HUMAN", (), HUMAN)
    assert ProteinTable([Protein("P1", "Cat", organism=HUMAN), last]).map("cat", "human").protein == last


def test_real_entries_are_found_by_their_own_name_or_said_to_be_ambiguous(proteins: Path) -> None:
    entries = list(read_proteins(proteins / "proteins_reviewed.tsv.gz"))
    table, outcomes = ProteinTable(entries), Counter[str]()
    for entry in entries:
        mapped = table.map(entry.name, entry.organism)
        outcomes[mapped.outcome] += 1
        if mapped.protein is not None:
            assert mapped.protein == entry
        elif mapped.outcome == "ambiguous":
            assert entry.accession in mapped.candidates
    assert len(entries) == 9731
    assert outcomes["mapped"] >= 9700
    assert outcomes["homologue"] == outcomes["no organism"] == 0


def test_names_mapped_by_hand_get_their_entry_or_their_class(proteins: Path) -> None:
    table = ProteinTable(read_proteins(proteins / "proteins_reviewed.tsv.gz"))
    lines = (DATA / "mapping.txt").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line and not line.startswith("#")]
    outcomes = {*get_args(Outcome)}
    agreed = mappable = 0
    for name, organism, decision in rows:
        mapped = table.map(name, organism)
        answer = mapped.protein.accession if mapped.protein else mapped.outcome
        agreed += answer == decision
        mappable += decision not in outcomes
        if answer != decision:
            print(f"{name} of {organism}: {answer} instead of {decision}")
            assert mapped.protein is None  # a wrong accession is worse than none
    assert (len(rows) >= 150, mappable >= 120) == (True, True)
    assert agreed >= len(rows) - 2  # `thrombin` is no name of its entry in this table


def test_a_fasta_file_of_swiss_prot_is_read(proteins: Path) -> None:
    entries = list(read_proteins(proteins / "swissprot_mixed_800.fasta"))
    assert len(entries) == 800
    assert entries[0].accession == "Q8AWH3"
    assert (entries[0].genes, entries[0].organism) == (("sox17a",), "Xenopus tropicalis")
    assert all(entry.sequence.isalpha() and entry.name for entry in entries)


def test_the_headings_of_uniprots_own_tables_are_understood(tmp_path: Path) -> None:
    text = "Entry\tEntry Name\tProtein names\tGene Names\tOrganism\tSequence\n"
    text += "P1\tX_HUMAN\tCat (Felis)\tA B\tHomo sapiens (Human)\tMK\n"
    (tmp_path / "uniprot.tsv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (entry,) = read_proteins(tmp_path / "uniprot.tsv.gz")
    assert entry == Protein("P1", "Cat (Felis)", "X_HUMAN", ("A", "B"), HUMAN, sequence="MK")


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


@pytest.mark.parametrize(
    ("organism", "key", "groups"),
    [
        (HUMAN, "homo sapiens", ("human", "mammals", "vertebrates")),
        ("Human", "homo sapiens", ("human", "mammals", "vertebrates")),
        ("mouse", "mus musculus", ("mammals", "vertebrates")),
        ("Gallus gallus", "gallus gallus", ("birds", "vertebrates")),
        ("Xenopus laevis", "xenopus laevis", ("vertebrates",)),
        (K12, "escherichia coli", ("bacteria",)),
        ("Methanococcus maripaludis (strain S2 / LL)", "methanococcus maripaludis", ("archaea",)),
        ("Onion yellows phytoplasma (strain OY-M)", "onion yellows", ("bacteria",)),
        ("Anaeromyxobacter sp. (strain Fw109-5)", "anaeromyxobacter sp. (strain fw109-5)", ("bacteria",)),
        ("Escherichia phage T4", "escherichia phage t4", ("viruses",)),
        ("African swine fever virus (isolate Pig/Kenya)", "african swine fever virus", ("viruses",)),
        ("Saccharomyces cerevisiae", "saccharomyces cerevisiae", ("fungi",)),
        ("Oryza sativa subsp. japonica", "oryza sativa", ("plants",)),
        ("Candidatus Ruthia magnifica", "ruthia magnifica", ("bacteria",)),
        ("Nobody knowsit", "nobody knowsit", ("other",)),
        ("", "", ("other",)),
    ],
)
def test_an_organism_has_a_species_and_belongs_to_its_group_and_the_wider_ones(
    organism: str, key: str, groups: tuple[str, ...]
) -> None:
    assert (organism_key(organism), taxon_groups(organism)) == (key, groups)


def test_a_lineage_decides_before_the_genus() -> None:
    lineage = "Eukaryota, Metazoa, Chordata, Craniata, Vertebrata, Mammalia"
    assert taxon_groups("Nobody knowsit", lineage) == ("mammals", "vertebrates")


def test_nearly_all_real_entries_have_a_group(proteins: Path) -> None:
    entries = read_proteins(proteins / "proteins_reviewed.tsv.gz")
    counts = Counter(taxon_groups(entry.organism)[0] for entry in entries)
    assert counts["human"] == 2268
    assert counts["other"] / counts.total() < 0.01


def test_an_organism_of_any_length_takes_linear_time() -> None:
    for piece in PIECES:
        with watched(repr(piece)):
            organism_key(piece * (LONGEST // len(piece)))


CLASSES = {
    "kinase enzyme": ["Tyrosine-protein kinase ABL1", "Tyrosine-protein kinase, non-receptor type"],
    "kinase transmembrane enzyme": ["Insulin receptor kinase"],
    "enzyme": ["histone deacetylase 7"],
    "transmembrane": ["Insulin receptor", "growth hormone receptor"],
    "structural": ["30S ribosomal protein S13", "Keratin, type I cytoskeletal 9"],
    "other": [
        *("Cyclin-dependent kinase inhibitor 1", "Insulin receptor substrate 1", "Actin-binding protein"),
        *("Elongation factor P", "nuclear receptor subfamily 1 group I member 3", "estrogen receptor 1"),
        *("Non-structural protein 3a", "Probable fimbrial chaperone YadV"),
    ],
}


@pytest.mark.parametrize("classes", CLASSES)
def test_classes_follow_from_the_name(classes: str) -> None:
    for name in CLASSES[classes]:
        assert function_classes(name) == tuple(classes.split()), name
