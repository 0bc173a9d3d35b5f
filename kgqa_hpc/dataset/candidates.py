"""The candidate records of a merge: wide rows in staged files (stage.py), and a narrow row each in a database.

The DuckDB table `candidate` holds the outcome of each row, which merge decides here: rules query it in SQL, or read
columns of the staged files, and mark rows as rejected. Wide columns (texts, records) stay in the staged files.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc import errors
from kgqa_hpc.database import connect
from kgqa_hpc.dataset.accounting import LENGTH, NO_REASON, Accounting, RecordCounts, RequestCounts
from kgqa_hpc.dataset.columns import Columns, without_json_text
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.record import RecordMaker
from kgqa_hpc.dataset.stage import FACTS, SUFFIX, ShardFacts, sampled_digest
from kgqa_hpc.errors import AccountingError, CorruptFile, DiskFull, KgqaError, StoreError

MEMORY = "300MB"  # limit of the database
ROWS = 200_000  # rows per transfer to or from the database
NARROW = ("grp", "status", "reason", "question_length", "answer_length", "single", "bytes", "same")
# Column `file`: the dataset file of the row, as decided so far.
_TABLE = """
CREATE TABLE candidate (row BIGINT, grp VARCHAR, status VARCHAR, reason VARCHAR, question_length INTEGER,
  answer_length INTEGER, single BOOLEAN, bytes INTEGER, same BLOB, part VARCHAR,
  file VARCHAR GENERATED ALWAYS AS (CASE WHEN status = 'accepted' THEN 'accepted'
    WHEN status = 'rejected' AND bytes IS NOT NULL THEN 'rejected' ELSE 'lost' END))
"""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged file, its number of rows, and the columns of its records."""

    path: Path
    rows: int
    columns: Columns

    def read(self, names: Sequence[str]) -> pa.Table:
        """The named columns of all rows. A damaged file is removed and raises StoreError."""
        with (
            _removed_if_damaged(self.path),
            pq.ParquetFile(self.path, page_checksum_verification=True) as file,
        ):
            return file.read(list(names), use_threads=False)


@dataclass(frozen=True, slots=True)
class Staged:
    """All staged files of a merge; row n of the dataset is the n-th row of these files."""

    files: list[StagedFile]
    columns: Columns

    def __len__(self) -> int:
        return sum(file.rows for file in self.files)

    def read(self, names: Sequence[str], rows: np.ndarray) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """(row numbers, the named columns) file by file for `rows`: ascending row numbers, shape (n,).

        Records have the columns of the whole dataset.
        """
        start, layout = 0, self.columns.layout()
        for file in self.files:
            # Bounds of another type than the rows would convert all rows.
            bounds = np.array([start, start + file.rows], rows.dtype)
            begin, end = np.searchsorted(rows, bounds)
            if begin < end:
                numbers = rows[begin:end]
                table = file.read(names).take(pa.array(numbers - start))
                if "record" in names and file.columns.layout() != layout:
                    paths = file.columns.json_text()
                    records = (record and without_json_text(record, paths) for record in _records(table))
                    lines = [record and orjson.dumps(self.columns.conform(record))[:-1] for record in records]
                    table = table.set_column(names.index("record"), "record", pa.array(lines, pa.string()))
                yield numbers, table
            start += file.rows

    def records(self, rows: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        """(row number, record without the decided fields) for `rows`, which have records."""
        for numbers, table in self.read(["record"], rows):
            yield from zip(numbers.tolist(), _records(table), strict=True)


def _records(table: pa.Table) -> Iterator[Any]:
    return (line and orjson.loads(f"{line}}}") for line in table["record"].to_pylist())


def survey(work: FinishedWork, folder: Path) -> tuple[Staged, Accounting]:
    """The staged files of a run, and the accounting of everything that does not depend on filters.

    Raises AccountingError when shards are not the anchors, CorruptFile naming all damaged results, after each was
    moved to quarantine, StoreError for a damaged staged file.
    """
    accounting = Accounting(shards=len(work.manifest.shards), missing_shards=len(work.missing))
    columns, requests = Columns(RecordMaker(work.config).columns), RequestCounts()
    files: list[StagedFile] = []
    layouts: dict[bytes, Columns] = {}  # shared by the many files with the same columns: some kB each
    problems: list[KgqaError] = []
    for entry, ids, groups in work.sampled():
        path = folder / f"{entry.name}{SUFFIX}"
        with _removed_if_damaged(path):
            metadata = pq.read_metadata(path)
            facts = ShardFacts(**orjson.loads(metadata.metadata[FACTS]))
        if facts.problem is not None:
            kind, message, cure = facts.problem
            problems.append(getattr(errors, kind)(message, cure))
            path.unlink(missing_ok=True)  # the next merge tries again
            continue
        if facts.sampled != sampled_digest(ids, groups):
            raise AccountingError(
                f"{entry.name} holds other anchors than its slice of anchors.h5",
                "restore anchors.h5, or run anew",
            )
        collected = Columns()
        collected.take(facts.columns)
        files.append(StagedFile(path, metadata.num_rows, layouts.setdefault(collected.layout(), collected)))
        columns.take(facts.columns)
        requests.take(facts.requests)
        for name, number in Counter(groups).items():
            accounting.group(name).sampled += number
        for name in facts.waiting:
            accounting.group(name).waiting += 1
        for name, status, reason in facts.lists:
            accounting.group(name).add(status, reason)
    _raise_together(problems)
    accounting.requests = requests.rows()
    accounting.json_text = columns.json_text()
    return Staged(files, columns), accounting


def _raise_together(problems: list[KgqaError]) -> None:
    """Raise the first error that is not a CorruptFile, else one CorruptFile that names all damaged results."""
    for problem in problems:
        if len(problems) == 1 or not isinstance(problem, CorruptFile):
            raise problem
    if problems:
        messages = "\n       ".join(sorted(problem.message for problem in problems)[:10])
        raise CorruptFile(f"{len(problems)} results are damaged\n       {messages}", problems[0].cure)


@contextmanager
def _removed_if_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as problem:
        path.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: was not what was written there and is removed: {problem}", "merge again"
        ) from problem


