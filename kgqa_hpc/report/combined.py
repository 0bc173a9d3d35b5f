"""Counts and facts of a combined dataset (`kgqa combine`), in the form of those of a run.

A record counts as an item: a combined dataset holds accepted and rejected records, and no lost items.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pyarrow.parquet as pq

from kgqa_hpc.dataset.exports.source import COMBINED, CombinedFolder
from kgqa_hpc.dataset.facts import Facts
from kgqa_hpc.dataset.whole import require_whole
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.text.opener import read_bytes

_NONE_LOST: dict[str, Any] = {"invalid": {}, "failed": {}, "waiting": 0}


def combined_counts(folder: CombinedFolder) -> dict[str, Any]:
    """Counts in the form of accounting.json, by group and reason. Raises CorruptFile for a damaged file."""
    accepted, rejected = Counter[str](), dict[str, Counter[str]]()
    for path in _parts(folder, "accepted"):
        accepted.update(pq.read_table(path, columns=["group"])["group"].to_pylist())
    for path in _parts(folder, "rejected"):
        table = pq.read_table(path, columns=["group", "reason"])
        for group, reason in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
            rejected.setdefault(group, Counter())[reason] += 1
    groups = {
        group: _counts(accepted[group], rejected.get(group, Counter()))
        for group in sorted({*accepted, *rejected})
    }
    whole = _counts(accepted.total(), sum(rejected.values(), Counter()))
    return {**whole, "groups": groups, "lengths": {"z_score": None}, "requests": []}


def combined_facts(folder: CombinedFolder, version: str) -> Facts:
    """The title and a table of the runs; `version` is that of this program."""
    document = orjson.loads(read_bytes(folder.path / COMBINED))
    runs = {
        f"{number}, {entry['run'][:16]}": ", ".join(f"{entry[key]:,} {key}" for key in entry if key != "run")
        for number, entry in enumerate(document["runs"], start=1)
    }
    return Facts(
        run=sha256_of(folder.path / COMBINED),
        seed=0,
        licence="see the runs",
        version=version,
        graph=runs,
        own_title="Questions and answers of several runs",
    )


def _parts(folder: CombinedFolder, name: str) -> list[Any]:
    paths = sorted(folder.dataset.glob(f"{name}-*.parquet"))
    require_whole(folder.dataset, *(path.name for path in paths))
    return paths


def _counts(accepted: int, rejected: Counter[str]) -> dict[str, Any]:
    sampled = accepted + rejected.total()
    return {"sampled": sampled, "accepted": accepted, "rejected": dict(rejected), **_NONE_LOST}
