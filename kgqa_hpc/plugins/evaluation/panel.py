"""A panel of several judges: decision rules, confusion between judges, lone dissenters, and their tables.

A verdict is 1 (holds), 0 (does not) or -1 (missing). A rule decides only items that every judge of the panel has voted
on; an item with a missing verdict stays -1 and is counted. Tables compare a run's judges, or columns of labels that
name the same property (the type of a question by rule and by a judge), without human ratings.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import (
    COEFFICIENTS,
    MISSING,
    Codes,
    Votes,
    agreement_table,
    make_votes,
)
from kgqa_hpc.plugins.evaluation.bootstrap import Floats, interval_text
from kgqa_hpc.plugins.evaluation.judged import wilson
from kgqa_hpc.plugins.evaluation.records import read_votes, records
from kgqa_hpc.text.plain_text import aligned

LEAST = 0.01


def weighted(verdicts: Codes, weights: Floats) -> Codes:
    """Accept where the `weights` (judges,) of those that accept are half of all or more, as a run decides.

    `verdicts` (items, judges) → (items,).
    """
    full = (verdicts != MISSING).all(axis=1)
    accepted = (verdicts == 1) @ weights >= weights.sum() / 2
    return np.where(full, accepted, MISSING).astype(np.int64)


def rules(verdicts: Codes) -> dict[str, Codes]:
    """Decisions of all rules without weights, by name: `all`, `majority` and every other `k of n`."""
    n = verdicts.shape[1]
    half = n // 2 + 1  # a tie is not a majority
    needed = {"all": n, "majority": half, **{f"{k} of {n}": k for k in range(1, n) if k != half}}
    full, accepted = (verdicts != MISSING).all(axis=1), (verdicts == 1).sum(axis=1)
    return {name: np.where(full, accepted >= k, MISSING).astype(np.int64) for name, k in needed.items()}


def log_odds_weights(verdicts: Codes, truth: NDArray[np.bool_]) -> Floats:
    """Weight of each judge: the log odds that it is right, with one success and one failure added.

    The optimal weights of independent judges (Nitzan and Paroush 1982). Missing verdicts are left out. A judge
    that is no better than chance gets LEAST.
    """
    voted = verdicts != MISSING
    right = ((verdicts == 1) == truth[:, None]) & voted
    hits, size = right.sum(axis=0) + 1.0, voted.sum(axis=0) + 2.0
    return np.maximum(np.log(hits / (size - hits)), LEAST)


def confusion(verdicts: Codes, judges: Sequence[str]) -> list[dict[str, Any]]:
    """For every pair of judges the number of items that both, one or neither accepts, or that lack a verdict."""
    cells = {"both": (1, 1), "only_first": (1, 0), "only_second": (0, 1), "neither": (0, 0)}
    rows: list[dict[str, Any]] = []
    for a, b in combinations(range(len(judges)), 2):
        counts = {name: int((verdicts[:, [a, b]] == pair).all(axis=1).sum()) for name, pair in cells.items()}
        missing = len(verdicts) - sum(counts.values())
        rows.append({"judges": [judges[a], judges[b]], **counts, "missing": missing})
    return rows


def decides_alone(verdicts: Codes, judges: Sequence[str]) -> dict[str, dict[str, int]]:
    """Number of items that each judge alone rejects, and that it alone accepts.

    Under the rule `all` a judge's lone rejections are the items that it alone removes; under `1 of n` its lone
    acceptances are those that it alone keeps. Counted over items with all verdicts, in panels of two or more.
    """
    n = len(judges)
    full = verdicts[(verdicts != MISSING).all(axis=1)] if n > 1 else verdicts[:0]
    accepted = full.sum(axis=1)
    return {
        name: {
            "rejects_alone": int(((full[:, j] == 0) & (accepted == n - 1)).sum()),
            "accepts_alone": int(((full[:, j] == 1) & (accepted == 1)).sum()),
        }
        for j, name in enumerate(judges)
    }


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
    rows = []
    for name, entry in {**document["judges"], **document["rules"]}.items():
        counts = (f"{entry[key]:,}" for key in ("accepted", "rejected", "missing"))
        rows.append((name, *counts, interval_text(entry["share"])))
    head = ("judge or rule", "accepted", "rejected", "missing", "share")
    lines = [f"{document['records']:,} records", "", *aligned([head, *rows])]
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
    rows = [
        [None if record.get(column) is None else str(record[column]) for column in columns]
        for record in records(source)
    ]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    for column in columns:
        if table[column].isna().all():
            raise InputError(f"{source}: no record has a label in {column}", "name a column of its records")
    votes = make_votes(rows, columns)
    labels = list(votes.categories)
    counted, confused = {}, []
    for column in columns:
        counts = table[column].value_counts().reindex(labels, fill_value=0)
        counted[column] = {"labels": counts.to_dict(), "missing": int(table[column].isna().sum())}
    for a, b in combinations(columns, 2):
        both = pd.crosstab(table[a], table[b]).reindex(labels, columns=labels, fill_value=0)
        missing = len(rows) - int(both.to_numpy().sum())
        confused.append({"columns": [a, b], "counts": both.to_dict("index"), "missing": missing})
    return {
        "records": len(rows),
        "labels": labels,
        "columns": counted,
        "confusion": confused,
        "agreement": agreement_table(votes, seed=seed),
    }


def render_labels(document: dict[str, Any]) -> str:
    """The comparison as text; the rows of a confusion table are the labels of the first column."""
    labels, columns = document["labels"], document["columns"]
    rows = [[label, *(entry["labels"][label] for entry in columns.values())] for label in labels]
    missing = ["missing", *(entry["missing"] for entry in columns.values())]
    lines = [f"{document['records']:,} records", "", *aligned([["label", *columns], *rows, missing])]
    for entry in document["confusion"]:
        rows = [[label, *counts.values()] for label, counts in entry["counts"].items()]
        between = "rows {}, columns {}".format(*entry["columns"])
        lines += ["", f"{between}; {entry['missing']:,} without two labels"]
        lines += aligned([["", *labels], *rows])
    return "\n".join([*lines, "", *_coefficients(document["agreement"])])
