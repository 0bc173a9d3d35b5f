"""Writing, the last phase of merge: staged records with their decided fields, as JSON lines and as Parquet.

Records are first put into the order of a column where `dataset.order` names one.

A thread writes one file of JSON lines, or one part of the Parquet files, from the staged files in their order and in
bounded memory. The size of a part is limited by the bytes of its lines. Parquet is converted from the same lines by
Arrow's JSON reader, so both forms hold the same values.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from kgqa_hpc.columns import Type
from kgqa_hpc.dataset.candidates import ACCEPTED, LOST, REJECTED, ROWS, Candidates, Staged, StagedFile
from kgqa_hpc.dataset.columns import value_at
from kgqa_hpc.dataset.stage import SUFFIX, write_staged
from kgqa_hpc.errors import StoreError
from kgqa_hpc.threads import usable_cores

# A row group ends at the limit that is reached first; a thousand published records are about 4 MB of JSON.
ROW_GROUP_ROWS = 2048
ROW_GROUP_BYTES = 8 << 20
# Bytes of JSON lines in a Parquet part, which then stays far below 500 MB: a value takes at most four times its JSON in
# Parquet (8 bytes for a digit and a comma in a list of integers), before compression.
PART_BYTES = 100 * 1000 * 1000
# Limits of `ordered`: most keys inserted into the database at once, most files (all are open at once), fewest rows of a
# file, and bytes of records copied at once (few large writes to the many files).
SORT_KEYS, SORT_FILES, SORT_ROWS, SORT_MEMORY = 100_000, 256, 4096, 64 << 20
COPIED = pa.schema([("rank", pa.int64()), ("record", pa.string()), ("lost", pa.string())])


class Destination(NamedTuple):
    """A destination of rows: a file, the stem of its Parquet files' names, and the end of each line written to it."""

    file: str
    stem: str
    ending: bytes


@dataclass(frozen=True, slots=True)
class Fate:
    """The staged rows in the order of the dataset, with the destination of each.

    `codes` are positions in `destinations`, `sizes` the approximate bytes of the lines: int32 of shape (rows,).
    `parts`: names of the parts of the split.
    """

    staged: Staged
    destinations: list[Destination]
    codes: np.ndarray
    sizes: np.ndarray
    parts: tuple[str, ...] = ()

    def rows(self, member: str, value: str) -> np.ndarray:
        """Numbers of the rows whose destination has this value of `file` or `stem`, ascending: uint32, shape (n,)."""
        matches = np.array([getattr(destination, member) == value for destination in self.destinations], bool)
        return np.flatnonzero(matches[self.codes]).astype(np.uint32)

    def lines(self, rows: np.ndarray, column: str = "record") -> Iterator[pa.Array]:
        """The lines of these rows, by staged file: records with the decided fields at their ends, or items (`lost`)."""
        endings = pa.array([destination.ending for destination in self.destinations], pa.binary())
        for numbers, table in self.staged.read([column], rows):
            lines = table[column].combine_chunks().cast(pa.binary())
            yield pc.binary_join_element_wise(lines, endings.take(pa.array(self.codes[numbers])), b"")


def fate_of(candidates: Candidates) -> Fate:
    """The destinations of all candidates, after all rules."""
    database = candidates.database
    database.execute(
        """CREATE TABLE outcome AS SELECT (row_number() OVER (ORDER BY file, reason, part) - 1)::INTEGER AS code,
           file, reason, part FROM (SELECT DISTINCT file, reason, part FROM candidate)"""
    )
    destinations = []
    for file, reason, part in database.execute(
        "SELECT file, reason, part FROM outcome ORDER BY code"
    ).fetchall():
        decided = {"accepted": file == ACCEPTED, "reason": reason} | (
            {"split": part} if candidates.parts else {}
        )
        ending = b"\n" if file == LOST else b"," + orjson.dumps(decided)[1:] + b"\n"
        destinations.append(
            Destination(file, f"{file}-{part}" if part and file == ACCEPTED else file, ending)
        )
    batches: pa.RecordBatchReader = database.sql(
        """SELECT code, coalesce(bytes, 0)::INTEGER AS bytes FROM candidate AS c JOIN outcome AS o
           ON c.file = o.file AND c.reason IS NOT DISTINCT FROM o.reason AND c.part IS NOT DISTINCT FROM o.part
           ORDER BY row"""
    ).to_arrow_reader(ROWS)
    codes, sizes = np.empty((2, len(candidates)), np.int32)
    row = 0
    for batch in batches:  # in batches: ten million rows at once would take 160 MB more
        end = row + len(batch)
        codes[row:end], sizes[row:end] = batch["code"], batch["bytes"]
        row = end
    return Fate(candidates.staged, destinations, codes, sizes, candidates.parts)


