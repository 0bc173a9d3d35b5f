"""The staged files of a merge: their format, writing and reading.

A staged file holds the candidate records of a shard, a row each, and facts about the whole shard in its metadata.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc.dataset.columns import Columns, without_json_text
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import write_file

SUFFIX = ".parquet"
# The key, in a file's metadata, of the facts about its shard: `sampled`: digest of ids and groups of its anchors;
# `waiting`: groups of the items that have not ended; `lists`: (group, status, reason) of items that yielded a list
# of records; `requests`: RequestCounts.rows(); `columns`: Columns.types of its lines. Or `problem` alone: class,
# message and cure of the error that kept the shard from being staged.
FACTS = b"kgqa"
# Columns of a staged file. `question_length`, `answer_length`: characters (null: no pair). `bytes`: approximate length
# of `record`, the JSON of the record without its closing brace (null: no pair).
# `lost`: the line for lost.jsonl (null: none). `single`: the row stands for its item, not for one of a list of records.
# `same`, `words`: the question's words and their digest, in rows that judges accepted, to find duplicates.
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("grp", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("question_length", pa.int32()),
        ("answer_length", pa.int32()),
        ("single", pa.bool_()),
        ("bytes", pa.int32()),
        ("record", pa.string()),
        ("lost", pa.string()),
        ("same", pa.binary(16)),
        ("words", pa.string()),
    ]
)


def staged_table(rows: list[dict[str, Any]], columns: Columns) -> pa.Table:
    """Rows as a table of SCHEMA, each record as a line of JSON with all columns; changes the rows."""
    for row in rows:
        if (record := row["record"]) is not None:
            # Lengths are taken before nulls are added, because the number of nulls depends on the shard.
            row["bytes"] = len(orjson.dumps(record))
            row["record"] = orjson.dumps(columns.conform(record))[:-1]
    return pa.table({name: [row.get(name) for row in rows] for name in SCHEMA.names}, SCHEMA)


def write_staged(path: Path, table: pa.Table) -> None:
    """Write a staged file whole or not at all, with checksums of its pages. Raises DiskFull, StoreError."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="lz4",  # fast, because staged files are read once or twice
        use_dictionary=["grp", "status", "reason"],
        write_statistics=False,
        write_page_checksum=True,
    )
    write_file(path, sink.getvalue(), durable=False)


def sampled_digest(ids: list[str], groups: list[str]) -> str:
    """A digest of the anchors of a shard, given as they are stored."""
    return hashlib.blake2b(orjson.dumps([ids, groups]), digest_size=16).hexdigest()


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
