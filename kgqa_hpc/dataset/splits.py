"""The split of accepted records into parts without common evidence, so that a model is never trained on the
evidence of a test item.

Records that share a value of `split.by` form a group: by `nodes`, all records connected through shared nodes; by
`sequence_cluster`, all with similar sequences; by a column, all with the same value. A group goes to one part as a
whole. Groups are placed largest first (equal sizes in a seeded order), each into the part whose share is least filled.
A group may be larger than every part should be (nodes often connect most of a dataset): then the shares cannot be met,
and the accounting shows it.
"""

import hashlib
from array import array
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa

from kgqa_hpc.config.sections import Split
from kgqa_hpc.dataset.candidates import Candidates, draw_key
from kgqa_hpc.dataset.columns import value_at
from kgqa_hpc.dataset.duplicates import connected
from kgqa_hpc.registry import Registry

# Functions from sequences to clusters of similar ones (`labels`, `method`), by the name in `split.by`.
CLUSTERINGS = Registry("clusterings", "clustering", {})
NODES = "nodes"
SEQUENCE, SEQUENCE_CLUSTER = "sequence", "sequence_cluster"


def divide(candidates: Candidates, split: Split | None, seed: int) -> dict[str, Any]:
    """Assign every accepted row to a part (column `part`, `candidates.parts`); returns the accounting of the
    split.

    Raises InputError when records have no such column, KgqaError when MMseqs2 fails.
    """
    if split is None:
        return {}
    rows, method = candidates.accepted, {}
    by_similarity = split.by == SEQUENCE_CLUSTER
    pairs, numbers, questions = _values(candidates, rows, SEQUENCE if by_similarity else split.by)
    if by_similarity:
        texts = sorted(numbers)
        clusters = CLUSTERINGS.get(SEQUENCE_CLUSTER)([orjson.loads(text) or "" for text in texts])
        label = dict(zip(texts, clusters.labels, strict=True))
        pairs[1] = np.unique([label[text] for text in numbers], return_inverse=True)[1][pairs[1]]
        method["method"] = clusters.method
    # A graph whose nodes are the records and then the values: records connected through shared values form a group.
    groups = connected(
        np.stack([pairs[0], pairs[1] + len(rows)]), len(rows) + int(pairs[1].max(initial=-1)) + 1
    )
    group = pd.factorize(groups[: len(rows)])[0]
    part = _place(group, list(split.shares.values()), seed)[group]
    candidates.parts = tuple(split.shares)
    names = pa.array(candidates.parts, pa.string()).take(pa.array(part))
    with candidates.table("placed", {"row": rows, "part": names, "question": questions}):
        update = "UPDATE candidate SET part = placed.part FROM placed WHERE candidate.row = placed.row"
        candidates.database.execute(update)
        repeated = """SELECT count(*) FROM (SELECT question FROM placed GROUP BY question
                      HAVING count(DISTINCT part) > 1)"""
        crossing = candidates.database.execute(repeated).fetchall()[0][0]
    return _describe(split, pairs, group, part) | {"repeated_questions": int(crossing)} | method


def _values(candidates: Candidates, rows: np.ndarray, by: str) -> tuple[np.ndarray, list[str], pa.Array]:
    """The values by which the accepted records are grouped.

    Returns pairs (position of a record, number of a value) as int64 of shape (2, n), the values by number, and a digest
    of each record's question, with names that a step replaced.
    """
    numbers: dict[str, int] = {}
    owners, values, questions = array("q"), array("q"), []
    for owner, (_, record) in enumerate(candidates.staged.records(rows)):
        value = value_at(record, by, "dataset.split.by")
        if by == NODES:
            texts = [node["id"] for node in value or ()]
        else:
            texts = [
                orjson.dumps(member).decode() for member in (value if isinstance(value, list) else [value])
            ]
        for text in texts:
            owners.append(owner)
            values.append(numbers.setdefault(text, len(numbers)))
        words = " ".join((record.get("question_with_names") or record["question"]).lower().split())
        questions.append(hashlib.blake2b(words.encode(), digest_size=8).digest())
    return np.array([owners, values], np.int64), list(numbers), pa.array(questions, pa.binary())


def _place(group: np.ndarray, shares: list[float], seed: int) -> np.ndarray:
    """The part of every group: groups are placed largest first (equal sizes in a seeded order), each into the part that
    is least filled.
    """
    sizes = np.bincount(group)
    salt = [draw_key(seed, "split", str(g)) for g in range(len(sizes))]
    filled = [0.0] * len(shares)
    part = np.zeros(len(sizes), np.int8)
    for g in sorted(range(len(sizes)), key=lambda g: (-int(sizes[g]), salt[g])):
        size = int(sizes[g])
        chosen = min(range(len(shares)), key=lambda p: ((filled[p] + size) / shares[p], p))
        part[g] = chosen
        filled[chosen] += size
    return part


def _describe(split: Split, pairs: np.ndarray, group: np.ndarray, part: np.ndarray) -> dict[str, Any]:
    counts = np.bincount(part, minlength=len(split.shares)).tolist()
    value_in_part = np.unique(np.stack([pairs[1], part[pairs[0]]]), axis=1)[0]
    return {
        "by": split.by,
        "groups": int(group.max(initial=-1)) + 1,
        "largest_group": int(np.bincount(group).max(initial=0)),
        "shared_values": int((np.bincount(value_in_part) > 1).sum()),
        "parts": {
            name: {"wanted_share": share, "records": count, "share": round(count / max(len(part), 1), 6)}
            for (name, share), count in zip(split.shares.items(), counts, strict=True)
        },
    }