def repeated(condition: str) -> str:
    """SQL condition that selects, among the rows that match `condition`, those whose `same` occurs in an
    earlier row.
    """
    return f"""row IN (SELECT row FROM candidate WHERE {condition}
               QUALIFY row_number() OVER (PARTITION BY same ORDER BY row) > 1)"""


class Candidates:
    """The candidate records of a merge.

    Columns of the table `candidate`: `row` (position in the dataset, from 0), NARROW as staged, `part` (of the split)
    and `file` (accepted, rejected or lost).
    """

    def __init__(self, database: duckdb.DuckDBPyConnection, staged: Staged) -> None:
        self.database = database
        self.staged = staged
        self.parts: tuple[str, ...] = ()  # names of the split's parts

    def __len__(self) -> int:
        return len(self.staged)

    @property
    def accepted(self) -> np.ndarray:
        """Row numbers of the rows accepted so far, ascending."""
        return self.rows("status = 'accepted'")

    def rows(self, condition: str) -> np.ndarray:
        """Row numbers for which an SQL condition holds, ascending: int64, shape (n,)."""
        query = f"SELECT row FROM candidate WHERE {condition} ORDER BY row"
        return np.asarray(self.database.execute(query).fetchnumpy()["row"], np.int64)

    def reject_where(self, condition: str, reason: str) -> int:
        """Reject the rows for which an SQL condition holds; returns how many."""
        query = f"UPDATE candidate SET status = 'rejected', reason = ? WHERE {condition}"
        changed = self.database.execute(query, [reason]).fetchone()
        return int(changed[0]) if changed else 0

    def reject(self, rows: np.ndarray, reason: str) -> int:
        """Reject rows by their numbers; returns how many."""
        with self.table("rejected_rows", {"row": rows}):
            return self.reject_where("row IN (SELECT row FROM rejected_rows)", reason)

    @contextmanager
    def table(self, name: str, columns: dict[str, Any] | pa.Table) -> Iterator[None]:
        """Context in which columns of equal length are a table of the database."""
        self.database.register(name, pa.table(columns) if isinstance(columns, dict) else columns)
        try:
            yield
        finally:
            self.database.unregister(name)

    def count(self, accounting: Accounting) -> None:
        """Add the outcome of every row to the accounting."""
        outcomes = "SELECT grp, status, reason, single, count(*) FROM candidate GROUP BY ALL ORDER BY ALL"
        for group, status, reason, single, number in self.database.execute(outcomes).fetchall():
            if single:
                accounting.group(group).add(status, reason, number)
            elif status in ("accepted", "rejected"):
                records = accounting.records.setdefault(group, RecordCounts())
                records.records += number
                if status == "accepted":
                    records.accepted += number
                else:
                    records.rejected[reason or NO_REASON] += number
        pairs = "SELECT grp, count(question_length), count(*) FILTER (reason = ?) FROM candidate GROUP BY grp"
        for group, number, outliers in self.database.execute(pairs, [LENGTH]).fetchall():
            counts = accounting.group(group)
            counts.pairs, counts.outliers = number, outliers


@contextmanager
def open_candidates(staged: Staged, scratch: Path) -> Iterator[Candidates]:
    """The candidates of all staged rows; DuckDB spills beyond MEMORY into `scratch`. Raises DiskFull."""
    extensions = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with connect(MEMORY, str(scratch), **extensions) as database:
        try:
            database.execute(_TABLE)
            candidates, start, tables = Candidates(database, staged), 0, []
            for number, file in enumerate(staged.files, start=1):
                tables.append(file.read(NARROW))
                if number == len(staged.files) or sum(map(len, tables)) >= ROWS:
                    rows = pa.concat_tables(tables)
                    numbers = pa.array(np.arange(start, start + len(rows)))
                    with candidates.table("staged", rows.add_column(0, "row", numbers)):
                        database.execute("INSERT INTO candidate SELECT *, NULL FROM staged")
                    start, tables = start + len(rows), []
            yield candidates
        except (duckdb.IOException, duckdb.OutOfMemoryException) as problem:
            raise DiskFull(f"{scratch}: {problem}", "free some space, then merge again") from problem