def ordered(candidates: Candidates, fate: Fate, column: str, scratch: Path) -> Fate:
    """The rows of `fate` in the order of a column (`dataset.order`). Raises InputError if records have no such column.

    The database sorts the keys alone. Each record is then copied once into the file of its range of ranks, and each
    such file is sorted by itself. Records with equal values are ordered by id, so the order depends on the records
    alone. Items without a record keep their order and come last.
    """
    staged, order = fate.staged, _order(candidates, column)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    size = max(SORT_ROWS, -(-len(rank) // SORT_FILES))
    paths = [scratch / f"ordered-{number:03d}.arrow" for number in range(-(-len(rank) // size))]
    _distribute(staged, rank, size, paths)
    files = []
    for path in paths:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all().sort_by("rank")
        path.unlink()
        files.append(StagedFile(path.with_suffix(SUFFIX), len(table), staged.columns))
        write_staged(files[-1].path, table)
    return replace(
        fate, staged=Staged(files, staged.columns), codes=fate.codes[order], sizes=fate.sizes[order]
    )


def _order(candidates: Candidates, column: str) -> np.ndarray:
    """The row numbers in the new order: int64, shape (rows,)."""
    database = candidates.database
    database.execute(
        "CREATE TABLE sort_key (row BIGINT, kind TINYINT, number DOUBLE, text VARCHAR, id VARCHAR)"
    )
    records = candidates.staged.records(candidates.rows("file <> 'lost'"))
    rows = ((row, *key_of(record, column)) for row, record in records)
    while keys := list(islice(rows, SORT_KEYS)):
        columns = zip(("row", "kind", "number", "text", "id"), zip(*keys, strict=True), strict=True)
        with candidates.table("some_keys", dict(columns)):
            database.execute("INSERT INTO sort_key SELECT * FROM some_keys")
    query = """SELECT row FROM candidate LEFT JOIN sort_key USING (row)
               ORDER BY kind NULLS LAST, number, text, id, row"""
    return np.asarray(database.execute(query).fetchnumpy()["row"], np.int64)


def key_of(record: dict[str, Any], column: str) -> tuple[int, float, str, str]:
    """The sort key of a record: numbers before texts, texts before null; then by id.

    Raises InputError for a column that it does not have.
    """
    value = value_at(record, column, "dataset.order")
    if value is None:
        return 2, 0.0, "", record["id"]
    if isinstance(value, int | float):
        return 0, float(value), "", record["id"]
    return 1, 0.0, value if isinstance(value, str) else orjson.dumps(value).decode(), record["id"]


def _distribute(staged: Staged, rank: np.ndarray, size: int, paths: list[Path]) -> None:
    """Copy every record into the file of its range of ranks, `size` rows per file."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    tables: list[pa.Table] = []
    with ExitStack() as stack:
        files = [stack.enter_context(pa.ipc.new_file(path, COPIED, options=options)) for path in paths]
        for rows, table in staged.read(["record", "lost"], np.arange(len(rank), dtype=np.uint32)):
            tables.append(table.add_column(0, "rank", pa.array(rank[rows])))
            if rows[-1] + 1 == len(rank) or sum(waiting.nbytes for waiting in tables) >= SORT_MEMORY:
                lines, tables = pa.concat_tables(tables).combine_chunks(), []
                target = lines["rank"].to_numpy() // size
                for number in np.unique(target):
                    files[number].write_table(lines.filter(pa.array(target == number)))


def write_dataset(
    folder: Path,
    fate: Fate,
    part_bytes: int = PART_BYTES,
    progress: Callable[[float], None] = lambda share: None,
    files: tuple[str, ...] = (ACCEPTED, REJECTED, LOST),
) -> None:
    """Write the files of records into `folder`; `progress` is called with the share that is done."""
    columns = fate.staged.columns.all(split=bool(fate.parts))
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    with ThreadPoolExecutor(usable_cores()) as pool:
        futures = [pool.submit(_write_lines, folder / f"{file}.jsonl", fate) for file in files]
        accepted = [f"{ACCEPTED}-{part}" for part in fate.parts] or [ACCEPTED]
        for stem in (*accepted, REJECTED):
            rows = fate.rows("stem", stem)
            bounds = cuts(fate.sizes[rows], part_bytes)
            for number, (begin, end) in enumerate(bounds):
                path = folder / f"{stem}-{number:05d}-of-{len(bounds):05d}.parquet"
                futures.append(pool.submit(_write_parquet, path, schema, fate, rows[begin:end]))
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            progress(done / len(futures))


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of a column type."""
    if isinstance(kind, list):
        return pa.list_(arrow_type(kind[0]))
    if isinstance(kind, dict):
        return pa.struct([(name, arrow_type(inner)) for name, inner in kind.items()])
    return {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}[kind]


def _write_lines(path: Path, fate: Fate) -> None:
    """Write a file of JSON lines: records, or items without a record (lost.jsonl)."""
    lines = fate.lines(fate.rows("file", path.stem), "lost" if path.stem == LOST else "record")
    with path.open("wb") as out:
        size = sum(out.write(_joined(part)) for part in lines)
    _require_whole(path, path.stat().st_size == size)


def _write_parquet(path: Path, schema: pa.Schema, fate: Fate, rows: np.ndarray) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _row_groups(fate.lines(rows)):
            writer.write_table(table_of(group, schema))
    _require_whole(path, pq.read_metadata(path).num_rows == len(rows))


def _require_whole(path: Path, whole: bool) -> None:
    if not whole:
        raise StoreError(f"{path}: is not what was written there", "check the disk, then merge again")


def _joined(lines: pa.Array) -> memoryview:
    """The lines of a binary array one after the other, without a copy."""
    ends = _ends(lines)
    return memoryview(lines.buffers()[2])[ends[0] : ends[-1]]


def _ends(lines: pa.Array) -> np.ndarray:
    """The offsets of a binary array: int32, shape (lines + 1,)."""
    return np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]


def _row_groups(parts: Iterator[pa.Array]) -> Iterator[bytes]:
    """The JSON lines of each row group, concatenated."""
    group: list[memoryview] = []
    rows = size = 0
    for lines in parts:
        while len(lines):
            ends = _ends(lines)
            # Number of lines that fit.
            filling = int(np.searchsorted(ends, int(ends[0]) + ROW_GROUP_BYTES - size))
            group_lines = lines[: min(filling, ROW_GROUP_ROWS - rows)]
            lines, rows = lines[len(group_lines) :], rows + len(group_lines)
            group.append(_joined(group_lines))
            size += len(group[-1])
            if size >= ROW_GROUP_BYTES or rows == ROW_GROUP_ROWS:
                yield b"".join(group)
                group, rows, size = [], 0, 0
    if group:
        yield b"".join(group)


def table_of(lines: bytes, schema: pa.Schema) -> pa.Table:
    """JSON lines as a table of this schema; members outside the schema are ignored."""
    if not len(schema):
        return schema.empty_table()
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pj.ReadOptions(block_size=len(lines) + 1, use_threads=False)
    return pj.read_json(pa.BufferReader(lines), read_options=read, parse_options=parse)


def cuts(sizes: np.ndarray, limit: int) -> list[tuple[int, int]]:
    """Split rows of these `sizes` (bytes, shape (rows,)) into as few ranges of similar size as `limit` allows.

    No range exceeds `limit` by more than one row. Returns (first row, end) of each range, at least one.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    number = -(-total // limit)
    marks = np.arange(1, number, dtype=np.int64) * (total / max(number, 1))
    inner = np.searchsorted(ends, marks, side="left") + 1
    bounds = np.unique(np.r_[0, inner, len(ends)]).tolist()
    return list(pairwise(bounds)) or [(0, 0)]
