"""Files of anchors: anchors.h5 with all sampled anchors in the order of the work, and the shards cut from it.

Both are written once and never changed; every byte is verified before the first anchor is read.
docs/reference/format.md, section 5.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.store import canonical
from kgqa_hpc.store.sealed import create_sealed, read_header
from kgqa_hpc.store.table import JSON, TEXT, TableWriter, open_table, write_table

ANCHORS = "anchors"
GROUP = "anchors"
# `id`, `group` and `weight` repeat members of the JSON so that a reader can find them without parsing it.
COLUMNS = {"id": TEXT, "group": TEXT, "weight": "float64", "anchor": JSON}
# Rows parsed at a time while streaming.
SLICE = 2048


def write_anchors(path: Path, anchors: Iterable[dict[str, Any]], header: dict[str, Any]) -> int:
    """Stream anchors (`Anchor.to_dict()`) into a sealed file; returns how many.

    Memory is bounded: 8 bytes per anchor beside constant buffers. `header` holds small facts to read without opening
    the file (seed, graph digest). Raises ValueError when an id comes twice; DiskFull, StoreError.
    """
    with create_sealed(path, ANCHORS, header=header) as file:
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


def anchor_row(anchor: dict[str, Any]) -> dict[str, Any]:
    """The table row of an anchor."""
    return {"id": anchor["id"], "group": anchor["group"], "weight": anchor["weight"], "anchor": anchor}


class AnchorsFile(ExitStack):
    """An open, verified anchors.h5; a context manager. Opening raises CorruptFile, NewerFormat or StoreError."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._table = self.enter_context(open_table(path, ANCHORS, GROUP))

    def __len__(self) -> int:
        return len(self._table)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the anchors [start, stop), a slice at a time in memory."""
        stop = len(self) if stop is None else min(stop, len(self))
        for begin in range(start, stop, SLICE):
            yield from self._table.json("anchor", begin, min(begin + SLICE, stop))

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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def write_shard(
    path: Path, rows: Sequence[dict[str, Any]], header: dict[str, Any], exclusive: bool = False
) -> ShardEntry:
    """Commit a shard and return its entry. `exclusive`: keep an existing shard, and return that one's entry."""
    with create_sealed(path, SHARD, header={**header, "rows": len(rows)}, exclusive=exclusive) as file:
        write_table(file.create_group(GROUP), COLUMNS, [anchor_row(row) for row in rows])
    header = read_header(path, SHARD)
    return ShardEntry(path.stem, header["rows"], header["sha256"])


@contextmanager
def open_shard(path: Path) -> Iterator[Iterator[dict[str, Any]]]:
    """Open a shard with a single anchor in memory at a time; every byte is verified before the first anchor."""
    with open_table(path, SHARD, GROUP) as table:
        yield map(canonical.loads, table.raw("anchor"))
