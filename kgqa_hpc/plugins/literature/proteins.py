"""Proteins of a Swiss-Prot file: their functional classes, their organisms, and the entry that a name means.

The file is FASTA as UniProt writes it, or a table (TSV) with the columns `accession`, `protein_name` and optionally
`entry_name`, `gene_names`, `organism`, `taxon_id`, `lineage`, `sequence`, or with UniProt's own headings (`Entry`,
`Protein names`, …).

The groups of organisms are those of QAProt's Table 4 (human, mammals, birds, vertebrates, bacteria, archaea) and the
remaining ones. A given lineage decides; else the genus does, by a list of the most frequent genera of Swiss-Prot and by
the usual endings of bacteria, archaea and fungi. An unknown organism is `other`.

A name and an organism are mapped to one entry, offline, or to a reason for none. A name is a recommended or alternative
name, a gene, an entry name or an accession. It is compared literally, then without regard to case, hyphens and the
spelling of Greek letters; the first comparison with matches decides. Several matches are `ambiguous`; the first one is
never taken. (QAProt, 2.3, asked UniProt's web service instead.)

For memory, the fields of an entry are one row of bytes, the data of an organism is stored once, and names are stored
as hashes: 570,000 entries take 0.46 GB in each worker instead of the 1.6 GB of objects (tools/bench_proteins.py).
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.names import spellings
from kgqa_hpc.text.streams import text_lines

_HEADER = re.compile(
    r">(?:sp|tr)\|(?P<accession>[A-Z0-9-]+)\|(?P<entry>\S+) (?P<name>.*?)"
    r"(?: OS=(?P<organism>.*?))?(?: OX=(?P<taxon>\d+))?(?: GN=(?P<genes>.*?))?(?: PE=\d)?(?: SV=\d+)?\s*$"
)
_UNIPROT = {
    "Entry": "accession",
    "Entry Name": "entry_name",
    "Protein names": "protein_name",
    "Gene Names": "gene_names",
    "Organism": "organism",
    "Organism (ID)": "taxon_id",
    "Taxonomic lineage": "lineage",
    "Sequence": "sequence",
}

# The functional classes of QAProt. A name says little, so the rules are narrow: a protein that acts on a kinase
# (`… kinase inhibitor`) is no kinase. Others are `enzyme` by the ending of a word, or `other`.
_ABOUT = (
    r"(?!s?[ -](?:inhibitor|substrate|interacting|binding|associated|anchor|activator|regulat|scaffold|like))"
)
# Names of receptors inside the cell, and `non-receptor`: none of these proteins is transmembrane.
_INSIDE = (
    r"(?:non-|nuclear |(?:nuclear|steroid|thyroid) hormone |(?:estr|andr)ogen (?:related )?|progesterone |corticoid "
    r"|retinoic acid |retinoid X |vitamin D |proliferator[ -]activated )receptor"
)
_RULES = {
    "kinase": rf"kinase\b{_ABOUT}",
    "transmembrane": (
        rf"^(?!.*{_INSIDE})"
        r".*\b(?:transmembrane|receptor|channel|transporter|permease|symporter|antiporter|exchanger|porin"
        r"|aquaporin|uniporter|cadherin|integrin|claudin|tetraspanin|connexin|innexin|secy|membrane protein"
        rf"|efflux pump|multidrug resistance protein)\b{_ABOUT}"
    ),
    "structural": (
        r"^(?!.*(?:non-structural|chaperone|ase\b))"
        r".*\b(?:collagen|keratin|actin|tubulin|laminin|elastin|myosin|crystallin|fibrillin|vimentin|desmin|lamin"
        r"|spectrin|histone|tropomyosin|titin|nebulin|flagellin|fimbrial|pilin|capsid protein|coat protein"
        rf"|structural protein|ribosomal protein|cuticle protein)\b{_ABOUT}"
    ),
    "enzyme": rf"[a-z]{{3}}ase\b{_ABOUT}",
}
_PATTERNS = {name: re.compile(rule, re.IGNORECASE) for name, rule in _RULES.items()}


@dataclass(frozen=True, slots=True)
class Protein:
    """One entry. `taxon_id` is NCBI's, "" where the file has none; a withdrawn entry has no sequence."""

    accession: str
    name: str
    entry_name: str = ""
    genes: tuple[str, ...] = ()
    organism: str = ""
    taxon_id: str = ""
    lineage: str = ""
    sequence: str = ""


