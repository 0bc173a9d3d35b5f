"""Accepted records divided into parts that share nothing, so that a model never sees a test item's evidence.

Records that share a value of what is divided by belong together: by `nodes`, all records connected through
shared nodes; by `sequence_cluster`, all whose sequences are similar; by a column, all with the same value.
Such a group goes whole to one part. Groups are placed largest first, equal ones in a seeded order, each where
the part's share is least filled. One group may be larger than any part should be (nodes often connect most of
a dataset): then the shares cannot be met, and the accounting says so.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kgqa_hpc.config.dataset import Split
from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.errors import InputError
from kgqa_hpc.registry import Registry

# Functions from sequences to clusters of similar ones (`labels`, `method`), by the name in `split.by`.
CLUSTERINGS = Registry("clusterings", "clustering", {})
NODES = "nodes"
SEQUENCE, SEQUENCE_CLUSTER = "sequence", "sequence_cluster"


def divide(candidates: Candidates, split: Split | None, seed: int) -> dict[str, Any]:
    """Give every accepted row its part (column `part`, `candidates.parts`); returns the accounting of the split.

    Raises InputError when records have no such column, KgqaError when MMseqs2 fails.
    """
    if split is None:
        return {}
    rows = candidates.accepted
    by_similarity = split.by == SEQUENCE_CLUSTER
    values, method = _values(candidates, rows, SEQUENCE if by_similarity else split.by), {}
    if by_similarity:
        values, method["method"] = _clustered(values)
    group = _connected(len(rows), values)
    part_of_group = _place(group, list(split.shares.values()), seed)
    part = part_of_group[group]
    candidates.parts = tuple(split.shares)
    _save(candidates, rows, part)
    return (
        _describe(split, values, group, part) | {"repeated_questions": _repeated(candidates, rows)} | method
    )


class _Values:
    """What each accepted record must not share with another part: pairs of a record's number and a value's number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.records = array("q")
        self.values = array("q")

    def add(self, record: int, values: Iterable[str]) -> None:
        for value in values:
            self.records.append(record)
            self.values.append(self.numbers.setdefault(value, len(self.numbers)))


def _values(candidates: Candidates, rows: np.ndarray, by: str) -> _Values:
    found = _Values()
    for number, (_, record) in enumerate(candidates.staged.records(rows)):
        if by not in record:
            known = ", ".join(name for name in record if name not in ("question", "answer"))
            raise InputError(
                f"dataset.split.by: {record['id']} has no column {by!r}", f"its columns: {known}"
            )
        found.add(number, _texts(record[by], by))
    return found


def _texts(value: Any, by: str) -> list[str]:
    if by == NODES:
        return [node["id"] for node in value or ()]
    return [orjson.dumps(part).decode() for part in (value if isinstance(value, list) else [value])]


def _clustered(sequences: _Values) -> tuple[_Values, str]:
    """The cluster of each record's sequence instead of the sequence, and how the clusters were made."""
    texts = sorted(sequences.numbers)
    clusters = CLUSTERINGS.get(SEQUENCE_CLUSTER)([orjson.loads(text) or "" for text in texts])
    label = {sequences.numbers[text]: str(one) for text, one in zip(texts, clusters.labels, strict=True)}
    found = _Values()
    for record, value in zip(sequences.records, sequences.values, strict=True):
        found.add(record, [label[value]])
    return found, clusters.method


def _connected(records: int, values: _Values) -> np.ndarray:
    """The group of each record, numbered by first record: those connected through shared values."""
    size = records + len(values.numbers)
    edges = (np.array(values.records, np.int64), np.array(values.values, np.int64) + records)
    graph = coo_array((np.ones(len(edges[0]), np.int8), edges), shape=(size, size))
    label = connected_components(graph, directed=False)[1][:records]
    _, first, group = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group.reshape(-1)] if records else np.empty(0, np.int64)


def _place(group: np.ndarray, shares: list[float], seed: int) -> np.ndarray:
    """The part of every group: the largest first, equal ones in a seeded order, each to the least filled part."""
    sizes = np.bincount(group) if len(group) else np.empty(0, np.int64)
    salt = [hashlib.blake2b(f"{seed}/split/{g}".encode(), digest_size=8).digest() for g in range(len(sizes))]
    order = sorted(range(len(sizes)), key=lambda g: (-int(sizes[g]), salt[g]))
    filled = [0.0] * len(shares)
    part = np.zeros(len(sizes), np.int8)
    for g in order:
        size = int(sizes[g])
        chosen = min(range(len(shares)), key=lambda p: ((filled[p] + size) / shares[p], p))
        part[g] = chosen
        filled[chosen] += size
    return part


def _save(candidates: Candidates, rows: np.ndarray, part: np.ndarray) -> None:
    names = pa.array(candidates.parts, pa.string()).take(pa.array(part))
    with candidates.table("placed", {"row": rows, "part": names}):
        update = "UPDATE candidate SET part = placed.part FROM placed WHERE candidate.row = placed.row"
        candidates.database.execute(update)


def _describe(split: Split, values: _Values, group: np.ndarray, part: np.ndarray) -> dict[str, Any]:
    sizes = np.bincount(group) if len(group) else np.zeros(1, np.int64)
    total = max(len(part), 1)
    met = np.stack([np.array(values.values, np.int64), part[np.array(values.records, np.int64)]])
    of_value = np.unique(met, axis=1)[0]
    return {
        "by": split.by,
        "groups": int(group.max()) + 1 if len(group) else 0,
        "largest_group": int(sizes.max()),
        "shared_values": int((np.bincount(of_value) > 1).sum()) if len(of_value) else 0,
        "parts": {
            name: {
                "wanted_share": share,
                "records": int((part == number).sum()),
                "share": round(float((part == number).sum()) / total, 6),
            }
            for number, (name, share) in enumerate(split.shares.items())
        },
    }


def _repeated(candidates: Candidates, rows: np.ndarray) -> int:
    """Questions whose exact words stand in more than one part."""
    digests = [
        hashlib.blake2b(" ".join(record["question"].lower().split()).encode(), digest_size=8).digest()
        for _, record in candidates.staged.records(rows)
    ]
    with candidates.table("asked", {"row": rows, "question": pa.array(digests, pa.binary())}):
        query = """SELECT count(*) FROM (SELECT question FROM asked JOIN candidate USING (row)
                   GROUP BY question HAVING count(DISTINCT part) > 1)"""
        return int(candidates.database.execute(query).fetchall()[0][0])
