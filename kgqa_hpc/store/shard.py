"""Immutable HDF5 shards of anchors: the unit of work.

A shard is written once, by `write_shard`, and never changed. `read_shard` verifies the checksum before it
returns a single anchor. docs/format.md, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.store import canonical
from kgqa_hpc.store.anchors import COLUMNS, GROUP, anchor_row
from kgqa_hpc.store.sealed import create_sealed, read_header
from kgqa_hpc.store.table import open_table, write_table

KIND = "shard"


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A shard as the manifest lists it: file name without .h5, number of anchors, sha256 of the body."""

    name: str
    items: int
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def write_shard(
    path: Path, rows: Sequence[dict[str, Any]], header: dict[str, Any], exclusive: bool = False
) -> ShardEntry:
    """Commit a shard. `exclusive`: leave a shard that is already there; the entry then describes that one."""
    with create_sealed(path, KIND, header={**header, "rows": len(rows)}, exclusive=exclusive) as file:
        write_table(file.create_group(GROUP), COLUMNS, [anchor_row(row) for row in rows])
    return shard_entry(path)


def shard_entry(path: Path) -> ShardEntry:
    """What the header says; the body is not read. Raises CorruptFile, NewerFormat, StoreError."""
    header = read_header(path, KIND)
    return ShardEntry(path.stem, header["rows"], header["sha256"])


def read_shard(path: Path, sha256: str | None = None) -> list[dict[str, Any]]:
    """The anchors, after every byte was verified; with `sha256`, only those of the shard that has it.

    Raises CorruptFile, NewerFormat or StoreError.
    """
    if sha256 is not None and read_header(path, KIND)["sha256"] != sha256:
        raise CorruptFile(f"{path}: is not the shard that the manifest lists")
    with open_shard(path) as anchors:
        return list(anchors)


@contextmanager
def open_shard(path: Path) -> Iterator[Iterator[dict[str, Any]]]:
    """The same, one anchor at a time in memory; every byte is verified before the first."""
    with open_table(path, KIND, GROUP) as table:
        yield map(canonical.loads, table.raw("anchor"))
