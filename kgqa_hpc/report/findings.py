"""What the report says: read from RUN/dataset in one stream, a row group at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from kgqa_hpc.dataset.accounting import in_order
from kgqa_hpc.dataset.exports.source import read_accounting
from kgqa_hpc.errors import AccountingError
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.regular import open_regular
from kgqa_hpc.store.run_folder import RunFolder

FILES = ("accepted", "rejected")
SAMPLE = 3000  # records the page can show, as far as they fit into SAMPLE_BYTES
SAMPLE_BYTES = 6_000_000
# Of a record, what the page shows; the rest stays in the dataset.
_SHOWN = "id question answer group accepted reason verdicts nodes edges edge_labels"


@dataclass(slots=True)
class Findings:
    """The numbers and examples of a dataset.

    `lengths[file][field]`: characters of accepted and rejected pairs. `usage`: accepted questions per node
    id; `names`: of those nodes; `links`: the pairs of nodes that edges of accepted questions join.
    `samples`: records of both files, evenly over groups.
    """

    accounting: dict[str, Any]
    lengths: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    usage: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    links: set[tuple[str, str]] = field(default_factory=set)
    samples: list[dict[str, Any]] = field(default_factory=list)


def read_findings(run: RunFolder) -> Findings:
    """Read a run's dataset. Raises InputError when there is none, AccountingError when its files disagree."""
    accounting = read_accounting(run)
    accounting["groups"] = dict(in_order(accounting["groups"]))
    findings = Findings(accounting)
    for name in FILES:
        _read_lengths(findings, run.dataset, name)
    accepted = accounting.get("records", accounting)["accepted"]
    if len(findings.lengths["accepted"]["question"]) != accepted:
        raise AccountingError(
            f"{run.dataset}: the accepted records and accounting.json do not belong together",
            "was it merged again meanwhile? run the same command again",
        )
    findings.samples = [record for name in FILES for record in _sample(run.dataset, name, accounting)]
    return findings


def _read_lengths(findings: Findings, folder: Path, name: str) -> None:
    lengths: dict[str, list[int]] = {"question": [], "answer": []}
    for path in sorted(folder.glob(f"{name}-*.parquet")):
        with pq.ParquetFile(path) as file:
            known = [column for column in (*lengths, "nodes", "edges") if column in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=2048, columns=known):
                for text, found in lengths.items():
                    found += map(len, batch[text].to_pylist())
                if name == "accepted" and "nodes" in known:
                    nodes = batch["nodes"].to_pylist()
                    _count_nodes(findings, nodes)
                    if "edges" in known:
                        _gather_links(findings, nodes, batch["edges"].to_pylist())
    findings.lengths[name] = lengths


def _count_nodes(findings: Findings, rows: list[list[dict[str, str]] | None]) -> None:
    for nodes in rows:
        for node in nodes or ():
            findings.usage[node["id"]] += 1
            findings.names.setdefault(node["id"], node["name"])


def _gather_links(findings: Findings, rows: list[Any], edges: list[Any]) -> None:
    for nodes, pairs in zip(rows, edges, strict=True):
        for one, other in pairs or ():
            ends = sorted((nodes[one]["id"], nodes[other]["id"]))
            findings.links.add((ends[0], ends[1]))


def _sample(folder: Path, name: str, accounting: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The first records of every group, as many of each (records stand in a seeded shuffle)."""
    groups = accounting.get("records", accounting)["groups"]
    there = {g: _number(counts[name]) for g, counts in groups.items()}
    room = SAMPLE // len(FILES)
    each = -(-room // max(sum(n > 0 for n in there.values()), 1))
    wanted = {group: min(number, each) for group, number in there.items()}
    left, size = sum(wanted.values()), 0
    path = folder / f"{name}.jsonl"
    with disk_errors(path), open(open_regular(path), "rb") as file:
        for line in file:
            if left <= 0 or size > SAMPLE_BYTES // len(FILES):
                return
            record = orjson.loads(line)
            if wanted.get(record["group"], 0) > 0:
                wanted[record["group"]] -= 1
                left -= 1
                shown = {key: record[key] for key in _SHOWN.split() if key in record}
                size += len(orjson.dumps(shown))
                yield shown


def _number(counted: int | dict[str, int]) -> int:
    return counted if isinstance(counted, int) else sum(counted.values())
