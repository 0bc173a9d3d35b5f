"""Names of proteins and genes, as people write them, and which of them can be looked for in text.

A name is a **word** or phrase (`large T antigen`, `Catalase`: any case), a symbol with a digit (`TP53`,
`IL-1β`: any case, `p53` is `P53`), or a symbol of letters (`CAT`, `recA`: this case, and `RecA` for
`recA`). Too short ones, bare numbers, and words of the language are not looked for: `T` and `was` would be
found everywhere. Each is looked for in all its spellings (spellings.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.spellings import spellings
from kgqa_hpc.plugins.literature.documents.stop_words import is_stop_word
from kgqa_hpc.text.streams import text_lines

# Of HGNC's table and of UniProt's; how each column holds its names.
_WHOLE, _BLANKS, _COMMAS, _BARS = None, r"\s+", r"\s*,\s*", r"\s*\|\s*"
COLUMNS = {
    "protein_name": _WHOLE,
    "gene_names": _BLANKS,
    "symbol": _WHOLE,
    "name": _WHOLE,
    "alias_symbols": _COMMAS,
    "previous_symbols": _COMMAS,
    "alias_symbol": _BARS,
    "prev_symbol": _BARS,
}
SHORTEST = 3
LONGEST = 300
_ONE_AND_A_WORD = re.compile(r"[a-zA-Z]-[A-Z][a-z]{2,}")


class Case(Enum):
    """Case rule of a name: exactly as written, or in any case."""

    EXACT = "exact"
    ANY = "any"


@dataclass
class NameCounts:
    """`read = kept + dropped`, distinct names each."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


def read_names(path: Path) -> Iterator[str]:
    """The names of a table (TSV with a header, plain or gzip), as they come.

    Columns that hold names: `protein_name` (whole) and `gene_names` (split at blanks), or HGNC's.
    Raises DocumentFormatError.
    """
    lines = text_lines(path, DocumentFormatError)
    _, header = next(lines, (1, ""))
    columns = [
        (n, COLUMNS[title.strip()]) for n, title in enumerate(header.split("\t")) if title.strip() in COLUMNS
    ]
    if not columns:
        raise DocumentFormatError(
            f"{path} line 1: no column of names", f"name one of them {' or '.join(list(COLUMNS)[:2])}"
        )
    for _, line in lines:
        cells = line.split("\t")
        for number, split in columns:
            if number < len(cells) and cells[number].strip():
                yield from _split(cells[number].strip(), split)


def searchable_names(
    names: Iterable[str], shortest: int = SHORTEST, counts: NameCounts | None = None
) -> dict[str, Case]:
    """The spellings of all names that are searched for, with their case rule."""
    counts = counts if counts is not None else NameCounts()
    cases: dict[str, Case] = {}
    for name in dict.fromkeys(names):
        counts.read += 1
        if reason := reason_to_drop(name, shortest):
            counts.dropped[reason] += 1
            continue
        counts.kept += 1
        for spelling in spellings(name):
            if reason_to_drop(spelling, shortest) is None:
                cases.setdefault(spelling, case_of(spelling))
    return cases


def reason_to_drop(name: str, shortest: int = SHORTEST) -> str | None:
    """Reason why a name is not searched for: `too short`, `too long`, `number`, `stop word`; None if it is."""
    letters = sum(c.isalnum() for c in name)
    if letters < shortest:
        return "too short"
    if len(name) > LONGEST:
        return "too long"
    if not any(c.isalpha() for c in name):
        return "number"
    return "stop word" if is_stop_word(name) else None


def case_of(name: str) -> Case:
    """Words, phrases, symbols with a digit, `c-Myc`: any case; symbols of letters alone: as they stand."""
    if any(c.isdigit() for c in name) or len(name.split()) > 1 or _ONE_AND_A_WORD.fullmatch(name):
        return Case.ANY
    word = name.isalpha() and len(name) >= 5 and name[1:].islower()
    return Case.ANY if word or (not name.isalpha() and len(name) >= 8) else Case.EXACT


def _split(text: str, pattern: str | None) -> list[str]:
    if pattern is None:
        return [text]
    return [name for part in re.split(pattern, text) if (name := part.strip(";,"))]
