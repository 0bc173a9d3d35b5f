"""Names of proteins and genes, as people write them, and which of them can be looked for in text.

A name is a **word** or phrase (`large T antigen`, `Catalase`: any case), a symbol with a digit (`TP53`,
`IL-1β`: any case, `p53` is `P53`), or a symbol of letters (`CAT`, `recA`: this case, and `RecA` for
`recA`). Too short ones, bare numbers, and words of the language are not looked for: `T` and `was` would be
found everywhere. Names with Greek letters are looked for in both spellings (`TNF-α`, `TNF-alpha`).
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from kgqa_hpc.documents.stop_words import is_stop_word
from kgqa_hpc.documents.xml import open_bytes
from kgqa_hpc.errors import DocumentFormatError

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
_GREEK = dict(
    zip(
        (
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "zeta",
            "eta",
            "theta",
            "kappa",
            "lambda",
            "mu",
            "omega",
        ),
        "αβγδεζηθκλμω",
        strict=True,
    )
)
_WORDS_OF_GREEK = "|".join(_GREEK)
_LETTERS = "".join(_GREEK.values())
# A capital or a digit may stand right beside it: `NF-kappaB`, `IFNalpha2`; a small letter makes another word.
_SPELT = re.compile(rf"(?<![a-z])(?i:{_WORDS_OF_GREEK})(?![a-z])")
_JOINED_SPELT = re.compile(rf"(?<=\w)[ -]((?i:{_WORDS_OF_GREEK}))(?![a-z])")
_LETTER = re.compile(f"[{_LETTERS}]")
_JOINED_LETTER = re.compile(rf"(?<=\w)[{_LETTERS}]")
# `NF-κ-B`, as UniProt's `NF-kappa-B` becomes, is written `NF-κB`.
_LETTER_JOINED = re.compile(rf"([{_LETTERS}])-(?=[A-Z0-9]\b)")
_FIELD_BYTES = 16 << 20


class Case(Enum):
    """How a name may be written: as it stands, or in any case."""

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
    if not path.is_file():
        raise DocumentFormatError(f"{path}: no such file")
    csv.field_size_limit(_FIELD_BYTES)
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        rows = csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
        try:
            header = next(rows, [])
            columns = [
                (n, COLUMNS[title.strip()]) for n, title in enumerate(header) if title.strip() in COLUMNS
            ]
            if not columns:
                raise DocumentFormatError(
                    f"{path} line 1: no column of names", f"name one of them {' or '.join(list(COLUMNS)[:2])}"
                )
            for row in rows:
                for number, split in columns:
                    if number < len(row) and row[number].strip():
                        yield from _split(row[number].strip(), split)
        except (csv.Error, UnicodeDecodeError) as problem:
            raise DocumentFormatError(f"{path} line {rows.line_num + 1:,}: {problem}") from None


def searchable_names(
    names: Iterable[str], shortest: int = SHORTEST, counts: NameCounts | None = None
) -> dict[str, Case]:
    """The names worth looking for, with their spellings, and how each may be written."""
    counts = counts if counts is not None else NameCounts()
    kept: dict[str, Case] = {}
    for name in dict.fromkeys(names):
        counts.read += 1
        if reason := reason_to_drop(name, shortest):
            counts.dropped[reason] += 1
            continue
        counts.kept += 1
        for spelling in spellings(name):
            if reason_to_drop(spelling, shortest) is None:
                kept.setdefault(spelling, case_of(spelling))
    return kept


def reason_to_drop(name: str, shortest: int = SHORTEST) -> str | None:
    """Why a name is not looked for: `too short`, `too long`, `number`, `stop word`; None: it is."""
    letters = sum(c.isalnum() for c in name)
    if letters < shortest:
        return "too short"
    if len(name) > LONGEST:
        return "too long"
    if not any(c.isalpha() for c in name):
        return "number"
    return "stop word" if is_stop_word(name) else None


def case_of(name: str) -> Case:
    """Words, phrases and symbols with a digit: any case; symbols of letters alone: as they stand."""
    if any(c.isdigit() for c in name) or len(name.split()) > 1:
        return Case.ANY
    word = name.isalpha() and len(name) >= 5 and name[1:].islower()
    return Case.ANY if word or (not name.isalpha() and len(name) >= 8) else Case.EXACT


def spellings(name: str) -> list[str]:
    """The name, its Greek letters spelt out and written as letters, and `RecA` for `recA`.

    `IL-1β` is also `IL-1beta` and `IL-1-beta`, `Insulin beta` also `Insulin β` and `Insulinβ`.
    """
    found = [name]
    found += [_SPELT.sub(lambda match: _GREEK[match[0].lower()], text) for text in (name, _unjoined(name))]
    found += [_LETTER_JOINED.sub(r"\1", text) for text in found]
    found += [_LETTER.sub(lambda match: _NAME_OF[match[0]], text) for text in (name, _joined(name))]
    if name.isalpha() and name[0].islower() and not name.islower():
        found.append(name[0].upper() + name[1:])
    return list(dict.fromkeys(found))


def _unjoined(name: str) -> str:
    """`IL-1beta` for `IL-1-beta`."""
    return _JOINED_SPELT.sub(r"\1", name)


def _joined(name: str) -> str:
    """`IL-1-β` for `IL-1β`."""
    return _JOINED_LETTER.sub(r"-\g<0>", name)


_NAME_OF = {letter: word for word, letter in _GREEK.items()}


def _split(text: str, pattern: str | None) -> list[str]:
    if pattern is None:
        return [text]
    return [name for part in re.split(pattern, text) if (name := part.strip(";,"))]
