"""Tables of rows inside a sealed file, written in chunks and streamed by slices.

A table is an HDF5 group with an attribute "rows" and one member per column:
  text and JSON   a group with `offsets` int64 (rows+1,) and `bytes` uint8 (offsets[-1],): row i is the UTF-8
                  text bytes[offsets[i]:offsets[i+1]]; the group's attribute "type" is "utf8" or "json"
  numbers         a dataset (rows,)
Big datasets are chunked, shuffled (numbers), gzipped and carry fletcher32; small ones are plain.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.store import canonical, sealed

TEXT, JSON = "utf8", "json"
# Smallest size of a compressed column; below it a chunk index costs more than compression saves.
COMPRESS_FROM = 16 * 1024
# Bytes of a chunk before compression, so that a slice of a few hundred rows needs one decompression.
CHUNK_BYTES = 256 * 1024
# Approximate number of bytes that a writer collects per column before it calls HDF5.
FLUSH_BYTES = 4 * 1024 * 1024


def packing(itemsize: int, chunk: int) -> dict[str, Any]:
    """h5py's options for a compressed dataset: bytes of a value, values of a chunk."""
    packed = {"compression": "gzip", "compression_opts": 4, "shuffle": itemsize > 1, "fletcher32": True}
    return {"chunks": (chunk,), **packed}


class TableWriter:
    """Appends rows to the group `group` of an open sealed file; `close` completes the table.

    `columns` maps names to "utf8", "json" or the name of a numpy dtype. A row is a mapping with one value per column;
    JSON columns take any JSON value, and bytes as rendered JSON. Memory is bounded by FLUSH_BYTES per column.
    """

    def __init__(self, group: h5py.Group, columns: Mapping[str, str]) -> None:
        self._group = group
        self._columns = {name: _Column(group, name, kind) for name, kind in columns.items()}
        self.rows = 0

    def append(self, row: Mapping[str, Any]) -> None:
        for name, column in self._columns.items():
            column.append(row[name])
        self.rows += 1

    def close(self) -> None:
        for column in self._columns.values():
            column.flush(last=True)
        self._group.attrs["rows"] = np.int64(self.rows)


class Table:
    """A table of an open sealed file, read by slices."""

    def __init__(self, group: h5py.Group) -> None:
        self._group = group
        self.rows = int(group.attrs["rows"])
        self._opened: dict[str, tuple[h5py.Dataset, h5py.Dataset]] = {}

    def text(self, column: str, start: int = 0, stop: int | None = None) -> list[str]:
        """Rows [start, stop) of a text column."""
        return [str(row, "utf-8") for row in self.raw(column, start, stop)]

    def json(self, column: str, start: int = 0, stop: int | None = None) -> list[Any]:
        """Rows [start, stop) of a JSON column, parsed."""
        return [canonical.loads(row) for row in self.raw(column, start, stop)]

    def numbers(self, column: str) -> npt.NDArray[Any]:
        """All rows of a number column."""
        values: npt.NDArray[Any] = self._group[column][:]
        return values

    def raw(self, column: str, start: int = 0, stop: int | None = None) -> Iterator[memoryview]:
        """Rows [start, stop) of a text or JSON column as bytes, a chunk of the file at a time in memory.

        The datasets are kept open, so that HDF5 caches the last decompressed chunks.
        """
        if column not in self._opened:
            member = self._group[column]
            self._opened[column] = member["offsets"], member["bytes"]
        ends, data = self._opened[column]
        stop = self.rows if stop is None else min(stop, self.rows)
        offsets: list[int] = ends[start : max(start, stop) + 1].tolist() or [0]
        lower, upper = offsets[0], offsets[-1]
        chunk = data.chunks[0] if data.chunks else CHUNK_BYTES
        starts = range(lower - lower % chunk, upper, chunk)
        blocks = (data[max(lower, at) : min(upper, at + chunk)] for at in starts)
        at, window = lower, memoryview(b"")
        for begin, end in pairwise(offsets):
            while at + len(window) < end:
                at, window = begin, memoryview(b"".join((window[begin - at :], next(blocks))))
            yield window[begin - at : end - at]

    def find(self, column: str, value: str) -> int | None:
        """The first row whose text is `value`; one pass over the column, no index needed."""
        needle = value.encode("utf-8", "replace")
        return next((number for number, row in enumerate(self.raw(column)) if row == needle), None)


@contextmanager
def open_table(path: Path, kind: str, group: str) -> Iterator[Table]:
    """The table `group` of a sealed file, verified. Raises CorruptFile, NewerFormat or StoreError."""
    with sealed.open_sealed(path, kind) as file:
        try:
            table = Table(file[group])
        except (KeyError, AttributeError):
            raise CorruptFile(f"{path}: a kgqa-{kind} file without the table {group}") from None
        yield table


def write_table(group: h5py.Group, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole table at once."""
    writer = TableWriter(group, columns)
    for row in rows:
        writer.append(row)
    writer.close()


class _Column:
    """Values of a column, collected in memory and written in pieces of about FLUSH_BYTES.

    The values of a text or JSON column are the bytes of the texts, and the offsets at which the texts end.
    """

    def __init__(self, group: h5py.Group, name: str, kind: str) -> None:
        self._kind = kind
        self._buffer, self._flushed = bytearray(), 0
        self._values: list[Any] = []
        self._bytes: _Dataset | None = None
        if kind in (TEXT, JSON):
            group, name, kind = group.create_group(name), "offsets", "int64"
            group.attrs["type"] = self._kind
            self._bytes, self._values = _Dataset(group, "bytes", np.dtype(np.uint8)), [0]
        self._numbers = _Dataset(group, name, np.dtype(kind))

    def append(self, value: Any) -> None:
        if self._bytes is not None:
            if self._kind == TEXT:
                self._buffer += value.encode("utf-8", "replace")
            else:
                self._buffer += value if value.__class__ is bytes else canonical.dumps(value)
            value = self._flushed + len(self._buffer)
        self._values.append(value)
        if max(len(self._buffer), len(self._values) * self._numbers.dtype.itemsize) >= FLUSH_BYTES:
            self.flush()

    def flush(self, *, last: bool = False) -> None:
        """Write the collected values; with `last`, complete the column."""
        if self._bytes is not None:
            self._flushed += len(self._buffer)
            # The array uses the buffer's memory, so the column starts a new buffer below.
            self._bytes.append(np.frombuffer(self._buffer, dtype=np.uint8), last)
        self._numbers.append(np.array(self._values, dtype=self._numbers.dtype), last)
        self._buffer, self._values = bytearray(), []


class _Dataset:
    """A one-dimensional dataset that grows; created once its size shows whether compression is useful."""

    def __init__(self, group: h5py.Group, name: str, dtype: np.dtype[Any]) -> None:
        self._group, self._name, self.dtype = group, name, dtype
        self._pending: list[npt.NDArray[Any]] = []
        self._h5: h5py.Dataset | None = None

    def append(self, values: npt.NDArray[Any], last: bool) -> None:
        """Append the values; `last`: no others follow."""
        if self._h5 is not None:
            size = self._h5.shape[0]
            self._h5.resize((size + len(values),))
            self._h5[size:] = values
            return
        self._pending.append(values)
        large = sum(array.nbytes for array in self._pending) >= COMPRESS_FROM
        if large or last:
            size = self.dtype.itemsize
            options = {"maxshape": (None,), **packing(size, CHUNK_BYTES // size)} if large else {}
            data = np.concatenate(self._pending)
            self._h5 = self._group.create_dataset(self._name, data=data, track_times=False, **options)
            self._pending = []
