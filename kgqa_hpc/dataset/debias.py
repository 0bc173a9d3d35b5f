"""Balanced sampling: a smaller dataset in which rare values are as frequent as possible (QAProt, Algorithm 1).

The weight of a record is the product, over the chosen columns, of 1 / (number of records with its value). Records are
drawn by weight without replacement, by exponential keys (Efraimidis and Spirakis, 2006). A record's key depends on
the seed and its id alone, so the draw does not depend on the order of records.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from math import log
from typing import Any

import numpy as np
import orjson

from kgqa_hpc.config.dataset import Debias
from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.errors import InputError

SHOWN = 20  # values per column in the accounting
Table = dict[str, dict[str, int]]


def left_out(candidates: Candidates, settings: Debias, seed: int) -> tuple[np.ndarray, Table, Table]:
    """Row numbers of the accepted records that were not drawn, and the most frequent values before and after.

    Raises InputError when records have no such column.
    """
    accepted = candidates.accepted
    values: list[list[str]] = [[] for _ in settings.columns]
    ids: list[str] = []
    for _, record in candidates.staged.records(accepted):
        ids.append(record["id"])
        for column, column_values in zip(settings.columns, values, strict=True):
            column_values.append(_value(record, column))
    counts = [Counter(column) for column in values]
    keys = [
        -log(_uniform(seed, record_id)) * float(np.prod([c[v] for c, v in zip(counts, row, strict=True)]))
        for record_id, *row in zip(ids, *values, strict=True)
    ]
    order = np.argsort(np.array(keys), kind="stable")
    drawn = np.sort(order[: settings.number])
    after = [Counter(column[i] for i in drawn.tolist()) for column in values]
    names = settings.columns
    return (
        accepted[np.sort(order[settings.number :])],
        _table(names, counts, counts),
        _table(names, after, counts),
    )


def _value(record: dict[str, Any], column: str) -> str:
    value: Any = record
    for part in column.split("."):
        if not isinstance(value, dict) or part not in value:
            raise InputError(
                f"dataset.debias.columns: {record['id']} has no column {column!r}",
                f"its columns: {', '.join(record)}",
            )
        value = value[part]
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _uniform(seed: int, record: str) -> float:
    """A number in (0, 1) from the seed and an id."""
    digest = hashlib.blake2b(f"{seed}/debias/{record}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


def _table(names: list[str], counts: list[Counter[str]], order: list[Counter[str]]) -> Table:
    return {
        name: {
            value: count[value]
            for value, _ in sorted(by.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN]
        }
        for name, count, by in zip(names, counts, order, strict=True)
    }
