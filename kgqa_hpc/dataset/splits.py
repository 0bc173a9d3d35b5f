"""Accepted records divided into parts that share nothing, so that a model never sees a test item's evidence.

Records that share a value of what is divided by belong together: by `nodes`, all records connected through
shared nodes; by `sequence_cluster`, all whose sequences are similar; by a column, all with the same value.
Such a group goes whole to one part. Groups are placed largest first, equal ones in a seeded order, each where
the part's share is least filled. One group may be larger than any part should be (nodes often connect most of
a dataset): then the shares cannot be met, and the accounting says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson

from kgqa_hpc.config.dataset import Split
from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.errors import InputError
from kgqa_hpc.registry import Registry

# Functions from sequences to clusters of similar ones (`labels`, `method`), by the name in `split.by`.
CLUSTERINGS = Registry("clusterings", "clustering", {})
NODES = "nodes"
SEQUENCE, SEQUENCE_CLUSTER = "sequence", "sequence_cluster"


def divide(rows: Rows, split: Split | None, seed: int) -> dict[str, Any]:
    """Give every accepted row its part (`rows.part`, `rows.parts`); returns what the accounting says of it.

    Raises InputError when records have no such column, KgqaError when MMseqs2 fails.
    """
    if split is None:
        return {}
    accepted = rows.accepted
    by_similarity = split.by == SEQUENCE_CLUSTER
    keys = _keys(rows, accepted, SEQUENCE if by_similarity else split.by)
    method = {}
    if by_similarity:
        keys, method["method"] = _clustered(keys)
    group = _connected(len(accepted), keys)
    parts = tuple(split.shares)
    part_of_group = _place(group, list(split.shares.values()), seed)
    rows.parts = parts
    rows.part[accepted] = part_of_group[group]
    return _describe(rows, accepted, split, keys, group) | method


def _keys(rows: Rows, accepted: np.ndarray, by: str) -> list[list[str]]:
    """What each accepted record must not share with another part."""
    found = []
    for _, record in rows.records(accepted):
        if by not in record:
            known = ", ".join(name for name in record if name not in ("question", "answer"))
            raise InputError(
                f"dataset.split.by: {record['id']} has no column {by!r}", f"its columns: {known}"
            )
        found.append(list(_values(record[by], by)))
    return found


def _clustered(keys: list[list[str]]) -> tuple[list[list[str]], str]:
    """The cluster of each record's sequence in its place, and how the clusters were made."""
    place = {sequence: number for number, sequence in enumerate(sorted({one for (one,) in keys}))}
    found = CLUSTERINGS.get(SEQUENCE_CLUSTER)([orjson.loads(sequence) or "" for sequence in place])
    return [[str(found.labels[place[sequence]])] for (sequence,) in keys], found.method


def _values(value: Any, by: str) -> Iterable[str]:
    if by == NODES:
        return [node["id"] for node in value or ()]
    if isinstance(value, list):
        return [orjson.dumps(one).decode() for one in value]
    return [orjson.dumps(value).decode()]


def _connected(records: int, keys: list[list[str]]) -> np.ndarray:
    """The number of each record's group: those connected through shared keys (union-find)."""
    parent = list(range(records))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    first: dict[str, int] = {}
    for record, values in enumerate(keys):
        for value in values:
            other = root(first.setdefault(value, record))
            mine = root(record)
            parent[max(other, mine)] = min(other, mine)
    roots = np.array([root(one) for one in range(records)], np.int64)
    return np.unique(roots, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _place(group: np.ndarray, shares: list[float], seed: int) -> np.ndarray:
    """The part of every group."""
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


def _describe(
    rows: Rows, accepted: np.ndarray, split: Split, keys: list[list[str]], group: np.ndarray
) -> dict[str, Any]:
    parts = rows.part[accepted]
    seen: dict[str, set[int]] = {}
    for part, values in zip(parts.tolist(), keys, strict=True):
        for value in values:
            seen.setdefault(value, set()).add(part)
    sizes = np.bincount(group) if len(group) else np.zeros(1, np.int64)
    total = max(len(accepted), 1)
    return {
        "by": split.by,
        "groups": int(group.max()) + 1 if len(group) else 0,
        "largest_group": int(sizes.max()),
        "shared_values": sum(len(where) > 1 for where in seen.values()),
        "repeated_questions": _leaked_questions(rows, accepted),
        "parts": {
            name: {
                "wanted_share": split.shares[name],
                "records": int((parts == number).sum()),
                "share": round(float((parts == number).sum()) / total, 6),
            }
            for number, name in enumerate(rows.parts)
        },
    }


def _leaked_questions(rows: Rows, accepted: np.ndarray) -> int:
    """Questions whose exact words stand in more than one part."""
    where: dict[bytes, set[int]] = {}
    for row, pair in rows.pairs(accepted):
        key = hashlib.blake2b(" ".join(pair["question"].lower().split()).encode(), digest_size=8).digest()
        where.setdefault(key, set()).add(int(rows.part[row]))
    return sum(len(parts) > 1 for parts in where.values())
