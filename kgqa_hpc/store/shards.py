"""HDF5 files of a run's work: anchors.h5 with all sampled anchors in the order of the work, shards, and results.

All are written once and never changed; every byte is verified before the first anchor or record is read. A result holds
one record per item of a finished shard, in its order: its existence means that the shard is done. The first writer
wins; the write functions return False to later writers. The header alone gives the counts that `status` shows.
docs/reference/format.md, sections 5 and 6.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.store import atomic, canonical, sealed
from kgqa_hpc.store.fingerprint import ResultOrigin
from kgqa_hpc.store.table import JSON, TEXT, TableWriter, open_table, write_table

ANCHORS = "anchors"
GROUP = "anchors"
# `id`, `group` and `weight` repeat members of the JSON so that a reader can find them without parsing it.
COLUMNS = {"id": TEXT, "group": TEXT, "weight": "float64", "anchor": JSON}
Row = dict[str, Any]
# Rows whose offsets are in memory while streaming.
SLICE = 2048


def write_anchors(path: Path, anchors: Iterable[dict[str, Any]], header: dict[str, Any]) -> int:
    """Stream anchors (`Anchor.to_dict()`) into a sealed file; returns how many.

    Memory is bounded: 8 bytes per anchor beside constant buffers. `header` holds small facts to read without opening
    the file (seed, graph digest). Raises ValueError when an id comes twice; DiskFull, StoreError.
    """
    with sealed.create_sealed(path, ANCHORS, header=header) as file:
        # The writer keeps its groups open until the file is closed: HDF5 places the header of a group when the group is
        # closed, and the same anchors must give the same bytes.
        writer = TableWriter(file.create_group(GROUP), COLUMNS)
        hashes = array("q")  # equal 64-bit hashes of a million different ids have probability 1e-7
        for anchor in anchors:
            writer.append(anchor_row(anchor))
            hashes.append(hash(anchor["id"]))
        if repeated := len(hashes) - len(np.unique(np.array(hashes, dtype=np.int64))):
            raise ValueError(f"{path}: {repeated} anchors have an id that another one has")
        writer.close()
        file.header["rows"] = writer.rows
    return writer.rows


def anchor_row(anchor: dict[str, Any]) -> Row:
    """The table row of an anchor."""
    return {"id": anchor["id"], "group": anchor["group"], "weight": anchor["weight"], "anchor": anchor}


class AnchorsFile(ExitStack):
    """An open anchors.h5 or shard; a context manager. Every byte is verified before the first anchor is read.

    Opening raises CorruptFile, NewerFormat, MissingFile or StoreError.
    """

    def __init__(self, path: Path, kind: str = ANCHORS) -> None:
        super().__init__()
        self._table = self.enter_context(open_table(path, kind, GROUP))

    def __len__(self) -> int:
        return self._table.rows

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the anchors [start, stop), a single one at a time in memory."""
        stop = len(self) if stop is None else min(stop, len(self))
        for begin in range(start, stop, SLICE):
            yield from map(canonical.loads, self._table.raw("anchor", begin, min(begin + SLICE, stop)))

    def find(self, anchor_id: str) -> int | None:
        """The row of the anchor with this id; None if there is none."""
        return self._table.find("id", anchor_id)


