"""The immutable HDF5 file of a finished shard: one record per item, in the order of the shard.

Its existence means that the shard is done; the first writer wins, and a second one learns it from the answer.
The header alone gives the counts that `status` shows. docs/format.md, section 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.store import canonical, sealed
from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.store.table import JSON, TEXT, open_table, write_table

KIND = "result"
GROUP = "records"
COLUMNS = {"id": TEXT, "status": TEXT, "record": JSON}
# Bytes of the header left for reasons; the rarest are summed up as OTHER when there are too many.
REASON_BYTES = 300
OTHER = "(other)"
SLICE = 256


def write_result(path: Path, records: Sequence[dict[str, Any]], header: dict[str, Any]) -> bool:
    """Commit the records (`Item.to_record()`) of a finished shard, in the order of the shard.

    Counts by status, reasons, tokens and repairs are added to `header`. Returns False, and changes nothing,
    when another worker was first. Raises ValueError on a repeated id; DiskFull, StoreError.
    """
    ids = {record["id"] for record in records}
    if len(ids) != len(records):
        raise ValueError(f"{path}: {len(records) - len(ids)} records have an id that another one has")
    fields = {**header, "rows": len(records), **summary(records)}
    rows = [{"id": r["id"], "status": r["status"], "record": r} for r in records]
    make_folder(path.parent)
    with sealed.create_sealed(path, KIND, header=fields, exclusive=True) as file:
        write_table(file.create_group(GROUP), COLUMNS, rows)
    return file.committed


def read_result(path: Path) -> list[dict[str, Any]]:
    """All records, after every byte was verified. Raises CorruptFile, MissingFile, NewerFormat,
    StoreError.
    """
    return list(iter_result(path))


def iter_result(path: Path) -> Iterator[dict[str, Any]]:
    """The same, a few hundred records at a time in memory."""
    with open_table(path, KIND, GROUP) as table:
        for start in range(0, len(table), SLICE):
            yield from table.json("record", start, start + SLICE)


def read_summary(path: Path) -> dict[str, Any]:
    """The header: one read of 1 KiB. Raises CorruptFile, MissingFile, NewerFormat, StoreError."""
    return sealed.read_header(path, KIND)


def summary(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """counts {status: n}, reasons {reason: n}, tokens {prompt, completion, cached}, repaired, requests."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    tokens = {"prompt": 0, "completion": 0, "cached": 0}
    repaired = requests = 0
    for record in records:
        counts[record["status"]] += 1
        if record.get("reason"):
            reasons[record["reason"]] += 1
        for entry in record.get("trace") or ():
            requests += 1
            repaired += bool(entry.get("repaired"))
            for kind, number in (entry.get("tokens") or {}).items():
                tokens[kind] = tokens.get(kind, 0) + number
    return {
        "counts": dict(counts),
        "reasons": _fitting(reasons),
        "tokens": tokens,
        "repaired": repaired,
        "requests": requests,
    }


def _fitting(reasons: Counter[str]) -> dict[str, int]:
    """The most frequent reasons that fit into the header; the rest together under OTHER."""
    kept: dict[str, int] = {}
    room = REASON_BYTES
    for reason, number in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])):
        size = len(canonical.canonical(reason)) + 12
        if size > room:
            kept[OTHER] = kept.get(OTHER, 0) + number
        else:
            kept[reason] = number
            room -= size
    return kept
