"""Comparison of a run's judges, or of columns of labels, without human ratings: counts, confusion, agreement.

Verdicts take one byte each in memory, so a million records fit. Columns of labels name the same property in two
ways, such as the type of a question by rule and by a judge; a record without a label in a column is counted as
missing there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import COEFFICIENTS, MISSING, Votes, agreement_table
from kgqa_hpc.plugins.evaluation.bootstrap import interval_text
from kgqa_hpc.plugins.evaluation.judged import wilson
from kgqa_hpc.plugins.evaluation.panel import Codes, confusion, decides_alone, rules
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.evaluation.verdicts import opinion


def panel_table(source: Path, *, seed: int = 0) -> dict[str, Any]:
    """For a merged run or a file of records: acceptance of each judge; for several judges also acceptance of each
    rule, confusion, lone decisions and agreement.

    Raises InputError when no record has a vote.
    """
    votes, judges = read_votes(source)
    several = len(judges) > 1
    return {
        "records": len(votes),
        "judges": {name: _row(votes[:, j]) for j, name in enumerate(judges)},
        "rules": {rule: _row(decision) for rule, decision in rules(votes).items()} if several else {},
        "confusion": confusion(votes, judges),
        "alone": decides_alone(votes, judges),
        "agreement": agreement_table(Votes(votes, judges, (False, True)), seed=seed) if several else None,
    }


def render(document: dict[str, Any]) -> str:
    """The table as text."""
    lines = [
        f"{document['records']:,} records",
        "",
        f"{'judge or rule':<30}{'accepted':>10}{'rejected':>10}{'missing':>9}  share",
    ]
    for name, entry in {**document["judges"], **document["rules"]}.items():
        counts = f"{entry['accepted']:>10,}{entry['rejected']:>10,}{entry['missing']:>9,}"
        lines.append(f"{name[:29]:<30}{counts}  {interval_text(entry['share'])}")
    lines += [
        f"{' and '.join(entry['judges'])}: both accept {entry['both']:,}, only the first {entry['only_first']:,}, "
        f"only the second {entry['only_second']:,}, neither {entry['neither']:,}, no two votes {entry['missing']:,}"
        for entry in document["confusion"]
    ]
    if document["agreement"] is not None:
        lines += [
            f"{name}: alone rejects {entry['rejects_alone']:,}, alone accepts {entry['accepts_alone']:,}"
            for name, entry in document["alone"].items()
        ]
        lines += _coefficients(document["agreement"])
    return "\n".join(lines)


def _coefficients(agreement: dict[str, Any]) -> list[str]:
    """A line for each coefficient of `agreement_table`, and for Cohen's kappa of every two."""
    lines = [f"{words}: {interval_text(agreement[key])}" for key, words in COEFFICIENTS.items()]
    pairs = agreement["cohen_kappa"]
    return lines + [
        f"Cohen's kappa of {' and '.join(pair['judges'])}: {interval_text(pair)}" for pair in pairs
    ]


def read_votes(source: Path) -> tuple[Codes, tuple[str, ...]]:
    """Votes (records, judges) of a source; judges in the order they first occur."""
    positions: dict[str, int] = {}
    columns: list[bytearray] = []
    read = 0
    for record in records(source):
        for name, verdict in (record.get("verdicts") or {}).items():
            vote = opinion(verdict).vote
            if vote is None:
                continue
            position = positions.setdefault(name, len(positions))
            if position == len(columns):
                columns.append(bytearray())
            columns[position].extend(b"\x02" * (read - len(columns[position])))
            columns[position].append(int(vote))
        read += 1
    if not columns:
        raise InputError(
            f"{source}: no record has a judge's vote", "verdicts hold booleans under a judge's name"
        )
    table = [np.frombuffer(bytes(column.ljust(read, b"\x02")), dtype=np.uint8) for column in columns]
    codes = np.stack(table, axis=1).astype(np.int64)
    return np.where(codes == 2, MISSING, codes), tuple(positions)


def _row(decision: Codes) -> dict[str, Any]:
    accepted, voted = int((decision == 1).sum()), int((decision != MISSING).sum())
    return {
        "accepted": accepted,
        "rejected": voted - accepted,
        "missing": len(decision) - voted,
        "share": wilson(accepted, voted).to_dict(),
    }


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
        "confusion": [_label_confusion(votes, a, b) for a, b in combinations(range(len(columns)), 2)],
        "agreement": agreement_table(votes, seed=seed),
    }


def render_labels(document: dict[str, Any]) -> str:
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
    return "\n".join([*lines, "", *_coefficients(document["agreement"])])


def _counted(votes: Votes, column: int) -> dict[str, Any]:
    counts = Counter(votes.codes[:, column].tolist())
    return {
        "labels": {label: counts[code] for code, label in enumerate(votes.categories)},
        "missing": counts[MISSING],
    }


def _label_confusion(votes: Votes, first: int, second: int) -> dict[str, Any]:
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
