"""Records in the order of a column, where the configuration asks for one: a sort in files, in bounded memory.

Lines are sorted in memory a piece at a time, each piece is written to a file, and the pieces are merged as they are
read again. Records of the same value stand by their ids, so the order follows from the records alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from kgqa_hpc.dataset.files import RecordFiles
from kgqa_hpc.errors import InputError

PIECE_BYTES = 32 << 20  # of lines that are sorted in memory
BATCH = 512  # lines handed on together

Key = list[Any]  # numbers before texts before null, then the id
Line = tuple[Key, int, bytes]  # key, number of its part, the line


@contextmanager
def ordered(files: RecordFiles, column: str | None, scratch: Path) -> Iterator[RecordFiles | Sorter]:
    """What takes the records for `files`: these themselves, or a sorter by a column that hands on at the end.

    `scratch` is a new folder for its pieces. Raises InputError when a record has no such column.
    """
    if column is None:
        yield files
        return
    scratch.mkdir()
    sorter = Sorter(column, scratch)
    yield sorter
    for lines, lengths, parts in sorter.batches():
        files.add(lines, lengths, parts)


class Sorter:
    """Takes records as RecordFiles does, and gives them back in order."""

    def __init__(self, column: str, scratch: Path) -> None:
        self._column, self._scratch = column, scratch
        self._lines: list[Line] = []
        self._bytes = 0
        self._pieces: list[Path] = []

    def add(self, lines: bytes, lengths: np.ndarray, part: np.ndarray) -> None:
        """Take lines, the bytes of each, and the numbers of their parts."""
        ends = np.cumsum(lengths)
        for start, end, number in zip((ends - lengths).tolist(), ends.tolist(), part.tolist(), strict=True):
            line = lines[start:end]
            self._lines.append((key_of(orjson.loads(line), self._column), number, line))
        self._bytes += len(lines)
        if self._bytes >= PIECE_BYTES:
            self._write()

    def batches(self) -> Iterator[tuple[bytes, np.ndarray, np.ndarray]]:
        """All of them in order, as they were given: lines, the bytes of each, and the numbers of their parts."""
        self._lines.sort()
        with ExitStack() as stack:
            pieces = [_read(stack.enter_context(path.open("rb"))) for path in self._pieces]
            rest = heapq.merge(*pieces, self._lines)
            while some := list(islice(rest, BATCH)):
                lines = [line for _, _, line in some]
                lengths = np.array([len(line) for line in lines])
                yield b"".join(lines), lengths, np.array([part for _, part, _ in some])

    def _write(self) -> None:
        self._lines.sort()
        path = self._scratch / f"piece-{len(self._pieces)}"
        with path.open("wb") as file:
            for key, part, line in self._lines:
                file.write(orjson.dumps([key, part]) + b"\n" + line)
        self._pieces.append(path)
        self._lines, self._bytes = [], 0


def _read(file: BinaryIO) -> Iterator[Line]:
    while about := file.readline():
        key, part = orjson.loads(about)
        yield key, part, file.readline()


def key_of(record: dict[str, Any], column: str) -> Key:
    """What a record is ordered by; dots lead into a column. Raises InputError when it has no such column."""
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
        return [2, 0, "", record["id"]]
    if isinstance(value, int | float):
        return [0, value, "", record["id"]]
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return [1, 0, text, record["id"]]
