"""The search for near duplicates, cut into tasks: one for each band of the signatures, done by anybody.

A task takes one hash of every accepted question from the sketches, and compares exactly those that agree in it, by the
Jaccard index of their character 5-grams: within a bucket, each with the first of every similar set so far. What it
finds follows from the plan and the band alone, so it does not matter who does which, in which order, or twice.

Memory: about 80 bytes a question; the words are read from the sketches when two are compared.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

import numpy as np
import orjson

from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.dataset.sketches import BAND, Sketch, band_shape, sketch_of
from kgqa_hpc.dataset.spool import ACCEPTED
from kgqa_hpc.dataset.tasks import PLAN
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import disk_errors, exists, write_file

_SUM = 16  # bytes of the checksum before the links of a band
KNOWN = 4  # bands in which what a question was found to be similar to is remembered: the first of a set may differ
READ = 512  # questions whose grams are kept while a band is compared, 25 kB each


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
        mask = rows.status == ACCEPTED
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
    def _questions(self) -> _Questions:
        head, _, mask = self._read.partition(b"\n")
        about = orjson.loads(head)
        paths = [self.folder.parent / name for name in about["sketches"]]
        return _Questions(paths, about["sizes"], np.frombuffer(mask, bool))

    def do(self, task: int) -> None:
        """Find what a band joins. Raises StoreError, DiskFull."""
        with disk_errors(self.folder):
            rows = self._questions.rows
            members, leaders = self._compared(self._questions.hashes(task))
            body = np.stack([rows[leaders], rows[members]], axis=1).tobytes()
        write_file(self._path(task), self._sum(task, body) + body)

    def links(self, band: int) -> np.ndarray | None:
        """(n, 2) uint32 row numbers, the earlier one first, that a band joins; each later row stands there once.

        None while that is not known, or not as it was written.
        """
        path = self._path(band)
        if not exists(path):
            return None
        with disk_errors(path):
            data = memoryview(path.read_bytes())
        if data[:_SUM] != self._sum(band, data[_SUM:]):
            return None
        return np.frombuffer(data[_SUM:], np.uint32).reshape(-1, 2)

    def found(self, band: int) -> np.ndarray:
        """The links of a band that was done. Raises StoreError when it is not."""
        links = self.links(band)
        if links is None:
            raise StoreError(f"{self._path(band)}: is missing or not what was written there", "merge again")
        return links

    def _compared(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Questions that are similar to an earlier one of equal hash, and the first of the set that they belong to."""
        grams = lru_cache(READ)(self._questions.grams)

        def similar(first: int, later: int) -> bool:
            if first in self._known[:, later]:
                return True
            mine, theirs = grams(first), grams(later)
            common = len(mine & theirs)
            return common / (len(mine) + len(theirs) - common) >= self.threshold

        members, leaders = _sets(hashes, self._known, similar)
        later = leaders != members
        members, leaders = members[later], leaders[later]
        self._known[self._turn, members] = leaders
        self._turn = (self._turn + 1) % KNOWN
        return members, leaders

    _turn = 0

    @cached_property
    def _known(self) -> np.ndarray:
        """(KNOWN, questions): what each was found to be similar to in the last bands; says the same sooner."""
        return np.full((KNOWN, len(self._questions.rows)), -1, np.int32)

    def _path(self, band: int) -> Path:
        return self.folder / f"band-{band:03d}"

    def _sum(self, band: int, body: bytes | memoryview) -> bytes:
        """What belongs to this plan and band, whole."""
        digest = hashlib.blake2b(self._digest, digest_size=_SUM, key=band.to_bytes(4, "big"))
        digest.update(body)
        return digest.digest()

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.blake2b(self._read).digest()


class _Questions:
    """The wanted rows of all sketches, numbered in their order; `wanted` (rows,) is a mask over all rows there are."""

    def __init__(self, paths: list[Path], sizes: list[int], wanted: np.ndarray) -> None:
        self._sketches = [Sketch(path) for path in paths]
        rows, places, start = [np.empty(0, np.uint32)], [np.empty(0, np.uint32)], 0
        for sketch, size in zip(self._sketches, sizes, strict=True):
            here = sketch.rows + start
            kept = np.flatnonzero(wanted[here])
            rows.append(here[kept].astype(np.uint32))
            places.append(kept.astype(np.uint32))
            start += size
        self.rows = np.concatenate(rows)
        self._places = np.concatenate(places)
        self._ends = list(accumulate(map(len, places[1:])))

    def hashes(self, band: int) -> np.ndarray:
        """(questions,) uint64: the hash of each in this band."""
        found, start = np.empty(len(self.rows), np.uint64), 0
        for sketch, end in zip(self._sketches, self._ends, strict=True):
            found[start:end] = sketch.column(BAND + band)[self._places[start:end]]
            start = end
        return found

    def grams(self, question: int) -> set[str]:
        """The distinct grams of a question."""
        return self._sketches[bisect_right(self._ends, question)].grams(int(self._places[question]))


def _sets(
    hashes: np.ndarray, known: np.ndarray, similar: Callable[[int, int], bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Questions that share their hash with others, and for each the first of its similar set, perhaps itself."""
    order = np.argsort(hashes, kind="stable").astype(np.int32)
    hashes = hashes[order]
    begins, ends = np.ones((2, len(order)), bool)
    begins[1:] = ends[:-1] = hashes[1:] != hashes[:-1]
    shared = ~(begins & ends)
    members, begins = order[shared], begins[shared]
    leaders = members[begins][np.cumsum(begins) - 1]
    left = np.flatnonzero(~np.any([some[members] == leaders for some in known], axis=0))
    firsts: list[int] = []
    views = left.data, members[left].data, begins[left].data  # lists would hold objects
    for at, one, begins_set in zip(*views, strict=True):
        if begins_set:
            firsts = []
        leader = next((first for first in firsts if similar(first, one)), one)
        if leader == one:
            firsts.append(one)
        leaders[at] = leader
    return members, leaders
