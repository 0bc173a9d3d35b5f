"""The data files of a dataset: the same records as JSON lines and as Parquet, written in bounded memory.

Records come as finished JSON lines. Parquet is made from these very lines by Arrow's JSON reader, in a thread
beside the one that makes them, so both files hold the same by construction. Nothing in them depends on time or
machine, so the same records give the same bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from kgqa_hpc.store.canonical import sha256_of

LINES_AHEAD = 1 << 20  # bytes of lines that are written at once
WAITING = 2  # row groups and blocks of lines that wait for the thread, with the one in work
# A row group is written at whichever comes first; a thousand published records are about 4 MB of JSON.
ROW_GROUP_ROWS = 2048
ROW_GROUP_BYTES = 8 << 20
# Of JSON lines, in one Parquet part. It stays far below 500 MB: no value takes more than four times its JSON in
# Parquet (8 bytes for a digit and a comma in a list of integers), before compression.
PART_BYTES = 100 * 1000 * 1000


Buffer = bytes | memoryview


class Background:
    """One thread that does things in order; a caller that hands over too quickly waits."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()

    def do(self, work: Callable[[list[Buffer]], None], data: list[Buffer]) -> None:
        """Do `work(data)` after all before it; at most a few wait. Raises what an earlier one raised."""
        while len(self._pending) >= WAITING:
            self._pending.popleft().result()
        self._pending.append(self._thread.submit(work, data))

    def finish(self) -> None:
        """Wait for all. Raises what one of them raised."""
        try:
            while self._pending:
                self._pending.popleft().result()
        finally:
            self._thread.shutdown()


class JsonLines:
    """Finished lines in one file; `sum` is the CRC-32 of what was handed over, once the background is finished."""

    def __init__(self, path: Path, background: Background) -> None:
        self._file: BinaryIO = path.open("wb", buffering=0)
        self.sum = 0
        self._background = background
        self._lines: list[Buffer] = []
        self._bytes = 0

    def add(self, lines: Buffer) -> None:
        """Append whole lines."""
        self._lines.append(lines)
        self._bytes += len(lines)
        if self._bytes >= LINES_AHEAD:
            self.flush()

    def flush(self) -> None:
        """Hand over what is there."""
        self._background.do(self._write, self._lines)
        self._lines, self._bytes = [], 0

    def _write(self, lines: list[Buffer]) -> None:
        for data in lines:
            write_all(self._file, data)
            self.sum = crc32(data, self.sum)

    def close(self) -> None:
        """Once the background is finished; durability is the folder's matter."""
        self._file.close()


class ParquetParts:
    """`stem`-00000-of-000NN.parquet: a part ends with the row group in which its lines reach `part_bytes`."""

    def __init__(
        self, folder: Path, stem: str, schema: pa.Schema, background: Background, part_bytes: int | None
    ) -> None:
        self._folder, self._stem, self._schema, self._limit = folder, stem, schema, part_bytes
        self._background = background
        self._lines: list[Buffer] = []
        self._rows = self._bytes = self._part_bytes = 0
        self._parts: list[Path] = []
        self._sink: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, lines: Buffer, lengths: np.ndarray) -> None:
        """Append records, given as lines and the bytes of each."""
        ends = np.cumsum(lengths)
        row = start = 0
        while row < len(ends):
            full = int(np.searchsorted(ends, start + ROW_GROUP_BYTES - self._bytes)) + 1
            upto = min(len(ends), row + ROW_GROUP_ROWS - self._rows, full)
            end = int(ends[upto - 1])
            self._lines.append(lines[start:end])
            self._rows += upto - row
            self._bytes += end - start
            row, start = upto, end
            if self._bytes >= ROW_GROUP_BYTES or self._rows >= ROW_GROUP_ROWS:
                self.flush()

    def flush(self) -> None:
        """Hand over what is there as one row group."""
        if self._lines:
            self._background.do(self._write, self._lines)
        self._lines, self._rows, self._bytes = [], 0, 0

    def close(self) -> list[Path]:
        """The parts under their final names, at least one, once the background is finished."""
        if not self._parts:
            self._open()
        self._end_part()
        final = []
        for number, part in enumerate(self._parts):
            name = part_name(self._stem, number, len(self._parts))
            final.append(part.rename(self._folder / name))
        return final

    def _write(self, lines: list[Buffer]) -> None:
        if self._writer is None:
            self._open()
        assert self._writer
        data = b"".join(lines)
        self._writer.write_table(table_of(data, self._schema))
        self._part_bytes += len(data)
        if self._limit is not None and self._part_bytes >= self._limit:
            self._end_part()

    def _open(self) -> None:
        part = self._folder / f".{self._stem}-{len(self._parts):05d}.parquet"
        self._sink = part.open("wb")
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._parts.append(part)

    def _end_part(self) -> None:
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._sink.close()
        self._writer = self._sink = None
        self._part_bytes = 0


