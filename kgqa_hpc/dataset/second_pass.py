"""The second look: every row into the file of its outcome."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kgqa_hpc.dataset.columns import arrow_schema
from kgqa_hpc.dataset.files import Background, JsonLines, RecordFiles
from kgqa_hpc.dataset.first_pass import FirstPass
from kgqa_hpc.dataset.ordered import ordered
from kgqa_hpc.dataset.spool import ACCEPTED, REJECTED, Spool, cut_line, read_record, verdict_member

LOST = "lost.jsonl"


def write_rows(
    folder: Path, found: FirstPass, shard_done: Callable[[], None], part_bytes: int, order: str | None
) -> dict[str, str]:
    """Write accepted, rejected and lost from the spools; returns sha256 by name of what was hashed.

    `order` is the column by which accepted and rejected stand; without it they stand as in the shards.
    """
    rows, scratch = found.rows, folder / ".sorted"
    scratch.mkdir()
    schema = arrow_schema(found.columns.all(split=bool(rows.parts)))
    background = Background()
    lost = JsonLines(folder / LOST, background)
    with (
        RecordFiles(folder, "accepted", schema, rows.parts, part_bytes) as accepted,
        RecordFiles(folder, "rejected", schema, (), part_bytes) as rejected,
        ordered(accepted, order, scratch / "accepted") as yes,
        ordered(rejected, order, scratch / "rejected") as no,
    ):
        for shard in _shards(found, folder):
            yes.add(*shard.lines(shard.status == ACCEPTED))
            no.add(*shard.lines(shard.rejected))
            lost.add(shard.lost_lines())
            shard_done()
    lost.flush()
    background.finish()
    shutil.rmtree(scratch)
    return {**accepted.sums, **rejected.sums, LOST: lost.close()}


def _shards(found: FirstPass, folder: Path) -> Iterator[_Shard]:
    layout = found.columns.layout()
    start = 0
    for path, size, own in zip(found.rows.spools, found.rows.sizes, found.layouts, strict=True):
        yield _Shard(found, Spool(path), slice(start, start + size), alike=own == layout)
        if path.is_relative_to(folder):  # not those that other processes may still need
            path.unlink()  # the disk holds what is left to do, not everything twice
        start += size


class _Shard:
    """The rows of one spool as filters and splits left them; `alike`: its columns are those of the dataset."""

    def __init__(self, found: FirstPass, spool: Spool, here: slice, alike: bool) -> None:
        rows = found.rows
        self._spool, self._columns = spool, found.columns
        self._fits = (spool["fits"] > 0) & alike
        self._parts, self._reasons = rows.parts, rows.reasons.texts
        self.status, self._reason, self._part = rows.status[here], rows.reason[here], rows.part[here]
        self._whole = self._fits & ~rows.changed[here] & (not rows.parts)

    @property
    def rejected(self) -> np.ndarray:
        """Rows (a mask) of the rejected files: those with a record."""
        return (self.status == REJECTED) & (self._spool["line"] > 0)

    def lines(self, wanted: np.ndarray) -> tuple[bytes, np.ndarray, np.ndarray]:
        """The lines of the wanted rows (a mask), the bytes of each, and the number of its part, -1 without."""
        rows = np.flatnonzero(wanted)
        lengths = self._spool["line"][rows].astype(np.int64)
        data: list[bytes | memoryview] = []
        for row, taken in self._spool.stretches(rows, self._whole[rows]):
            if taken is not None:
                data.append(taken)
                continue
            data.append(self._rewritten(row))
            lengths[np.searchsorted(rows, row)] = len(data[-1])
        return b"".join(data), lengths, self._part[rows]

    def lost_lines(self) -> bytes:
        """The lines of all rows that are in no other file."""
        gone = np.flatnonzero(~(self.rejected | (self.status == ACCEPTED)))
        starts, ends = self._spool.lost_start[gone].tolist(), self._spool.lost_end[gone].tolist()
        return b"".join([self._spool.bytes[a:b] for a, b in zip(starts, ends, strict=True)])

    def _rewritten(self, row: int) -> bytes:
        """The line of a row that a filter or a split had a word on, or that lacks columns of others."""
        first, rest = self._spool.pieces(row)
        if not self._fits[row]:
            first, rest = cut_line(_line(self._columns.conform(read_record(first, rest))))
        status, reason, part = int(self.status[row]), int(self._reason[row]), int(self._part[row])
        middle = verdict_member(self._reasons[reason] if reason >= 0 else None, status)
        if self._parts:
            middle += b'"split":' + orjson.dumps(self._parts[part] if part >= 0 else None) + b","
        return first + middle + rest


def _line(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