def read_proteins(path: Path) -> Iterator[Protein]:
    """The entries of a file, plain or gzip. Raises DocumentFormatError with the line."""
    lines = text_lines(path, DocumentFormatError)
    _, first_line = next(lines, (1, ""))
    yield from (_fasta if first_line.startswith(">") else _table)(path, first_line, lines)


def _fasta(path: Path, first_line: str, lines: Iterator[tuple[int, str]]) -> Iterator[Protein]:
    header, number, sequence = first_line, 1, list[str]()
    for at, line in chain(lines, [(0, ">")]):
        if not line.startswith(">"):
            sequence.append(line.strip())
            continue
        if (match := _HEADER.match(header)) is None:
            problem = f"{path} line {number:,}: not a header of UniProt"
            raise DocumentFormatError(problem, ">sp|ACCESSION|ENTRY Name OS=… GN=…")
        genes, organism, taxon = (match[name] or "" for name in ("genes", "organism", "taxon"))
        names = match["accession"], match["name"], match["entry"], tuple(genes.split())
        yield Protein(*names, organism, taxon, sequence="".join(sequence))
        header, number, sequence = line, at, []


def _table(path: Path, first_line: str, lines: Iterator[tuple[int, str]]) -> Iterator[Protein]:
    titles = [title.strip() for title in first_line.split("\t")]
    columns = {_UNIPROT.get(title, title): n for n, title in enumerate(titles)}
    if missing := [name for name in ("accession", "protein_name") if name not in columns]:
        problem = f"{path} line 1: no column {' or '.join(missing)}"
        raise DocumentFormatError(problem, "give a table of UniProt")
    names = ("organism", "taxon_id", "lineage", "sequence")
    for number, line in lines:
        values = line.split("\t")
        if line and len(values) != len(titles):
            problem = f"{path} line {number:,}: {len(values)} columns instead of {len(titles)}"
            raise DocumentFormatError(problem)
        if line:
            cells = {name: values[at].strip() for name, at in columns.items()}
            genes = tuple(cells.get("gene_names", "").replace(";", " ").split())
            head = cells["accession"], cells["protein_name"], cells.get("entry_name", "")
            yield Protein(*head, genes, *(cells.get(name, "") for name in names))


def function_classes(protein_name: str) -> tuple[str, ...]:
    """The classes of a protein with this name, one or several in a fixed order; `("other",)` where none fits."""
    return tuple(name for name, pattern in _PATTERNS.items() if pattern.search(protein_name)) or ("other",)


