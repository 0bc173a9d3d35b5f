"""The data files of a dataset: the same records as JSON lines and as Parquet, written in bounded memory.

Nothing in them depends on time or machine, so the same records give the same bytes.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.store.canonical import sha256_of

# A row group is written at whichever comes first; a thousand published records are about 4 MB of JSON.
ROW_GROUP_ROWS = 2048
ROW_GROUP_BYTES = 16 << 20


class JsonLines:
    """One JSON object per line, UTF-8."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")

    def add(self, record: dict[str, Any]) -> int:
        """Append one record; returns its size in bytes."""
        return self._file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Flush and close; durability is the folder's matter (swap.py)."""
        self._file.close()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class RecordFiles:
    """`name`.jsonl and `name`.parquet with the same records in the same order."""

    def __init__(self, folder: Path, name: str, columns: Columns) -> None:
        self._columns = columns
        self._schema = columns.schema()
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        with ExitStack() as stack:
            self._lines = stack.enter_context(JsonLines(folder / f"{name}.jsonl"))
            path = folder / f"{name}.parquet"
            self._parquet = stack.enter_context(pq.ParquetWriter(path, self._schema, compression="zstd"))
            self._stack = stack.pop_all()

    def add(self, record: dict[str, Any]) -> None:
        """Append one record (record.build_record) to both files."""
        record = self._columns.conform(record)
        self._bytes += self._lines.add(record)
        self._rows.append(record)
        if len(self._rows) >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._parquet.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._bytes = [], 0

    def __enter__(self) -> RecordFiles:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._stack:
            if error is None:
                self._flush()


def write_sums(folder: Path) -> None:
    """SHA256SUMS of all files of a folder, in the form `sha256sum --check` reads."""
    lines = [f"{sha256_of(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path.is_file()]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
