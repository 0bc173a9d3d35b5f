"""Pairs, proteins, names and mean lengths of datasets about proteins, one column each: `kgqa proteins RUN…`.

The rows are those of QAProt's Table 1 (lengths in words, sequences in residues) and Table 6 (lengths in characters;
full texts beside abstracts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors.records import read_records
from kgqa_hpc.errors import InputError

ROWS = {
    "pairs": "question-answer pairs",
    "documents": "documents",
    "proteins": "proteins, over documents",
    "names": "unique protein names",
    "accessions": "unique accessions",
    "questions": "unique questions",
    "question_words": "mean words of a question",
    "answer_words": "mean words of an answer",
    "question_characters": "mean characters of a question",
    "answer_characters": "mean characters of an answer",
    "residues": "mean residues of a sequence",
}


def protein_table(sources: Iterable[Path]) -> dict[str, dict[str, float | None]]:
    """The rows of each source, a merged run or a file of records; rejected records are left out.

    A mean is None where no record has such a text. Raises InputError for a source without accepted pairs.
    """
    return {str(source): _column(source) for source in sources}


def _column(source: Path) -> dict[str, float | None]:
    pairs = 0
    sets: dict[str, set[Any]] = {
        name: set() for name in ("documents", "proteins", "names", "accessions", "questions")
    }
    lengths = {name: [0, 0] for name in list(ROWS)[6:]}  # sum, number
    for record in read_records(source):
        if record.get("accepted", True):
            pairs += 1
            for name, value in _members(record):
                sets[name].add(value)
            for name, value in _lengths(record):
                lengths[name][0] += value
                lengths[name][1] += 1
    if not pairs:
        raise InputError(f"{source}: has no accepted pair", "name a merged literature run")
    means = {name: round(total / number, 2) if number else None for name, (total, number) in lengths.items()}
    return {"pairs": pairs, **{name: len(values) for name, values in sets.items()}, **means}


def _members(record: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    document, protein = record.get("document_id"), record.get("protein")
    if document:
        yield "documents", document
    if protein:
        yield "proteins", (document, protein.casefold())
        yield "names", protein.casefold()
    if record.get("accession"):
        yield "accessions", record["accession"]
    yield "questions", _with_names(record, "question").casefold()


def _lengths(record: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    for name in ("question", "answer"):
        text = _with_names(record, name)
        yield f"{name}_words", len(text.split())
        yield f"{name}_characters", len(text)
    if record.get("sequence"):
        yield "residues", len(record["sequence"])


def _with_names(record: Mapping[str, Any], name: str) -> str:
    return str(record.get(f"{name}_with_names") or record[name])


def render(table: Mapping[str, Mapping[str, float | None]]) -> str:
    """A table of Markdown, one column a source."""
    lines = [f"| | {' | '.join(table)} |", "|---" * (len(table) + 1) + "|"]
    for name, words in ROWS.items():
        cells = ("" if column[name] is None else f"{column[name]:,}" for column in table.values())
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)