def _data_lines(name: str) -> list[str]:
    """The lines of a data file of this package without comments."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


# (?<!\s): the search tries a run of blanks once, not from each of its characters, so its time is linear.
_BRACKETS = re.compile(r"(?<!\s)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_VIRUS = re.compile(r"virus|phage\b|viroid|virinae|viridae", re.IGNORECASE)
_SPECIES_OF = {
    name: species
    for species, names in (line.split(": ") for line in _data_lines("species.txt"))
    for name in names.split(", ")
}
_GROUP_OF = {
    genus: group
    for group, genera in (line.split(":") for line in _data_lines("genera.txt"))
    for genus in genera.split()
}
_NO_STRAIN = {"strain", "isolate", "str", "subsp", "substr", "serovar"}
# Answers to QAProt's prompts that name no single organism.
NO_ORGANISM = {"", "all", "unknown", "not sure", "none", "multiple", "various"}

# The wider groups that contain a group, narrowest first.
WIDER = {"human": ("mammals", "vertebrates"), "mammals": ("vertebrates",), "birds": ("vertebrates",)}
_LINEAGE = (
    ("viruses", r"viruses|viroids"),
    ("archaea", r"archaea"),
    ("bacteria", r"bacteria"),
    ("mammals", r"mammalia"),
    ("birds", r"aves"),
    ("vertebrates", r"vertebrata|craniata"),
    ("invertebrates", r"metazoa"),
    ("fungi", r"fungi"),
    ("plants", r"viridiplantae|streptophyta"),
    ("protists", r"eukaryota"),
)
_ENDINGS = (
    ("archaea", re.compile(r"^methano(?!mo)|^halo(?:rubr|arch|coc)|^natr(?:on|ial)")),
    ("bacteria", re.compile(r"(bacter|bacterium|bacteroides|coccus|bacillus|vibrio|spira|spirillum)$")),
    ("bacteria", re.compile(r"(rhizobium|monas|nema|cystis|actinomyces|clostridium|toga|sulfur\w+)$")),
    ("fungi", re.compile(r"(myces|sporium|zyma)$")),
)


@lru_cache(maxsize=1 << 15)  # all 14,000 organisms of Swiss-Prot
def organism_key(organism: str) -> str:
    """The species in lower case: `escherichia coli` for `Escherichia coli (strain K12)`, `homo sapiens` for `Human`.

    A virus has its whole name without brackets; a species `sp.` the whole text, because only the strain identifies it.
    """
    plain = " ".join(_BRACKETS.sub("", organism).lower().split()).strip(" .")
    plain = _SPECIES_OF.get(plain, plain)
    if _VIRUS.search(plain):
        return plain
    words = plain.split()
    if len(words) > 1 and words[1].startswith("sp"):
        return " ".join(organism.lower().split()) if words[1] in ("sp", "sp.", "spp", "spp.") else plain
    return " ".join(words[1:3] if words[:1] == ["candidatus"] else words[:2])


def strain_words(organism: str) -> frozenset[str]:
    """Words after the species: strain, isolate or subspecies, without punctuation."""
    tail = " ".join(re.findall(r"[a-z0-9.-]+", organism.lower())[2:])
    words = (re.sub(r"[^a-z0-9]", "", word) for word in tail.split())
    return frozenset(word for word in words if word) - _NO_STRAIN


def taxon_groups(organism: str, lineage: str = "") -> tuple[str, ...]:
    """The narrowest group and the wider ones it is part of: human, mammals, vertebrates.

    The groups: human, mammals, birds, vertebrates (others), invertebrates, plants, fungi, protists, archaea, bacteria,
    viruses, or other.
    """
    group = _narrowest_group(organism, lineage)
    return (group, *WIDER.get(group, ()))


def _narrowest_group(organism: str, lineage: str) -> str:
    key = organism_key(organism)
    if key == "homo sapiens":
        return "human"
    for group, pattern in _LINEAGE:
        if lineage and re.search(rf"\b(?:{pattern})\b", lineage, re.IGNORECASE):
            return group
    if _VIRUS.search(organism):
        return "viruses"
    if "phytoplasma" in organism.lower():
        return "bacteria"
    genus = key.split()[0].strip("[]'\"") if key else ""
    by_ending = next((group for group, ending in _ENDINGS if ending.search(genus)), "other")
    return _GROUP_OF.get(genus, by_ending)


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
    """Protein entries, to be found by any of their names."""

    def __init__(self, proteins: Iterable[Protein]) -> None:
        self._withdrawn: set[str] = set()
        # For each entry its fields, joined by line ends (no field of a line-based file holds one), and a tuple with
        # name, taxon id and lineage of its organism, stored once per organism.
        self._rows, self._organisms = list[bytes](), list[tuple[str, str, str]]()
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
            head = protein.accession, protein.name, protein.entry_name
            self._rows.append("\n".join((*head, " ".join(protein.genes), protein.sequence)).encode())
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
                number = entries.popitem()[1]
                accession, title, entry_name, genes, sequence = self._rows[number].decode().split("\n")
                head = accession, title, entry_name, tuple(genes.split())
                return Mapped("mapped", Protein(*head, *self._organisms[number], sequence))
            if entries:
                return Mapped("ambiguous", candidates=tuple(sorted(entries)))
        return Mapped("homologue", candidates=candidates)

    def _by_accession(self, numbers: Iterable[int]) -> dict[str, int]:
        """The numbers of entries by accession; for a repeated accession the last entry."""
        return {self._rows[number].partition(b"\n")[0].decode(): number for number in numbers}

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


@lru_cache(maxsize=1 << 14)  # cached: homologues share a name
def _ways(name: str) -> tuple[str, ...]:
    return tuple(_fold(spelling) for spelling in spellings(name))


def _fold(name: str) -> str:
    return _JOINTS.sub(" ", name).strip().lower()
