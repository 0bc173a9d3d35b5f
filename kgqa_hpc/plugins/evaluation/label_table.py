"""Comparison of several label columns: counts of each label, confusion of every two columns, and agreement.

For columns that label the same property in two ways, such as the type of a question by rule and by a judge. A record
without a label in a column is counted as missing there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import MISSING, Votes, agreement_table
from kgqa_hpc.plugins.evaluation.panel_table import coefficients
from kgqa_hpc.plugins.evaluation.records import records


def label_table(source: Path, columns: Sequence[str], *, seed: int = 0) -> dict[str, Any]:
    """For a merged run or a file of records: labels by column, confusion of every two columns, and agreement.

    Raises InputError for fewer than two different columns, and for one that no record has a label in.
    """
    columns = list(dict.fromkeys(columns))
    if len(columns) < 2:
        raise InputError(f"--column {columns[0]}: one column", "name two or more that are to be compared")
    rows = [[record.get(column) for column in columns] for record in records(source)]
    for index, column in enumerate(columns):
        if all(row[index] is None for row in rows):
            raise InputError(f"{source}: no record has a label in {column}", "name a column of its records")
    labels = sorted({str(label) for row in rows for label in row if label is not None})
    number = {label: code for code, label in enumerate(labels)}
    codes = [[MISSING if label is None else number[str(label)] for label in row] for row in rows]
    votes = Votes(np.array(codes, dtype=np.int64), tuple(columns), tuple(labels))
    return {
        "records": len(rows),
        "labels": labels,
        "columns": {column: _counted(votes, index) for index, column in enumerate(columns)},
        "confusion": [_confusion(votes, a, b) for a, b in combinations(range(len(columns)), 2)],
        "agreement": agreement_table(votes, seed=seed),
    }


def render(document: dict[str, Any]) -> str:
    """The comparison as text; the rows of a confusion table are the labels of the first column."""
    labels, columns = document["labels"], document["columns"]
    rows = [[label, *(entry["labels"][label] for entry in columns.values())] for label in labels]
    missing = ["missing", *(entry["missing"] for entry in columns.values())]
    lines = [f"{document['records']:,} records", "", *_aligned([["label", *columns], *rows, missing])]
    for entry in document["confusion"]:
        first, second = entry["columns"]
        rows = [
            [label, *(entry["counts"][label][second_label] for second_label in labels)] for label in labels
        ]
        lines += ["", f"rows {first}, columns {second}; {entry['missing']:,} without two labels"]
        lines += _aligned([["", *labels], *rows])
    return "\n".join([*lines, "", *coefficients(document["agreement"])])


def _counted(votes: Votes, column: int) -> dict[str, Any]:
    counts = Counter(votes.codes[:, column].tolist())
    return {
        "labels": {label: counts[code] for code, label in enumerate(votes.categories)},
        "missing": counts[MISSING],
    }


def _confusion(votes: Votes, first: int, second: int) -> dict[str, Any]:
    counts = Counter(zip(votes.codes[:, first].tolist(), votes.codes[:, second].tolist(), strict=True))
    names = list(enumerate(votes.categories))
    return {
        "columns": [votes.judges[first], votes.judges[second]],
        "counts": {label: {second_label: counts[a, b] for b, second_label in names} for a, label in names},
        "missing": sum(n for pair, n in counts.items() if MISSING in pair),
    }


def _aligned(rows: Sequence[Sequence[Any]]) -> list[str]:
    """The rows as aligned lines of text; the first column is left-aligned."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in texts
    ]