class ParquetFiles:
    """Parquet parts of one file, a set for each part of a split; without `part_bytes` a set is one Parquet file."""

    def __init__(
        self,
        folder: Path,
        name: str,
        schema: pa.Schema,
        parts: tuple[str, ...] = (),
        part_bytes: int | None = None,
    ) -> None:
        self._background = Background()
        stems = [f"{name}-{part}" for part in parts] or [name]
        self._sets = [ParquetParts(folder, stem, schema, self._background, part_bytes) for stem in stems]

    def add(self, lines: Buffer, lengths: np.ndarray, part: np.ndarray | None = None) -> None:
        """Append records: lines, the bytes of each, and the numbers of their parts where there are any."""
        if len(self._sets) == 1 or part is None:
            self._sets[0].add(lines, lengths)
            return
        ends = np.cumsum(lengths)
        for number, parquet in enumerate(self._sets):
            mine = np.flatnonzero(part == number)
            places = zip((ends - lengths)[mine].tolist(), ends[mine].tolist(), strict=True)
            parquet.add(b"".join([lines[start:end] for start, end in places]), lengths[mine])

    def _files(self) -> Sequence[ParquetParts | JsonLines]:
        return self._sets

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                for file in self._files():
                    file.flush()
        finally:
            try:
                self._background.finish()
            finally:
                for file in self._files():
                    file.close()


class RecordFiles(ParquetFiles):
    """The same and `name`.jsonl with all records; `lines` are these."""

    def __init__(
        self,
        folder: Path,
        name: str,
        schema: pa.Schema,
        parts: tuple[str, ...] = (),
        part_bytes: int | None = None,
    ) -> None:
        super().__init__(folder, name, schema, parts, part_bytes)
        self.lines = JsonLines(folder / f"{name}.jsonl", self._background)

    def add(self, lines: Buffer, lengths: np.ndarray, part: np.ndarray | None = None) -> None:
        """Append records to both."""
        self.lines.add(lines)
        super().add(lines, lengths, part)

    def _files(self) -> Sequence[ParquetParts | JsonLines]:
        return (self.lines, *self._sets)


def write_all(out: BinaryIO, data: Buffer) -> None:
    """Write to an unbuffered file, which may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[out.write(view) :]


def part_name(stem: str, number: int, of: int) -> str:
    """The name of a Parquet part."""
    return f"{stem}-{number:05d}-of-{of:05d}.parquet"


def cuts(sizes: np.ndarray, limit: int) -> list[tuple[int, int]]:
    """Rows with these bytes, shape (rows,), in as few stretches as `limit` allows, of equal bytes as far as rows go.

    No stretch is longer than `limit` and one row. Returns (first row, row behind the last) of each, at least one.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    number = -(-total // limit)
    marks = np.arange(1, number, dtype=np.int64) * (total / max(number, 1))
    inner = np.searchsorted(ends, marks, side="left") + 1
    bounds = np.unique(np.r_[0, inner, len(ends)]).tolist()
    return list(pairwise(bounds)) or [(0, 0)]


def table_of(lines: bytes, schema: pa.Schema) -> pa.Table:
    """JSON lines as a table of this schema; members the schema does not have are left out."""
    if not len(schema):
        return schema.empty_table()
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pj.ReadOptions(block_size=len(lines) + 1, use_threads=False)
    return pj.read_json(pa.BufferReader(lines), read_options=read, parse_options=parse)


def write_sums(folder: Path, known: dict[str, str]) -> None:
    """SHA256SUMS of all files of a folder, in the form `sha256sum --check` reads; `known` spares reading."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [(path.relative_to(folder).as_posix(), path) for path in files]
    lines = [f"{known.get(name) or sha256_of(path)}  {name}\n" for name, path in sorted(names)]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
