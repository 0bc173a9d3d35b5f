"""Records in the order of a column, where the configuration asks for one: a sort in files, in bounded memory.

Each task sorts a stretch of rows and writes its lines and, apart, their keys. The keys alone are then merged: where
the parts of the dataset begin and end in every sorted piece is known from them, so each part is merged by a task of
its own from slices of the pieces. Records of the same value stand by their ids, so the order follows from the records
alone.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kgqa_hpc.dataset.files import cuts
from kgqa_hpc.dataset.final_lines import FinalLines, Lines
from kgqa_hpc.dataset.tasks import FolderTasks
from kgqa_hpc.errors import InputError

PIECE_BYTES = 32 << 20  # of lines that are sorted in memory
BATCH = 512  # lines handed on together
LINES, KEYS = "lines", "keys"

Key = list[Any]  # numbers before texts before null, then the id
Slice = tuple[int, int, int, int]  # of a piece: bytes from and to in its lines, and in its keys


class SortedPieces(FolderTasks):
    """Stretches of rows, each sorted: tasks are (file, first row, row behind the last)."""

    NAME = "sorted"
    _final: FinalLines | None = None

    def make(self, task: Any, folder: Path) -> dict[str, int]:
        name, first, end = task
        if self._final is None:
            self._final = FinalLines(self.folder.parent / self.about["final"], self.about["digest"])
        records = []
        for lines, lengths, parts in self._final.of(name, first, end):
            ends = np.cumsum(lengths)
            for start, stop, part in zip(
                (ends - lengths).tolist(), ends.tolist(), parts.tolist(), strict=True
            ):
                line = bytes(lines[start:stop])
                records.append((key_of(orjson.loads(line), self.about["column"]), part, line))
        records.sort()
        with (folder / LINES).open("wb") as texts, (folder / KEYS).open("wb") as keys:
            for key, part, line in records:
                texts.write(line)
                keys.write(orjson.dumps([key, part, len(line)]) + b"\n")
        return {}

    def parts(self, name: str, part_bytes: int) -> list[list[Slice]]:
        """For each part of a file its slice of every piece."""
        wanted = [self.place(task) for task, about in enumerate(self.about["tasks"]) if about[0] == name]
        piece, line, key = array("i"), array("q"), array("q")
        with ExitStack() as stack:
            files = [
                _keys(at, stack.enter_context((path / KEYS).open("rb"))) for at, path in enumerate(wanted)
            ]
            for _, at, length, size in heapq.merge(*files):
                piece.append(at)
                line.append(length)
                key.append(size)
        pieces, lines, keys = (np.frombuffer(one, one.typecode) for one in (piece, line, key))
        bounds = cuts(lines, part_bytes)
        ends = [_ends(pieces, sizes, bounds, len(wanted)) for sizes in (lines, keys)]
        slices = np.stack([ends[0][:-1], ends[0][1:], ends[1][:-1], ends[1][1:]], axis=-1)
        found: list[list[Slice]] = slices.tolist()
        return found

    def merged(self, name: str, slices: Sequence[Slice]) -> Iterator[Lines]:
        """The lines of a part in order."""
        wanted = [self.place(task) for task, about in enumerate(self.about["tasks"]) if about[0] == name]
        with ExitStack() as stack:
            pieces = [
                _slice(path, one, stack) for path, one in zip(wanted, slices, strict=True) if one[0] < one[1]
            ]
            rest = heapq.merge(*pieces)
            while some := list(islice(rest, BATCH)):
                lengths = np.array([len(line) for _, _, line in some])
                yield b"".join([line for *_, line in some]), lengths, np.array([part for _, part, _ in some])


def _keys(at: int, file: Any) -> Iterator[tuple[Key, int, int, int]]:
    for about in file:
        key, _, length = orjson.loads(about)
        yield key, at, length, len(about)


def _ends(pieces: np.ndarray, sizes: np.ndarray, bounds: list[tuple[int, int]], number: int) -> np.ndarray:
    """Bytes of every piece before each part, and of all: shape (parts + 1, pieces)."""
    counted = [
        np.bincount(pieces[start:end], weights=sizes[start:end], minlength=number) for start, end in bounds
    ]
    return np.cumsum([np.zeros(number), *counted], axis=0).astype(np.int64)


def _slice(path: Path, where: Slice, stack: ExitStack) -> Iterator[tuple[Key, int, bytes]]:
    lines, keys = (stack.enter_context((path / name).open("rb")) for name in (LINES, KEYS))
    lines.seek(where[0])
    keys.seek(where[2])
    while keys.tell() < where[3]:
        key, part, length = orjson.loads(keys.readline())
        yield key, part, lines.read(length)


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
