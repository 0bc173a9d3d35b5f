"""Items of a run for exports that need more than a record: raw answers, thoughts."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import orjson

from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.errors import InputError

Json = dict[str, Any]


def items_of(work: FinishedWork) -> Iterator[tuple[int, Json, Json]]:
    """Finished items in the order of the sample: row in anchors.h5, anchor, the item's record."""
    for entry in work.manifest.shards:
        for row, (anchor, item) in enumerate(work.pairs(entry), work.manifest.start(entry.name)):
            if item is not None:
                yield row, anchor, item


class ItemsById:
    """Parts of items (`part(anchor, item)`), found in any order.

    They are in a file in `folder`, with 24 bytes of memory per item.
    """

    def __init__(self, work: FinishedWork, folder: Path, part: Callable[[Json, Json], Json]) -> None:
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - read as long as this lives
        rows, keys, ends = array("q"), array("q"), array("q", [0])
        for row, anchor, item in items_of(work):
            rows.append(row)
            keys.append(hash(item["id"]))
            content = orjson.dumps({**part(anchor, item), "id": item["id"]})
            ends.append(ends[-1] + self._file.write(content))
        self._rows, self._ends = rows, ends
        self._order = np.argsort(np.array(keys, np.int64), kind="stable")
        self._keys = np.array(keys, np.int64)[self._order]

    def find(self, item_id: str) -> tuple[int, Json]:
        """The row of an item in anchors.h5, and its part. Raises InputError for an id of another run."""
        start, end = (np.searchsorted(self._keys, hash(item_id), side) for side in ("left", "right"))
        for position in self._order[start:end].tolist():  # several where hashes are equal
            self._file.seek(self._ends[position])
            item = orjson.loads(self._file.read(self._ends[position + 1] - self._ends[position]))
            if item["id"] == item_id:
                return self._rows[position], item
        raise InputError(f"{item_id} is none of this run's items", "merge again")
