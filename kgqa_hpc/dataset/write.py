"""Writing, the last phase of merge: staged records with their decided fields, as JSON lines and as Parquet.

A thread writes one file of JSON lines, or one part of the Parquet files, from the staged files in their order and in
bounded memory. The size of a part is limited by the bytes of its lines. Parquet is converted from the same lines by
Arrow's JSON reader, so both forms hold the same values.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from kgqa_hpc.columns import Type
from kgqa_hpc.dataset.candidates import ROWS, Candidates
from kgqa_hpc.dataset.staged import Staged
from kgqa_hpc.errors import StoreError
from kgqa_hpc.threads import usable_cores

# A row group ends at whichever comes first; a thousand published records are about 4 MB of JSON.
ROW_GROUP_ROWS = 2048
ROW_GROUP_BYTES = 8 << 20
# Bytes of JSON lines in a Parquet part, which then stays far below 500 MB: a value takes at most four times its JSON in
# Parquet (8 bytes for a digit and a comma in a list of integers), before compression.
PART_BYTES = 100 * 1000 * 1000
ACCEPTED, REJECTED, LOST = "accepted", "rejected", "lost"


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome of rows: their file, the reason, and their part of the split."""

    file: str
    reason: str | None
    part: str | None

    @property
    def stem(self) -> str:
        """The name of the Parquet files, without number."""
        return f"{self.file}-{self.part}" if self.part and self.file == ACCEPTED else self.file

    def ending(self, split: bool) -> str:
        """The end of a record's line: the decided fields."""
        decided: dict[str, Any] = {"accepted": self.file == ACCEPTED, "reason": self.reason}
        if split:
            decided["split"] = self.part
        return f",{orjson.dumps(decided).decode()[1:]}\n"


@dataclass(frozen=True, slots=True)
class Fate:
    """The outcome of every row: `codes` are positions in `outcomes`, `bytes` the approximate lengths of the lines.

    Both arrays are int32 of shape (rows,).
    """

    outcomes: list[Outcome]
    codes: np.ndarray
    bytes: np.ndarray
    parts: tuple[str, ...]

    def rows(self, member: str, value: str) -> np.ndarray:
        """Numbers of the rows whose outcome has this value of `file` or `stem`, ascending: uint32, shape (n,)."""
        matches = np.array([getattr(outcome, member) == value for outcome in self.outcomes], bool)
        return np.flatnonzero(matches[self.codes]).astype(np.uint32)

    def endings(self, rows: np.ndarray) -> pa.Array:
        """The endings of the lines of these rows."""
        endings = pa.array([outcome.ending(bool(self.parts)) for outcome in self.outcomes], pa.string())
        return endings.take(pa.array(self.codes[rows]))


def fate_of(candidates: Candidates) -> Fate:
    """The outcomes of all candidates, after all rules."""
    database = candidates.database
    database.execute(
        """CREATE TABLE outcome AS SELECT (row_number() OVER (ORDER BY file, reason, part) - 1)::INTEGER AS code,
           file, reason, part FROM (SELECT DISTINCT file, reason, part FROM candidate)"""
    )
    outcomes = database.execute("SELECT file, reason, part FROM outcome ORDER BY code").fetchall()
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
    return Fate([Outcome(*values) for values in outcomes], codes, sizes, candidates.parts)


def write_dataset(
    folder: Path,
    staged: Staged,
    fate: Fate,
    part_bytes: int = PART_BYTES,
    progress: Callable[[float], None] = lambda share: None,
    files: tuple[str, ...] = (ACCEPTED, REJECTED, LOST),
) -> None:
    """Write the files of records into `folder`; `progress` is called with the share that is done."""
    columns = staged.columns.all(split=bool(fate.parts))
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    with ThreadPoolExecutor(usable_cores()) as pool:
        futures = [
            pool.submit(_write_lines, folder / f"{file}.jsonl", staged, fate, fate.rows("file", file))
            for file in files
        ]
        accepted = [f"{ACCEPTED}-{part}" for part in fate.parts] or [ACCEPTED]
        for stem in (*accepted, REJECTED):
            rows = fate.rows("stem", stem)
            bounds = cuts(fate.bytes[rows], part_bytes)
            for number, (begin, end) in enumerate(bounds):
                path = folder / part_name(stem, number, len(bounds))
                futures.append(pool.submit(_write_parquet, path, schema, staged, fate, rows[begin:end]))
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


def final_lines(staged: Staged, fate: Fate, rows: np.ndarray) -> Iterator[pa.Array]:
    """The complete lines of records for these rows, an array per staged file."""
    for file, numbers, positions in staged.slices(rows):
        table = file.read(["record"]).take(positions)
        yield pc.binary_join_element_wise(staged.lines(file, table), fate.endings(numbers), "")


def _write_lines(path: Path, staged: Staged, fate: Fate, rows: np.ndarray) -> None:
    """Write a file of JSON lines: records, or items without a record (lost.jsonl)."""
    blocks: Iterator[pa.Array]
    if path.stem == LOST:
        tables = (table["lost"].combine_chunks() for _, table in staged.read(["lost"], rows))
        blocks = (pc.binary_join_element_wise(lost, "\n", "") for lost in tables)
    else:
        blocks = final_lines(staged, fate, rows)
    size = 0
    with path.open("wb") as out:
        for lines in blocks:
            size += int(pc.sum(pc.binary_length(lines)).as_py() or 0)
            out.write(_joined(lines))
    _require_whole(path, path.stat().st_size == size)


def _write_parquet(path: Path, schema: pa.Schema, staged: Staged, fate: Fate, rows: np.ndarray) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _row_groups(final_lines(staged, fate, rows)):
            writer.write_table(table_of(group, schema))
    _require_whole(path, pq.read_metadata(path).num_rows == len(rows))


def _require_whole(path: Path, whole: bool) -> None:
    if not whole:
        raise StoreError(f"{path}: is not what was written there", "check the disk, then merge again")


def _row_groups(blocks: Iterator[pa.Array]) -> Iterator[bytes]:
    """The JSON lines of each row group, concatenated."""
    lines: list[memoryview] = []
    rows = size = 0
    for block in blocks:
        lengths = pc.binary_length(block).to_numpy()
        data, ends = _joined(block), np.cumsum(lengths)
        row = start = 0
        while row < len(ends):
            full = int(np.searchsorted(ends, start + ROW_GROUP_BYTES - size)) + 1
            upto = min(len(ends), row + ROW_GROUP_ROWS - rows, full)
            end = int(ends[upto - 1])
            lines.append(data[start:end])
            rows, size = rows + upto - row, size + end - start
            row, start = upto, end
            if size >= ROW_GROUP_BYTES or rows >= ROW_GROUP_ROWS:
                yield b"".join(lines)
                lines, rows, size = [], 0, 0
    if lines:
        yield b"".join(lines)


def _joined(lines: pa.Array) -> memoryview:
    """The bytes of all texts of an array, concatenated, as a view of its buffer."""
    if not len(lines):
        return memoryview(b"")
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def table_of(lines: bytes, schema: pa.Schema) -> pa.Table:
    """JSON lines as a table of this schema; members outside the schema are ignored."""
    if not len(schema):
        return schema.empty_table()
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pj.ReadOptions(block_size=len(lines) + 1, use_threads=False)
    return pj.read_json(pa.BufferReader(lines), read_options=read, parse_options=parse)


def part_name(stem: str, number: int, of: int) -> str:
    """The name of a Parquet part."""
    return f"{stem}-{number:05d}-of-{of:05d}.parquet"


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
