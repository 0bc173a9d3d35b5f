"""The candidate records of a merge: wide rows in staged files (stage.py), and a narrow row each in a database.

The DuckDB table `candidate` holds the outcome of each row, which merge decides here: rules query it in SQL, or read
columns of the staged files, and mark rows as rejected. Wide columns (texts, records) stay in the staged files.
"""

import hashlib
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

from kgqa_hpc.database import connect
from kgqa_hpc.dataset.accounting import LENGTH, Accounting, RecordCounts
from kgqa_hpc.dataset.columns import Columns, without_json_text
from kgqa_hpc.errors import DiskFull, StoreError
from kgqa_hpc.threads import usable_cores

ACCEPTED, REJECTED, LOST = "accepted", "rejected", "lost"
# Limits of the database. Ten million rows spill into files; each thread has buffers of some 25 MB beyond the limit. For
# these rows the queries take 28 s of the 1,100 s of processor time of a merge, so more threads would gain little.
MEMORY, THREADS = "200MB", 2
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
            removed_if_damaged(self.path),
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
            # The bounds have the type of `rows`: otherwise searchsorted would convert all rows.
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


@contextmanager
def removed_if_damaged(path: Path) -> Iterator[None]:
    """Context that reads a staged file: a damaged file is removed and raises StoreError."""
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as problem:
        path.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: was not what was written there and is removed: {problem}", "merge again"
        ) from problem


def draw_key(seed: int, purpose: str, record: str) -> int:
    """Random key of a record in a draw: 64 bits of a hash of the seed and its id."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{record}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


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

    def reject_where(self, condition: str, reason: str | None, status: str = REJECTED) -> int:
        """Reject the rows for which an SQL condition holds, or give them another status; returns how many."""
        query = f"UPDATE candidate SET status = ?, reason = ? WHERE {condition}"
        changed = self.database.execute(query, [status, reason]).fetchone()
        return int(changed[0]) if changed else 0

    def reject(self, rows: np.ndarray, reason: str | None, status: str = REJECTED) -> int:
        """Reject rows by their numbers, or give them another status; returns how many."""
        with self.table("rejected_rows", {"row": rows}):
            return self.reject_where("row IN (SELECT row FROM rejected_rows)", reason, status)

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
        outcomes = """SELECT grp, status, reason, single, count(*), count(question_length) FROM candidate
                      GROUP BY ALL ORDER BY ALL"""
        for group, status, reason, single, number, pairs in self.database.execute(outcomes).fetchall():
            counts = accounting.group(group)
            counts.pairs += pairs
            counts.outliers += number if reason == LENGTH else 0
            if single:
                counts.add(status, reason, number)
            elif status in (ACCEPTED, REJECTED):
                records = accounting.records.setdefault(group, RecordCounts())
                records.sampled += number
                records.add(status, reason, number)


@contextmanager
def open_candidates(staged: Staged, scratch: Path) -> Iterator[Candidates]:
    """The candidates of all staged rows; DuckDB spills beyond MEMORY into `scratch`. Raises DiskFull."""
    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with connect(MEMORY, str(scratch), threads=min(usable_cores(), THREADS), **settings) as database:
        try:
            database.execute(_TABLE)
            candidates, start, tables = Candidates(database, staged), 0, []
            for number, file in enumerate(staged.files, start=1):
                tables.append(file.read(NARROW))
                if number == len(staged.files) or sum(map(len, tables)) >= ROWS:
                    rows = pa.concat_tables(tables).combine_chunks()  # DuckDB has buffers for each chunk
                    numbers = pa.array(np.arange(start, start + len(rows)))
                    with candidates.table("staged", rows.add_column(0, "row", numbers)):
                        database.execute("INSERT INTO candidate SELECT *, NULL FROM staged")
                    start, tables = start + len(rows), []
            yield candidates
        except (duckdb.IOException, duckdb.OutOfMemoryException) as problem:
            raise DiskFull(f"{scratch}: {problem}", "free some space, then merge again") from problem
