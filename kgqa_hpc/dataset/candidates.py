"""The candidate records of a merge: wide rows in staged files (staged.py), and a narrow row each in a database.

The DuckDB table `candidate` holds the outcome of each row, which merge decides here: rules query it in SQL, or read
columns of the staged files, and mark rows as rejected. Wide columns (texts, records) stay in the staged files.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from kgqa_hpc.database import connect
from kgqa_hpc.dataset.accounting import LENGTH, Accounting, RecordCounts
from kgqa_hpc.dataset.staged import Staged
from kgqa_hpc.errors import DiskFull
from kgqa_hpc.threads import usable_cores

ACCEPTED, REJECTED, LOST = "accepted", "rejected", "lost"
# Limits of the database. Ten million rows spill into files; each thread has buffers of some 25 MB beyond the limit. The
# decisions about them take 28 s of processor, of some 1,100 s of their merge, so more threads would gain little.
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
        outcomes = "SELECT grp, status, reason, single, count(*) FROM candidate GROUP BY ALL ORDER BY ALL"
        for group, status, reason, single, number in self.database.execute(outcomes).fetchall():
            if single:
                accounting.group(group).add(status, reason, number)
            elif status in (ACCEPTED, REJECTED):
                records = accounting.records.setdefault(group, RecordCounts())
                records.sampled += number
                records.add(status, reason, number)
        pairs = "SELECT grp, count(question_length), count(*) FILTER (reason = ?) FROM candidate GROUP BY grp"
        for group, number, outliers in self.database.execute(pairs, [LENGTH]).fetchall():
            counts = accounting.group(group)
            counts.pairs, counts.outliers = number, outliers


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
                    rows = pa.concat_tables(tables)
                    numbers = pa.array(np.arange(start, start + len(rows)))
                    with candidates.table("staged", rows.add_column(0, "row", numbers)):
                        database.execute("INSERT INTO candidate SELECT *, NULL FROM staged")
                    start, tables = start + len(rows), []
            yield candidates
        except (duckdb.IOException, duckdb.OutOfMemoryException) as problem:
            raise DiskFull(f"{scratch}: {problem}", "free some space, then merge again") from problem


class Outcome(NamedTuple):
    """An outcome of rows: their file, the name of its Parquet files without number, and the ending of their lines."""

    file: str
    stem: str
    ending: bytes


@dataclass(frozen=True, slots=True)
class Fate:
    """The staged rows in the order of the dataset, with the outcome of each.

    `codes` are positions in `outcomes`, `sizes` the approximate bytes of the lines: int32 of shape (rows,).
    `parts`: names of the parts of the split.
    """

    staged: Staged
    outcomes: list[Outcome]
    codes: np.ndarray
    sizes: np.ndarray
    parts: tuple[str, ...] = ()

    def rows(self, member: str, value: str) -> np.ndarray:
        """Numbers of the rows whose outcome has this value of `file` or `stem`, ascending: uint32, shape (n,)."""
        matches = np.array([getattr(outcome, member) == value for outcome in self.outcomes], bool)
        return np.flatnonzero(matches[self.codes]).astype(np.uint32)

    def lines(self, rows: np.ndarray, column: str = "record") -> Iterator[bytes]:
        """The lines of these rows in their file: records with the decided fields at their ends, or items (`lost`)."""
        for numbers, table in self.staged.read([column], rows):
            staged_lines = table[column].cast(pa.binary()).to_numpy()
            for line, code in zip(staged_lines, self.codes[numbers].tolist(), strict=True):
                yield line + self.outcomes[code].ending


def fate_of(candidates: Candidates) -> Fate:
    """The outcomes of all candidates, after all rules."""
    database = candidates.database
    database.execute(
        """CREATE TABLE outcome AS SELECT (row_number() OVER (ORDER BY file, reason, part) - 1)::INTEGER AS code,
           file, reason, part FROM (SELECT DISTINCT file, reason, part FROM candidate)"""
    )
    outcomes = []
    for file, reason, part in database.execute(
        "SELECT file, reason, part FROM outcome ORDER BY code"
    ).fetchall():
        decided = {"accepted": file == ACCEPTED, "reason": reason} | (
            {"split": part} if candidates.parts else {}
        )
        ending = b"\n" if file == LOST else b"," + orjson.dumps(decided)[1:] + b"\n"
        outcomes.append(Outcome(file, f"{file}-{part}" if part and file == ACCEPTED else file, ending))
    batches: pa.RecordBatchReader = database.sql(
        """SELECT code, coalesce(bytes, 0)::INTEGER AS bytes FROM candidate AS c JOIN outcome AS o
           ON c.file = o.file AND c.reason IS NOT DISTINCT FROM o.reason AND c.part IS NOT DISTINCT FROM o.part
           ORDER BY row"""
    ).to_arrow_reader(ROWS)
    codes, sizes = np.empty((2, len(candidates)), np.int32)
    row = 0
    for batch in batches:  # ten million rows at once would take 160 MB more
        end = row + len(batch)
        codes[row:end], sizes[row:end] = batch["code"], batch["bytes"]
        row = end
    return Fate(candidates.staged, outcomes, codes, sizes, candidates.parts)
