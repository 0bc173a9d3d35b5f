"""Data of the report, read from RUN/dataset or from a combined dataset in bounded memory: counts, lengths, sampled
records, and the nodes that the accepted questions use with the graph they cover together.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import orjson
from numpy.typing import NDArray

from kgqa_hpc.database import FILES, connect
from kgqa_hpc.dataset.accounting import in_order
from kgqa_hpc.dataset.facts import Facts
from kgqa_hpc.dataset.files import CombinedFolder, read_accounting, read_records
from kgqa_hpc.errors import AccountingError, InputError
from kgqa_hpc.kg.describe import FILE as GRAPH
from kgqa_hpc.kg.describe import Profiles, read_profiles
from kgqa_hpc.runs import run_config
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sums import COMBINED, require_whole
from kgqa_hpc.text.plain_text import shell_word
from kgqa_hpc.text.streams import read_bytes

SAMPLE = 3000  # largest number of records on the page, within SAMPLE_BYTES
SAMPLE_BYTES = 6_000_000
# Largest data of a page with all records; browsers use about ten times as much memory
ALL_BYTES = 100_000_000
# Fields of a record on the page, besides short values of fields that its kind and steps add.
_SHOWN: tuple[str, ...] = ("id", "question", "answer", "group", "accepted", "reason", "verdicts")
_SHOWN += ("nodes", "edges", "edge_labels")
_LEFT_OUT = ("provenance", "kind", "split")
_SHORT = 4000  # largest size of a short value, in bytes of JSON
TOP_NODES = 10
NODES = 300  # largest sample of nodes
MEMORY = "300MB"
# Table `used` has a row per node. Table `links` has a row per pair of linked nodes, the smaller number first.
# A loop links a node to itself.
_TABLES = """
CREATE TABLE named AS SELECT id, min(name) AS name, count(*) AS questions FROM node GROUP BY id;
CREATE TABLE used AS SELECT row_number() OVER (ORDER BY id) - 1 AS number, * FROM named;
CREATE TABLE links AS SELECT DISTINCT least(a.number, b.number) AS a, greatest(a.number, b.number) AS b
  FROM joined JOIN used AS a ON a.id = source JOIN used AS b ON b.id = target;
CREATE TABLE degrees AS SELECT number, count(*) AS degree
  FROM (SELECT a AS number FROM links WHERE a <> b UNION ALL SELECT b FROM links WHERE a <> b) GROUP BY number
