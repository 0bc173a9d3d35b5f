"""The search for near duplicates, cut into tasks: one for each band of the signatures, done by anybody.

A task takes one hash of every accepted question from the sketches, and compares exactly those that agree in it, by the
Jaccard index of their character 5-grams: within a bucket, each with the first of every similar set so far. What it
finds follows from the plan and the band alone, so it does not matter who does which, in which order, or twice.

Memory: 40 bytes a row; the words are read from the sketches when two questions are compared.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import orjson

from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.dataset.sketches import BAND, END, Sketch, band_shape, sketch_of
from kgqa_hpc.dataset.tasks import PLAN
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import disk_errors, exists, write_file

_SUM = 16  # bytes of the checksum before the links of a band


class NearSearch:
    """The search whose plan and findings lie in a folder beside the sketches: a task is a band (tasks.py)."""

    NAME: ClassVar[str] = "near"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.planned = folder / PLAN

    @classmethod
    def plan(cls, beside: Path, rows: Rows, threshold: float) -> NearSearch:
        """The search among the accepted rows; the same rows give the same plan, and what is found of it stays."""
        about = {
            "threshold": threshold,
            "sketches": [sketch_of(path).name for path in rows.spools],
            "sizes": rows.sizes,
        }
        mask = np.zeros(len(rows), bool)
        mask[rows.accepted] = True
        search = cls(beside / cls.NAME)
        with disk_errors(search.folder):
            search.folder.mkdir(exist_ok=True)
        write_file(search.planned, orjson.dumps(about) + b"\n" + mask.tobytes())
        return search

    @cached_property
    def _read(self) -> bytes:
        with disk_errors(self.planned):
            return self.planned.read_bytes()

    @cached_property
    def threshold(self) -> float:
        return float(orjson.loads(self._read.partition(b"\n")[0])["threshold"])

    @property
    def number(self) -> int:
        """How many bands there are."""
        return band_shape(self.threshold)[0]

    def is_done(self, task: int) -> bool:
        """Whether it is known what a band joins."""
        return self.links(task) is not None

    @cached_property
    def _table(self) -> _Table:
        head, _, mask = self._read.partition(b"\n")
        about = orjson.loads(head)
        paths = [self.folder.parent / name for name in about["sketches"]]
        return _Table(paths, about["sizes"], np.frombuffer(mask, bool))

    def do(self, task: int) -> None:
        """Find what a band joins. Raises StoreError, DiskFull."""
        with disk_errors(self.folder):
            rows, hashes = self._table.band(task)
            body = _links(rows, hashes, self._similar).tobytes()
        write_file(self._path(task), self._sum(task, body) + body)

    def links(self, band: int) -> np.ndarray | None:
        """(n, 2) row numbers that are joined by a band; None while that is not known, or not as it was written."""
        path = self._path(band)
        if not exists(path):
            return None
        with disk_errors(path):
            data = path.read_bytes()
        if data[:_SUM] != self._sum(band, data[_SUM:]):
            return None
        return np.frombuffer(data[_SUM:], np.int64).reshape(-1, 2)

    def found(self, band: int) -> np.ndarray:
        """The links of a band that was done. Raises StoreError when it is not."""
        links = self.links(band)
        if links is None:
            raise StoreError(f"{self._path(band)}: is missing or not what was written there", "merge again")
        return links

    def _similar(self, first: int, later: int) -> bool:
        if self._known[later] == first:  # by an earlier band; says the same sooner
            return True
        mine, theirs = self._table.grams(first), self._table.grams(later)
        common = len(mine & theirs)
        if common / (len(mine) + len(theirs) - common) < self.threshold:
            return False
        self._known[later] = first
        return True

    @cached_property
    def _known(self) -> array[int]:
        """For each row the one it was found to be similar to."""
        return array("q", [-1]) * self._table.size

    def _path(self, band: int) -> Path:
        return self.folder / f"band-{band:03d}"

    def _sum(self, band: int, body: bytes) -> bytes:
        """What belongs to this plan and band, whole."""
        digest = hashlib.blake2b(self._digest, digest_size=_SUM, key=band.to_bytes(4, "big"))
        digest.update(body)
        return digest.digest()

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.blake2b(self._read).digest()


class _Table:
    """The wanted rows of all sketches: `wanted` (rows,) is a mask over the rows of all spools."""

    def __init__(self, paths: list[Path], sizes: list[int], wanted: np.ndarray) -> None:
        self.size = len(wanted)
        self._paths, self._wanted = paths, wanted
        self._starts = np.cumsum([0, *sizes])
        self.grams = lru_cache(maxsize=4096)(self._grams)
        self._places = lru_cache(maxsize=4096)(self._placed)

    def band(self, band: int) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers, and the hash of each in this band."""
        rows, hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for path, start in zip(self._paths, self._starts.tolist(), strict=False):
            sketch = Sketch(path)
            here = sketch.rows + start
            wanted = self._wanted[here]
            rows.append(here[wanted])
            hashes.append(sketch.column(BAND + band)[wanted])
        return np.concatenate(rows), np.concatenate(hashes)

    def _grams(self, row: int) -> set[str]:
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        sketch, ends = self._places(shard)
        place = int(np.searchsorted(sketch.rows, row - self._starts[shard]))
        return sketch.grams(int(ends[place]), int(ends[place + 1]))

    def _placed(self, shard: int) -> tuple[Sketch, np.ndarray]:
        sketch = Sketch(self._paths[shard])
        return sketch, np.concatenate([[0], sketch.column(END)])


def _links(rows: np.ndarray, hashes: np.ndarray, similar: Callable[[int, int], bool]) -> np.ndarray:
    """(n, 2): each later row of equal hash with the first of a similar set, in ascending order of both."""
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    begins = np.flatnonzero(np.r_[True, hashes[1:] != hashes[:-1]]) if len(order) else order
    ends = np.r_[begins[1:], len(order)]
    several = ends - begins > 1
    found = array("q")
    for begin, end in zip(begins[several].tolist(), ends[several].tolist(), strict=True):
        firsts: list[int] = []
        for later in rows[order[begin:end]].tolist():
            first = next((one for one in firsts if similar(one, later)), None)
            if first is None:
                firsts.append(later)
            else:
                found.extend((first, later))
    links = np.frombuffer(found, np.int64).reshape(-1, 2)
    return links[np.lexsort((links[:, 1], links[:, 0]))]
