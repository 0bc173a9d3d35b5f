"""Proteins of a Swiss-Prot file with their functional classes, and the species and groups of organisms' names.

The file is FASTA as UniProt writes it, or a table (TSV) with the columns `accession`, `protein_name` and optionally
`entry_name`, `gene_names`, `organism`, `taxon_id`, `lineage`, `sequence`, or with UniProt's own headings (`Entry`,
`Protein names`, …).

The groups of organisms are those of QAProt's Table 4 (human, mammals, birds, vertebrates, bacteria, archaea) and the
remaining ones. A given lineage decides; else the genus does, by a list of the most frequent genera of Swiss-Prot and by
the usual endings of bacteria, archaea and fungi. An unknown organism is `other`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path

from kgqa_hpc.errors import DocumentFormatError
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

# The functional classes of QAProt. A name says little, so the rules are narrow: what is about a kinase
# (`… kinase inhibitor`) is none. Others are `enzyme` by the ending of a word, or `other`.
_ABOUT = (
    r"(?!s?[ -](?:inhibitor|substrate|interacting|binding|associated|anchor|activator|regulat|scaffold|like))"
)
# Receptors within the cell, and kinases that are no receptors
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


# (?<!\s): a run of blanks is looked at once, not from each of its characters.
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
# Words for no single organism (answers of QAProt's prompts).
NO_ORGANISM = {"", "all", "unknown", "not sure", "none", "multiple", "various"}

# Narrower groups first; each is part of the wider ones after it.
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


@lru_cache(maxsize=1 << 15)  # Swiss-Prot has 14,000 organisms
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
