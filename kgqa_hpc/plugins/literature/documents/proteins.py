"""Proteins of a Swiss-Prot file, and the functional classes that their names tell.

The file is FASTA as UniProt writes it, or a table (TSV) with its columns.

Of a table are read `accession`, `protein_name` and, where they are there, `entry_name`, `gene_names`,
`organism`, `taxon_id`, `lineage`, `sequence`; UniProt's own headings (`Entry`, `Protein names`, …) are
understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
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
    yield from (
        _fasta(path, first_line, lines) if first_line.startswith(">") else _table(path, first_line, lines)
    )


def _fasta(path: Path, first_line: str, lines: Iterator[tuple[int, str]]) -> Iterator[Protein]:
    header, number, sequence = first_line, 1, list[str]()
    for at, line in lines:
        if line.startswith(">"):
            yield _entry(path, number, header, sequence)
            header, number, sequence = line, at, []
        else:
            sequence.append(line.strip())
    yield _entry(path, number, header, sequence)


def _entry(path: Path, number: int, header: str, sequence: list[str]) -> Protein:
    match = _HEADER.match(header)
    if match is None:
        raise DocumentFormatError(
            f"{path} line {number:,}: not a header of UniProt", ">sp|ACCESSION|ENTRY Name OS=… GN=…"
        )
    return Protein(
        accession=match["accession"],
        name=match["name"],
        entry_name=match["entry"],
        genes=tuple((match["genes"] or "").split()),
        organism=match["organism"] or "",
        taxon_id=match["taxon"] or "",
        sequence="".join(sequence),
    )


def _table(path: Path, first_line: str, lines: Iterator[tuple[int, str]]) -> Iterator[Protein]:
    titles = [title.strip() for title in first_line.split("\t")]
    columns = {_UNIPROT.get(title, title): n for n, title in enumerate(titles)}
    if missing := [name for name in ("accession", "protein_name") if name not in columns]:
        raise DocumentFormatError(
            f"{path} line 1: no column {' or '.join(missing)}", "give a table of UniProt"
        )
    for number, line in lines:
        cells = line.split("\t")
        if line and len(cells) != len(titles):
            raise DocumentFormatError(
                f"{path} line {number:,}: {len(cells)} columns instead of {len(titles)}"
            )
        if line:
            yield _protein({name: cells[at].strip() for name, at in columns.items()})


def _protein(cells: dict[str, str]) -> Protein:
    return Protein(
        accession=cells["accession"],
        name=cells["protein_name"],
        entry_name=cells.get("entry_name", ""),
        genes=tuple(cells.get("gene_names", "").replace(";", " ").split()),
        organism=cells.get("organism", ""),
        taxon_id=cells.get("taxon_id", ""),
        lineage=cells.get("lineage", ""),
        sequence=cells.get("sequence", ""),
    )


def function_classes(protein_name: str) -> tuple[str, ...]:
    """The classes of a protein with this name, one or several in a fixed order; `("other",)` where none fits."""
    return tuple(name for name, pattern in _PATTERNS.items() if pattern.search(protein_name)) or ("other",)