SHARD = "shard"


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A shard as the manifest lists it: file name without .h5, number of anchors, sha256 of the body."""

    name: str
    items: int
    sha256: str


def write_shard(path: Path, rows: Sequence[dict[str, Any]], header: dict[str, Any]) -> ShardEntry:
    """Commit a shard and return its entry; an existing shard is kept, and its entry returned."""
    with sealed.create_sealed(path, SHARD, header={**header, "rows": len(rows)}, exclusive=True) as file:
        write_table(file.create_group(GROUP), COLUMNS, map(anchor_row, rows))
    header = sealed.read_header(path, SHARD)
    return ShardEntry(path.stem, header["rows"], header["sha256"])


RESULT = "result"
RECORDS = "records"
RECORD_COLUMNS = {"id": TEXT, "status": TEXT, "record": JSON}
# Bytes of the header left for reasons; the rarest are summed up as OTHER when there are too many.
REASON_BYTES = 300
OTHER = "(other)"
# Upper limit of a count, larger than any real count; a sum of a million such counts still fits into 64 bits.
MOST = 2**40


class Tally:
    """Converts records to rows of a result, and sums them up for its header."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._tokens = {"prompt": 0, "completion": 0, "cached": 0}
        self._records: Counter[str] = Counter()  # records by outcome; only of items that yield several
        self._repaired = self._requests = 0

    def row(self, record: dict[str, Any], rendered: bytes | None = None, earlier: int = 0) -> Row:
        """Count a record (`Item.to_record()`) and return its row. `rendered`: its bytes of `canonical.dumps`.

        The first `earlier` requests of its trace are of earlier passes, whose results count them.
        """
        self._counts[record["status"]] += 1
        if record.get("reason"):
            self._reasons[record["reason"]] += 1
        if record["status"] == "accepted":
            for part in record.get("records") or ():
                self._records["rejected" if part.get("reason") else "accepted"] += 1
        for entry in (record.get("trace") or ())[earlier:]:
            self._requests += 1
            self._repaired += bool(entry.get("repaired"))
            for kind, number in (entry.get("tokens") or {}).items():
                self._tokens[kind] = self._tokens.get(kind, 0) + count(number)
        whole = canonical.dumps(record) if rendered is None else rendered
        return {"id": record["id"], "status": record["status"], "record": whole}

    def summary(self) -> dict[str, Any]:
        """Members of the header: counts {status: n}, reasons {reason: n}, tokens {prompt, completion, cached},
        repaired, requests; and records {accepted, rejected} if items yield lists.

        Of the reasons, the most frequent ones that fit into the header; the others are summed up as OTHER.
        """
        reasons, room = Counter[str](), REASON_BYTES
        for reason, number in sorted(self._reasons.items(), key=lambda pair: (-pair[1], pair[0])):
            size = len(canonical.canonical(reason)) + 12
            fits = size <= room
            reasons[reason if fits else OTHER] += number
            room -= size if fits else 0
        return {
            "counts": dict(self._counts),
            "reasons": dict(reasons),
            "tokens": self._tokens,
            "repaired": self._repaired,
            "requests": self._requests,
            **({"records": dict(self._records)} if self._records else {}),
        }


def write_result(path: Path, records: Iterable[dict[str, Any]], header: dict[str, Any]) -> bool:
    """Commit the records (`Item.to_record()`) of a finished shard, in its order; see `write_rows`."""
    tally = Tally()
    return write_rows(path, [tally.row(record) for record in records], tally, header)


def write_rows(path: Path, rows: Sequence[Row], tally: Tally, header: dict[str, Any]) -> bool:
    """Commit the rows of a finished shard, in its order; `tally` has counted exactly these rows.

    Returns False, and changes nothing, if another worker was first. Raises ValueError on a repeated id.
    """
    ids = {row["id"] for row in rows}
    if len(ids) != len(rows):
        raise ValueError(f"{path}: {len(rows) - len(ids)} records have an id that another one has")
    fields = {**header, "rows": len(rows), **tally.summary()}
    atomic.make_folder(path.parent)
    with sealed.create_sealed(path, RESULT, header=fields, exclusive=True) as file:
        write_table(file.create_group(RECORDS), RECORD_COLUMNS, rows)
    return file.committed


def read_result(path: Path, origin: ResultOrigin | None = None) -> list[dict[str, Any]]:
    """All records of a result, verified by bytes and `origin`. Raises CorruptFile, MissingFile, StoreError."""
    return list(iter_result(path, origin))


def iter_result(path: Path, origin: ResultOrigin | None = None) -> Iterator[dict[str, Any]]:
    """The records of a result, one at a time in memory. Raises CorruptFile, MissingFile, StoreError."""
    if origin is not None:
        read_summary(path, origin)
    with open_table(path, RESULT, RECORDS) as table:
        for row in table.raw("record"):
            yield canonical.loads(row)


def read_summary(path: Path, origin: ResultOrigin | None = None) -> dict[str, Any]:
    """The header: one read of 1 KiB. Raises CorruptFile, MissingFile, NewerFormat, StoreError.

    With `origin`, a result of another run, pass or shard is a CorruptFile too.
    """
    header = sealed.read_header(path, RESULT)
    if origin is not None:
        origin.require(path, header)
    return header


def count(number: Any) -> int:
    """An untrusted value as an integer from 0 to MOST; 0 if it is not a number."""
    if number.__class__ is int and 0 <= number <= MOST:  # fast path: nearly every value, millions of calls
        return int(number)
    if isinstance(number, str) and number.isdecimal():
        return MOST
    if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
        return 0
    return int(min(number, MOST))
