"""The lines of a dataset as filters and splits left them, for every process that writes a part of it.

What became of each row lies in one file beside the spools: status, reason, part, and the columns of the dataset. With
the spools it gives the lines of any stretch of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from kgqa_hpc.columns import Column
from kgqa_hpc.dataset.columns import Columns, arrow_schema
from kgqa_hpc.dataset.first_pass import FirstPass
from kgqa_hpc.dataset.spool import (
    ACCEPTED,
    LOST,
    LOST_LINES,
    REJECTED,
    Spool,
    cut_line,
    read_record,
    verdict_member,
)
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import disk_errors, write_file

ACCEPTED_FILE, REJECTED_FILE, LOST_FILE = "accepted", "rejected", "lost"
# Lines, the bytes of each, and the number of its part (-1 without).
Lines = tuple[bytes | memoryview, np.ndarray, np.ndarray]
_ARRAYS = (("status", np.int8), ("reason", np.int32), ("part", np.int8), ("changed", np.bool_))


class FinalLines:
    """All rows of a dataset. Raises StoreError when the file is not the one with this digest."""

    def __init__(self, path: Path, digest: str) -> None:
        with disk_errors(path):
            data = path.read_bytes()
        if _digest(data) != digest:
            raise StoreError(f"{path}: is not what was written there", "merge again")
        head, _, body = data.partition(b"\n")
        self._about: dict[str, Any] = orjson.loads(head)
        self._folder = path.parent
        self.status, self.reason, self.part, self.changed = _arrays(body, sum(self._about["sizes"]))

    @staticmethod
    def save(path: Path, found: FirstPass) -> str:
        """Write the file beside the spools; returns its digest."""
        rows, layout = found.rows, found.columns.layout()
        about = {
            "spools": [spool.name for spool in rows.spools],
            "sizes": rows.sizes,
            "alike": [own == layout for own in found.layouts],
            "fits": found.fits,
            "parts": rows.parts,
            "reasons": rows.reasons.texts,
            "declared": [list(column) for column in found.columns.declared],
            "columns": found.columns.state(),
        }
        data = b"".join([orjson.dumps(about), b"\n", *(getattr(rows, name).tobytes() for name, _ in _ARRAYS)])
        write_file(path, data)
        return _digest(data)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the split, none without one."""
        return tuple(self._about["parts"])

    @property
    def spools(self) -> list[Path]:
        """The files with the lines."""
        return [self._folder / name for name in self._about["spools"]]

    @property
    def reasons(self) -> list[str]:
        """Texts by the numbers in `reason`."""
        reasons: list[str] = self._about["reasons"]
        return reasons

    @cached_property
    def columns(self) -> Columns:
        """The columns of the dataset."""
        columns = Columns(tuple(Column(*one) for one in self._about["declared"]))
        columns.take(self._about["columns"])
        return columns

    @cached_property
    def schema(self) -> pa.Schema:
        """Of accepted and rejected."""
        return arrow_schema(self.columns.all(split=bool(self.parts)))

    def of(self, name: str, first: int, end: int) -> Iterator[Lines]:
        """What rows `first` to `end` put into a file, spool by spool. Raises StoreError for a damaged spool."""
        about = self._about
        for number, here, begin in self._spools(first, end):
            path, alike = self._folder / about["spools"][number], about["alike"][number]
            yield from _Stretch(self, path, alike, here, begin).of(name)

    def lie_ready(self, name: str, first: int, end: int) -> bool:
        """Whether all records that rows `first` to `end` put into a file stand in the spools as they are there."""
        status = ACCEPTED if name == ACCEPTED_FILE else REJECTED
        if self.parts or (self.changed[first:end] & (self.status[first:end] == status)).any():
            return False
        about = self._about
        return all(
            about["alike"][one] and status in about["fits"][one] for one, _, _ in self._spools(first, end)
        )

    def _spools(self, first: int, end: int) -> Iterator[tuple[int, slice, int]]:
        """Of every spool with some of these rows: its number, which rows these are, where they begin in it."""
        start = 0
        for number, size in enumerate(self._about["sizes"]):
            here = slice(max(first, start), min(end, start + size))
            if here.start < here.stop:
                yield number, here, here.start - start
            start += size


class _Stretch:
    """Rows `here` of the dataset, which begin at row `begin` of a spool.

    `alike`: the spool's columns are those of the dataset.
    """

    def __init__(self, final: FinalLines, path: Path, alike: bool, here: slice, begin: int) -> None:
        self._final, self._path, self._alike, self._begin = final, path, alike, begin
        self._status, self._reason, self._part = final.status[here], final.reason[here], final.part[here]
        self._changed = final.changed[here]

    def of(self, name: str) -> Iterator[Lines]:
        if name == LOST_FILE:
            yield from self._lost()
            return
        wanted = self._status == (ACCEPTED if name == ACCEPTED_FILE else REJECTED)
        if not wanted.any():
            return
        # A filter may reject what lies among the accepted or the invalid.
        moved = (wanted & self._changed).any()
        spool = Spool(self._path, range(LOST + 1) if moved else _section(name))
        chosen = np.flatnonzero(wanted & (self._column(spool, "line") > 0))
        if len(chosen):
            yield self._lines(spool, chosen)

    def _lost(self) -> Iterator[Lines]:
        if (self._status == ACCEPTED).all():
            return
        spool = Spool(self._path, range(LOST_LINES, LOST_LINES + 1))
        judged = (self._status == REJECTED) & (self._column(spool, "line") > 0)
        gone = np.flatnonzero(~judged & (self._status != ACCEPTED))
        rows = gone + self._begin
        starts, ends = spool.lost_start[rows], spool.lost_end[rows]
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        yield b"".join([spool.bytes[a:b] for a, b in places]), ends - starts, self._part[gone]

    def _lines(self, spool: Spool, chosen: np.ndarray) -> Lines:
        rows = chosen + self._begin
        fits = (spool["fits"][rows] > 0) & self._alike
        whole = fits & ~self._changed[chosen] & (not self._final.parts)
        lengths = spool["line"][rows].astype(np.int64)
        data: list[bytes | memoryview] = []
        for row, taken in spool.stretches(rows, whole):
            if taken is not None:
                data.append(taken)
                continue
            at = int(np.searchsorted(rows, row))
            data.append(self._rewritten(spool, row, bool(fits[at])))
            lengths[at] = len(data[-1])
        return data[0] if len(data) == 1 else b"".join(data), lengths, self._part[chosen]

    def _rewritten(self, spool: Spool, row: int, fits: bool) -> bytes:
        """The line of a row that a filter or a split had a word on, or that lacks columns of others."""
        final, here = self._final, row - self._begin
        first, rest = spool.pieces(row)
        if not fits:
            record = final.columns.conform(read_record(first, rest))
            first, rest = cut_line(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        reason, part = int(self._reason[here]), int(self._part[here])
        middle = verdict_member(final.reasons[reason] if reason >= 0 else None, int(self._status[here]))
        if final.parts:
            middle += b'"split":' + orjson.dumps(final.parts[part] if part >= 0 else None) + b","
        return first + middle + rest

    def _column(self, spool: Spool, name: str) -> np.ndarray:
        return spool[name][self._begin : self._begin + len(self._status)]


def _section(name: str) -> range:
    section = ACCEPTED if name == ACCEPTED_FILE else REJECTED
    return range(section, section + 1)


def _arrays(body: bytes, rows: int) -> list[np.ndarray]:
    found, start = [], 0
    for _, kind in _ARRAYS:
        found.append(np.frombuffer(body, kind, rows, start))
        start += found[-1].nbytes
    return found


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
