"""Data of the report, read from RUN/dataset or from a combined dataset as a stream, one row group at a time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgqa_hpc.dataset.accounting import in_order
from kgqa_hpc.dataset.exports.source import COMBINED, CombinedFolder, read_accounting
from kgqa_hpc.dataset.facts import Facts
from kgqa_hpc.dataset.whole import require_whole
from kgqa_hpc.errors import AccountingError, InputError
from kgqa_hpc.kg.profile import FILE as GRAPH
from kgqa_hpc.kg.profile import Profiles, read_profiles
from kgqa_hpc.report.node_use import BATCH, NodeUse, count_nodes
from kgqa_hpc.runs import run_config
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.regular import open_regular
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.opener import read_bytes

_NONE_LOST: dict[str, Any] = {"invalid": {}, "failed": {}, "waiting": 0}

FILES = ("accepted", "rejected")
SAMPLE = 3000  # largest number of records on the page, within SAMPLE_BYTES
SAMPLE_BYTES = 6_000_000
# Largest data of a page with all records; browsers use about ten times as much memory
ALL_BYTES = 100_000_000
# Fields of a record on the page, besides short values of fields that its kind and steps add.
_SHOWN: tuple[str, ...] = ("id", "question", "answer", "group", "accepted", "reason", "verdicts")
_SHOWN += ("nodes", "edges", "edge_labels")
_LEFT_OUT = ("provenance", "kind", "split")
_SHORT = 4000  # bytes of JSON


@dataclass(frozen=True, slots=True)
class Findings:
    """The numbers and examples of a dataset.

    `lengths[file][field]`: number of accepted and rejected pairs by their number of characters. `samples`: records
    of both files, evenly over groups. `graph`: its description by `kgqa sample`, if the run read a graph.
    """

    accounting: dict[str, Any]
    lengths: dict[str, dict[str, Counter[int]]]
    nodes: NodeUse
    samples: list[dict[str, Any]]
    graph: Profiles | None


def read_findings(run: RunFolder, *, all_records: bool = False) -> Findings:
    """Read the dataset of a run, or a combined one; `all_records` instead of samples.

    Raises InputError when there is none or a page cannot hold all records, AccountingError when its files disagree.
    """
    combined = isinstance(run, CombinedFolder)
    accounting = combined_counts(run) if isinstance(run, CombinedFolder) else read_accounting(run)
    accounting["groups"] = dict(in_order(accounting["groups"]))
    parts = {name: sorted(run.dataset.glob(f"{name}-*.parquet")) for name in FILES}
    used = [path.name for paths in parts.values() for path in paths] + [f"{name}.jsonl" for name in FILES]
    require_whole(run.dataset, *used)
    lengths = {name: _lengths(paths) for name, paths in parts.items()}
    accepted = accounting.get("records", accounting)["accepted"]
    if lengths["accepted"]["question"].total() != accepted:
        raise AccountingError(
            f"{run.dataset}: the accepted records and accounting.json do not belong together",
            "was it merged again meanwhile? run the same command again",
        )
    samples = [record for name in FILES for record in _sample(run.dataset, name, accounting, all_records)]
    nodes = count_nodes(parts["accepted"], 0 if combined else run_config(run).seed)
    graph = read_profiles(run.stats / GRAPH)
    return Findings(accounting, lengths, nodes, samples, graph)


def _lengths(paths: list[Path]) -> dict[str, Counter[int]]:
    lengths: dict[str, Counter[int]] = {"question": Counter(), "answer": Counter()}
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=list(lengths)):
                for text, values in lengths.items():
                    values.update(pc.utf8_length(batch[text]).to_pylist())
    return lengths


def _sample(
    folder: Path, name: str, accounting: dict[str, Any], all_records: bool
) -> Iterator[dict[str, Any]]:
    """The first records of every group, equally many of each (records are in a seeded random order); or all."""
    groups = accounting.get("records", accounting)["groups"]
    numbers = {group: counts[name] for group, counts in groups.items()}
    there = {g: n if isinstance(n, int) else sum(n.values()) for g, n in numbers.items()}
    room = SAMPLE // len(FILES)
    quota = -(-room // max(sum(n > 0 for n in there.values()), 1))
    missing = there if all_records else {group: min(number, quota) for group, number in there.items()}
    limit = (ALL_BYTES if all_records else SAMPLE_BYTES) // len(FILES)
    missing_total, size = sum(missing.values()), 0
    path = folder / f"{name}.jsonl"
    with disk_errors(path), open(open_regular(path), "rb") as file:
        for line in file:
            if all_records and size > limit:
                raise InputError(
                    f"{path}: a page cannot hold all records of a dataset this large",
                    f"look through it with kgqa sql or kgqa show --where; kgqa report {folder.parent} shows a sample",
                )
            if missing_total <= 0 or size > limit:
                return
            record = orjson.loads(line)
            if missing.get(record["group"], 0) > 0:
                missing[record["group"]] -= 1
                missing_total -= 1
                # Its columns for the page, and under `more` what the kind and the steps added, as far as it
                # is short
                more = {
                    key: value
                    for key, value in record.items()
                    if key not in _SHOWN + _LEFT_OUT and value not in (None, {}, [])
                }
                short = {key: value for key, value in more.items() if len(orjson.dumps(value)) <= _SHORT}
                columns = {key: record[key] for key in _SHOWN if key in record}
                columns |= {"more": short} if short else {}
                size += len(orjson.dumps(columns))
                yield columns


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
