"""anchors.h5: everything sampled, in the order it will be worked on. docs/format.md, section 5."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from kgqa_hpc.store.sealed import create_sealed
from kgqa_hpc.store.table import JSON, TEXT, TableWriter, open_table

KIND = "anchors"
GROUP = "anchors"
# `id`, `group` and `weight` repeat members of the JSON so that a reader can look for them without parsing it.
COLUMNS = {"id": TEXT, "group": TEXT, "weight": "float64", "anchor": JSON}
# Rows parsed at a time while streaming.
SLICE = 2048


def write_anchors(path: Path, anchors: Iterable[dict[str, Any]], header: dict[str, Any]) -> int:
    """Stream anchors (`Anchor.to_dict()`) into a sealed file; returns how many.

    Memory is bounded: 8 bytes per anchor beside constant buffers. `header` holds small facts to read
    without opening the file (seed, graph digest). Raises ValueError when an id comes twice; DiskFull,
    StoreError.
    """
    with create_sealed(path, KIND, header=header) as file:
        writer = TableWriter(file.create_group(GROUP), COLUMNS)
        ids = _Distinct()
        for anchor in anchors:
            writer.append(anchor_row(anchor))
            ids.add(anchor["id"])
        ids.check(path)
        writer.close()
        file.header["rows"] = writer.rows
    return writer.rows


def anchor_row(anchor: dict[str, Any]) -> dict[str, Any]:
    """The table row of an anchor."""
    return {"id": anchor["id"], "group": anchor["group"], "weight": anchor["weight"], "anchor": anchor}


class AnchorsFile:
    """An open, verified anchors.h5; a context manager.

    Opening raises CorruptFile, NewerFormat or StoreError.
    """

    def __init__(self, path: Path) -> None:
        self._open = open_table(path, KIND, GROUP)
        self._table = self._open.__enter__()

    def __len__(self) -> int:
        return len(self._table)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Anchors [start, stop), a slice at a time in memory."""
        stop = len(self) if stop is None else min(stop, len(self))
        for begin in range(start, stop, SLICE):
            yield from self._table.json("anchor", begin, min(begin + SLICE, stop))

    def find(self, anchor_id: str) -> int | None:
        """The row of an id."""
        return self._table.find("id", anchor_id)

    def close(self) -> None:
        self._open.__exit__(None, None, None)

    def __enter__(self) -> AnchorsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Distinct:
    """Finds repeated ids by 8 bytes each: equal 64-bit hashes of different ids are as good as impossible
    (1e-7 for a million).
    """

    def __init__(self) -> None:
        self._hashes = bytearray()

    def add(self, value: str) -> None:
        self._hashes += hash(value).to_bytes(8, "little", signed=True)

    def check(self, path: Path) -> None:
        hashes = np.sort(np.frombuffer(bytes(self._hashes), dtype=np.int64))
        repeated = int((hashes[1:] == hashes[:-1]).sum())
        if repeated:
            raise ValueError(f"{path}: {repeated} anchors have an id that another one has")