"""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """`questions` and `degrees` (n,): of each used node, accepted questions and neighbours in the covered graph.

    `links` counts its joined pairs of nodes; `top` are the most used nodes: id, name, questions. `sample` are nodes
    drawn in proportion to their questions, without replacement (all where there are at most NODES), the most used
    first; `sample_links` (m, 2) are the joined pairs among them, by place in `sample`.
    """

    questions: NDArray[np.int64]
    degrees: NDArray[np.int64]
    links: int
    top: list[tuple[str, str, int]]
    sample: list[tuple[str, str, int]]
    sample_links: NDArray[np.int64]


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
    combined, accounting = isinstance(run, CombinedFolder), read_accounting(run)
    parts = {name: sorted(run.dataset.glob(f"{name}-*.parquet")) for name in FILES}
    require_whole(run.dataset, *(path.name for paths in parts.values() for path in paths))
    accounting = _combined_counts(parts) if combined else accounting
    accounting["groups"] = dict(in_order(accounting["groups"]))
    lengths: dict[str, dict[str, Counter[int]]] = {}
    for name, paths in parts.items():
        for field in ("question", "answer"):
            rows = _grouped(paths, f"length({field})")
            lengths.setdefault(name, {})[field] = Counter(dict(rows))
    accepted = accounting.get("records", accounting)["accepted"]
    if lengths["accepted"]["question"].total() != accepted:
        raise AccountingError(
            f"{run.dataset}: the accepted records and accounting.json do not belong together",
            "was it merged again meanwhile? run the same command again",
        )
    samples = [record for name in FILES for record in _sample(run.dataset, name, accounting, all_records)]
    nodes = count_nodes(parts["accepted"], 0 if combined else run_config(run).seed)
    return Findings(accounting, lengths, nodes, samples, read_profiles(run.stats / GRAPH))


def _grouped(paths: list[Path], columns: str) -> list[tuple[Any, ...]]:
    """Values of the columns in Parquet files, and the number of records with them."""
    if not paths:
        return []
    with connect(MEMORY) as database:
        records = database.read_parquet([str(path) for path in paths])
        return records.aggregate(f"{columns}, count(*)").fetchall()


def _sample(
    folder: Path, name: str, accounting: dict[str, Any], all_records: bool
) -> Iterator[dict[str, Any]]:
    """The first records of every group, equally many of each (records are in a seeded random order); or all.

    A record has its columns for the page, and under `more` the short values that its kind and steps added.
    """
    counts = {group: n[name] for group, n in accounting.get("records", accounting)["groups"].items()}
    numbers = {group: n if isinstance(n, int) else sum(n.values()) for group, n in counts.items()}
    missing = {group: number for group, number in numbers.items() if number}
    if not all_records:
        quota = -(-SAMPLE // len(FILES) // max(len(missing), 1))
        missing = {group: min(number, quota) for group, number in missing.items()}
    limit, size = (ALL_BYTES if all_records else SAMPLE_BYTES) // len(FILES), 0
    for record in read_records(folder, name):
        if all_records and size > limit:
            raise InputError(
                f"{folder / name}.jsonl: a page cannot hold all records of a dataset this large",
                "look through it with kgqa sql or kgqa show --where; "
                f"kgqa report {shell_word(folder.parent)} shows a sample",
            )
        if not missing or size > limit:
            return
        group = record["group"]
        if group in missing:
            missing[group] -= 1
            if not missing[group]:
                del missing[group]
            columns = {key: record.pop(key) for key in _SHOWN if key in record}
            more = {
                key: value
                for key, value in record.items()
                if key not in _LEFT_OUT and value not in (None, {}, []) and len(orjson.dumps(value)) <= _SHORT
            }
            columns |= {"more": more} if more else {}
            size += len(orjson.dumps(columns))
            yield columns


def _combined_counts(parts: dict[str, list[Path]]) -> dict[str, Any]:
    """Counts of a combined dataset in the form of accounting.json, by group and reason."""
    accepted = dict(_grouped(parts["accepted"], '"group"'))
    groups = {group: _counts(number) for group, number in accepted.items()}
    whole = _counts(sum(accepted.values()))
    for group, reason, number in _grouped(parts["rejected"], '"group", reason'):
        for counts in (groups.setdefault(group, _counts(0)), whole):
            counts["rejected"][reason] = counts["rejected"].get(reason, 0) + number
            counts["sampled"] += number
    return {**whole, "groups": groups, "lengths": {"z_score": None}, "requests": []}


def _counts(accepted: int) -> dict[str, Any]:
    none = {"rejected": {}, "invalid": {}, "failed": {}, "waiting": 0}
    return {"sampled": accepted, "accepted": accepted, **none}


def combined_facts(folder: CombinedFolder) -> Facts:
    """The title and a table of the runs."""
    document = orjson.loads(read_bytes(folder.path / COMBINED))
    runs = {
        f"{number}, {entry['run'][:16]}": ", ".join(f"{entry[key]:,} {key}" for key in entry if key != "run")
        for number, entry in enumerate(document["runs"], start=1)
    }
    return Facts(
        run=sha256_of(folder.path / COMBINED),
        seed=0,
        licence="see the runs",
        graph=runs,
        title="Questions and answers of several runs",
    )


def count_nodes(paths: list[Path], seed: int) -> NodeUse:
    """Count the nodes of the accepted records in these Parquet files; `seed` draws the sample of nodes.

    Records without nodes are ignored.
    """
    with TemporaryDirectory() as spilled, connect(MEMORY, spilled) as database:
        _read(database, paths)
        database.execute(_TABLES)
        query = "SELECT questions, coalesce(degree, 0) AS degree FROM used LEFT JOIN degrees USING (number)"
        counts = _arrays(database, query)
        top = f"SELECT id, name, questions FROM used ORDER BY questions DESC, id LIMIT {TOP_NODES}"
        return NodeUse(
            counts["questions"],
            counts["degree"],
            database.execute("SELECT count(*) FROM links").fetchall()[0][0],
            database.execute(top).fetchall(),
            *_drawn_nodes(database, seed),
        )


def _read(database: duckdb.DuckDBPyConnection, paths: list[Path]) -> None:
    """Fill the tables `node`, a row per record and node, and `joined`, a row per record and edge."""
    database.execute("CREATE TABLE node (id VARCHAR, name VARCHAR)")
    database.execute("CREATE TABLE joined (source VARCHAR, target VARCHAR)")
    for path in paths:
        records = database.read_parquet(str(path))
        if "nodes" in records.columns:
            database.execute(
                "INSERT INTO node SELECT n.id, n.name FROM (SELECT unnest(nodes) AS n FROM records)"
            )
        if {"nodes", "edges"} <= set(records.columns):
            database.execute(
                "INSERT INTO joined SELECT nodes[edge[1] + 1].id, nodes[edge[2] + 1].id "
                "FROM (SELECT nodes, unnest(edges) AS edge FROM records)"
            )


def _arrays(database: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    columns = database.execute(query).fetchnumpy()
    return {name: np.asarray(column, np.int64) for name, column in columns.items()}


def _drawn_nodes(
    database: duckdb.DuckDBPyConnection, seed: int
) -> tuple[list[tuple[str, str, int]], NDArray[np.int64]]:
    questions = _arrays(database, "SELECT questions FROM used ORDER BY number")["questions"]
    size = min(NODES, len(questions))
    if not size:
        return [], np.empty((0, 2), np.int64)
    shares = questions / questions.sum()
    drawn = np.random.default_rng(seed).choice(len(questions), size, replace=False, p=shares)
    database.register("drawn", {"number": drawn})
    database.execute(
        """CREATE TABLE shown AS SELECT row_number() OVER (ORDER BY questions DESC, id) - 1 AS place, used.*
           FROM used JOIN drawn USING (number)"""
    )
    nodes = database.execute("SELECT id, name, questions FROM shown ORDER BY place").fetchall()
    links = _arrays(
        database,
        """SELECT x.place AS a, y.place AS b FROM links JOIN shown AS x ON x.number = a JOIN shown AS y ON y.number = b
           WHERE a <> b ORDER BY ALL""",
    )
    return nodes, np.stack([links["a"], links["b"]], axis=1)
