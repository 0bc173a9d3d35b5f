"""The second look: every row into the file of its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from kgqa_hpc.dataset.columns import Columns, arrow_schema
from kgqa_hpc.dataset.files import Background, JsonLines, RecordFiles
from kgqa_hpc.dataset.first_pass import FirstPass
from kgqa_hpc.dataset.record import HEAD
from kgqa_hpc.dataset.rows import ACCEPTED, NO_PART, REJECTED
from kgqa_hpc.dataset.spool import read_pieces, read_record

LOST = "lost.jsonl"


def write_rows(
    folder: Path, found: FirstPass, shard_done: Callable[[], None], part_bytes: int
) -> dict[str, str]:
    """Write accepted, rejected and lost from the spools; returns sha256 by name of what was hashed."""
    rows = found.rows
    schema = arrow_schema(found.columns.all(split=bool(rows.parts)))
    middles = _middles(found)
    status, part = rows.status.tolist(), rows.part.tolist()
    reason = rows.reason.tolist()
    background = Background()
    lost = JsonLines(folder / LOST, background)
    with (
        RecordFiles(folder, "accepted", schema, rows.parts, part_bytes) as accepted,
        RecordFiles(folder, "rejected", schema, (), part_bytes) as rejected,
    ):
        for row, (first, rest, lost_line) in enumerate(_all_pieces(found, shard_done)):
            if status[row] == ACCEPTED:
                accepted.add(max(part[row], 0), first, middles[part[row]], rest)
            elif status[row] == REJECTED and first:
                rejected.add(0, first, _rejected(rows.reasons.texts[reason[row]], rows.parts), rest)
            else:
                lost.add(lost_line)
    lost.flush()
    background.finish()
    return {**accepted.sums, **rejected.sums, LOST: lost.close()}


def _all_pieces(found: FirstPass, shard_done: Callable[[], None]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The pieces of all rows; lines end with a newline, and have the form of the whole dataset."""
    layout = found.columns.layout()
    for spool, own in zip(found.rows.spools, found.layouts, strict=True):
        same = own == layout
        for first, rest, lost in read_pieces(spool):
            yield first, _final(first, rest, same, found.columns), lost
        spool.unlink()  # the disk holds what is left to do, not everything twice
        shard_done()


def _final(first: bytes, rest: bytes, same: bool, columns: Columns) -> bytes:
    if not first:
        return rest
    if same:
        return rest + b"\n"
    record = columns.conform(read_record(first, rest))
    return orjson.dumps({k: v for k, v in record.items() if k not in HEAD})[1:] + b"\n"


def _middles(found: FirstPass) -> dict[int, bytes]:
    """The members between the two pieces of an accepted record, by number of its part."""
    plain = b'"accepted":true,"reason":null,'
    names = {number: orjson.dumps(name) for number, name in enumerate(found.rows.parts)}
    return {NO_PART: plain, **{number: plain + b'"split":' + name + b"," for number, name in names.items()}}


def _rejected(reason: str, parts: tuple[str, ...]) -> bytes:
    middle = b'"accepted":false,"reason":' + orjson.dumps(reason) + b","
    return middle + b'"split":null,' if parts else middle
