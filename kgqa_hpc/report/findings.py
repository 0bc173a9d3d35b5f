"""What the report says: read from RUN/dataset in one stream, a row group at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq

from kgqa_hpc.errors import AccountingError, InputError
from kgqa_hpc.store.replace_folder import settle
from kgqa_hpc.store.run_folder import RunFolder

SAMPLES = 12
_COLUMNS = ["question", "answer", "graphlet_id", "nodes"]


@dataclass(slots=True)
class Findings:
    """The numbers and examples of a dataset.

    `lengths[file][field]`: int arrays of characters, for accepted and rejected pairs. `usage`: accepted
    questions per node id; `names`: of those nodes. `samples`: accepted records, of as many shapes as there
    are.
    """

    accounting: dict[str, Any]
    lengths: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    usage: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)


def read_findings(run: RunFolder) -> Findings:
    """Read a run's dataset. Raises InputError when there is none, AccountingError when its files disagree."""
    settle(run.dataset)
    counts = run.dataset / "accounting.json"
    if not counts.exists():
        raise InputError(f"{run.path}: there is no dataset yet", f"first: kgqa merge {run.path}")
    findings = Findings(_by_number(orjson.loads(counts.read_bytes())))
    for name in ("accepted", "rejected"):
        _read_lengths(findings, run.dataset / f"{name}.parquet", name)
    if len(findings.lengths["accepted"]["question"]) != findings.accounting["accepted"]:
        raise AccountingError(
            f"{run.dataset}: accepted.parquet and accounting.json do not belong together",
            "was it merged again meanwhile? run the same command again",
        )
    findings.samples = _samples(run.dataset / "accepted.jsonl", findings.accounting)
    return findings


def _by_number(accounting: dict[str, Any]) -> dict[str, Any]:
    """With the shapes in the order of their ids; the document sorts them as text."""
    return {**accounting, "shapes": dict(sorted(accounting["shapes"].items(), key=lambda one: int(one[0])))}


def _read_lengths(findings: Findings, path: Path, name: str) -> None:
    parts: dict[str, list[np.ndarray]] = {"question": [], "answer": []}
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=2048, columns=_COLUMNS):
            for text, chunks in parts.items():
                chunks.append(np.array([len(value) for value in batch[text].to_pylist()], np.int64))
            if name == "accepted":
                _count_nodes(findings, batch["nodes"].to_pylist())
    empty = [np.empty(0, np.int64)]
    findings.lengths[name] = {text: np.concatenate(chunks or empty) for text, chunks in parts.items()}


def _count_nodes(findings: Findings, rows: list[list[dict[str, str]]]) -> None:
    for nodes in rows:
        for node in nodes:
            findings.usage[node["id"]] += 1
            findings.names.setdefault(node["id"], node["name"])


def _samples(path: Path, accounting: dict[str, Any]) -> list[dict[str, Any]]:
    """The first accepted records, in turns over the shapes."""
    accepted = {
        int(shape): tally["accepted"] for shape, tally in accounting["shapes"].items() if tally["accepted"]
    }
    wanted = {shape: min(number, -(-SAMPLES // len(accepted))) for shape, number in accepted.items()}
    found: list[dict[str, Any]] = []
    with path.open("rb") as file:
        for line in file:
            if not any(wanted.values()):
                break
            record = orjson.loads(line)
            if wanted[record["graphlet_id"]]:
                wanted[record["graphlet_id"]] -= 1
                found.append(record)
    return _spread(found)


def _spread(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A dozen of them, every shape once before any shape twice, then by shape."""
    turn: Counter[int] = Counter()
    ranked = []
    for record in records:
        ranked.append((turn[record["graphlet_id"]], record["graphlet_id"], record["id"], record))
        turn[record["graphlet_id"]] += 1
    chosen = [record for *_, record in sorted(ranked, key=lambda one: one[:3])][:: _step(len(ranked))][
        :SAMPLES
    ]
    return sorted(chosen, key=lambda record: (record["graphlet_id"], record["id"]))


def _step(available: int) -> int:
    # With 29 shapes a dozen is every other one, so that small and large shapes are both shown.
    return max(available // SAMPLES, 1)
