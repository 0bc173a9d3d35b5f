"""Records in the order of a column (`dataset.order`): staged files with their rows sorted.

The database sorts the keys alone. Each record is then copied once into the file of its range of ranks, and each such
file is sorted by itself. Records with equal values are ordered by id, so the order depends on the records alone. Items
without a record keep their order and come last.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.dataset.stage import SUFFIX, write_staged
from kgqa_hpc.dataset.staged import Staged, StagedFile
from kgqa_hpc.dataset.write import Fate
from kgqa_hpc.errors import InputError

KEYS = 100_000  # inserted into the database at once
FILES = 256  # at most; all are open at once
ROWS = 4096  # smallest number of rows of a file
MEMORY = 64 << 20  # bytes of records copied at once
COPIED = pa.schema([("rank", pa.int64()), ("record", pa.string()), ("lost", pa.string())])

Key = tuple[int, float, str, str]  # numbers sort before texts, texts before null; then by id


def ordered(candidates: Candidates, fate: Fate, column: str, scratch: Path) -> tuple[Staged, Fate]:
    """The same rows in the order of a column. Raises InputError when records have no such column."""
    rank = _ranks(candidates, column)
    size = max(ROWS, -(-len(rank) // FILES))
    paths = [scratch / f"ordered-{number:03d}.arrow" for number in range(-(-len(rank) // size))]
    _distribute(candidates.staged, rank, size, paths)
    files = [StagedFile(path.with_suffix(SUFFIX), _sort(path), candidates.staged.columns) for path in paths]
    by_rank = np.argsort(rank)
    moved = Fate(fate.outcomes, fate.codes[by_rank], fate.bytes[by_rank], fate.parts)
    return Staged(files, candidates.staged.columns), moved


def _ranks(candidates: Candidates, column: str) -> np.ndarray:
    """The new position of every row: int64, shape (rows,)."""
    database = candidates.database
    database.execute(
        "CREATE TABLE sort_key (row BIGINT, kind TINYINT, number DOUBLE, text VARCHAR, id VARCHAR)"
    )
    records = candidates.staged.records(candidates.rows("file <> 'lost'"))
    rows = ((row, *key_of(record, column)) for row, record in records)
    while keys := list(islice(rows, KEYS)):
        columns = zip(("row", "kind", "number", "text", "id"), zip(*keys, strict=True), strict=True)
        with candidates.table("some_keys", dict(columns)):
            database.execute("INSERT INTO sort_key SELECT * FROM some_keys")
    query = """SELECT rank FROM (SELECT row, row_number() OVER (ORDER BY kind NULLS LAST, number, text, id, row) - 1
               AS rank FROM candidate LEFT JOIN sort_key USING (row)) ORDER BY row"""
    return np.asarray(database.execute(query).fetchnumpy()["rank"], np.int64)


def key_of(record: dict[str, Any], column: str) -> Key:
    """The sort key of a record; dots in `column` name a nested field.

    Raises InputError for a column that it does not have.
    """
    value: Any = record
    for name in column.split("."):
        if value is None:
            break
        if not isinstance(value, dict) or name not in value:
            raise InputError(
                f"dataset.order: {record['id']} has no column {column!r}", f"its columns: {', '.join(record)}"
            )
        value = value[name]
    if value is None:
        return 2, 0.0, "", record["id"]
    if isinstance(value, int | float):
        return 0, float(value), "", record["id"]
    return 1, 0.0, value if isinstance(value, str) else orjson.dumps(value).decode(), record["id"]


def _distribute(staged: Staged, rank: np.ndarray, size: int, paths: list[Path]) -> None:
    """Copy every record into the file of its range of ranks, `size` rows per file."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with ExitStack() as stack:
        files = [stack.enter_context(pa.ipc.new_file(path, COPIED, options=options)) for path in paths]
        for lines in _in_memory(staged, rank):
            target = lines["rank"].to_numpy() // size
            for number in np.unique(target):
                files[number].write_table(lines.filter(pa.array(target == number)))


def _in_memory(staged: Staged, rank: np.ndarray) -> Iterator[pa.Table]:
    """All rows with their ranks, in tables of about MEMORY bytes: fewer, larger writes to the many files."""
    tables: list[pa.Table] = []
    start = 0
    for file in staged.files:
        table = file.read(["record", "lost"])
        columns = [pa.array(rank[start : start + file.rows]), staged.lines(file, table), table["lost"]]
        tables.append(pa.table(columns, schema=COPIED))
        start += file.rows
        if sum(table.nbytes for table in tables) >= MEMORY:
            yield pa.concat_tables(tables).combine_chunks()
            tables = []
    if tables:
        yield pa.concat_tables(tables).combine_chunks()


def _sort(path: Path) -> int:
    """Turn a copied file into a sorted staged file; returns its number of rows."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all().sort_by("rank")
    write_staged(path.with_suffix(SUFFIX), table)
    path.unlink()
    return len(table)
