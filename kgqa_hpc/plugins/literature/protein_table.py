"""Pairs, proteins, names and mean lengths of datasets about proteins, one column each: `kgqa proteins RUN…`.

The rows are those of QAProt's Table 1 (lengths in words, sequences in residues) and Table 6 (lengths in characters;
full texts beside abstracts).
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

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
    result: dict[str, dict[str, float | None]] = {}
    for source in sources:
        pairs = [_facts(record) for record in read_records(source) if record.get("accepted", True)]
        if not pairs:
            raise InputError(f"{source}: has no accepted pair", "name a merged literature run")
        table, names = pd.DataFrame(pairs), list(ROWS)
        column = result[str(source)] = {"pairs": len(table)}
        column |= {name: int(table[name].nunique()) for name in names[1:6]}
        means = {name: round(float(table[name].mean()), 2) for name in names[6:]}
        column |= {name: None if math.isnan(mean) else mean for name, mean in means.items()}
    return result


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a pair for each row of the table but the first; None or NaN where it has none."""
    question, answer = (
        str(record.get(f"{name}_with_names") or record[name]) for name in ("question", "answer")
    )
    document, protein = record.get("document_id") or None, (record.get("protein") or "").casefold() or None
    return {
        "documents": document,
        "proteins": protein and (document, protein),
        "names": protein,
        "accessions": record.get("accession") or None,
        "questions": question.casefold(),
        "question_words": len(question.split()),
        "answer_words": len(answer.split()),
        "question_characters": len(question),
        "answer_characters": len(answer),
        "residues": len(record.get("sequence") or "") or math.nan,
    }


def render(table: Mapping[str, Mapping[str, float | None]]) -> str:
    """A table of Markdown, one column a source."""
    lines = [f"| | {' | '.join(table)} |", "|---" * (len(table) + 1) + "|"]
    for name, words in ROWS.items():
        cells = ("" if column[name] is None else f"{column[name]:,}" for column in table.values())
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)
