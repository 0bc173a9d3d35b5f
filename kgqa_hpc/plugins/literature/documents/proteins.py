"""Proteins of a Swiss-Prot file, and the functional classes that their names tell.

The file is FASTA as UniProt writes it, or a table (TSV) with its columns.

Of a table are read `accession`, `protein_name` and, where they are there, `entry_name`, `gene_names`,
`organism`, `taxon_id`, `lineage`, `sequence`; UniProt's own headings (`Entry`, `Protein names`, …) are
understood.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
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
_RULES = {
    "kinase": rf"kinase\b{_ABOUT}",
    "transmembrane": (
        r"\b(?:transmembrane|receptor|channel|transporter|permease|symporter|antiporter|exchanger|porin"
        r"|aquaporin|uniporter|cadherin|integrin|claudin|tetraspanin|connexin|innexin|secy|membrane protein"
        rf"|efflux pump|multidrug resistance protein)\b{_ABOUT}"
    ),
    "structural": (
        r"\b(?:collagen|keratin|actin|tubulin|laminin|elastin|myosin|crystallin|fibrillin|vimentin|desmin|lamin"
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
        raise DocumentFormatError(
            f"{path} line 1: no column {' or '.join(missing)}", "give a table of UniProt"
        )
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
