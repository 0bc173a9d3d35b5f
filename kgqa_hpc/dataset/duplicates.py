"""Accepted questions that an earlier one has already, word for word or nearly.

Both read the sketches that were made with the spools (sketches.py). Near duplicates are what bands find and an exact
comparison confirms (near_search.py), so nothing below the threshold is ever rejected. Of each group connected by such
pairs the first record stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kgqa_hpc.dataset.near_search import NearSearch
from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.dataset.sketches import Sketch, sketch_of
from kgqa_hpc.dataset.spool import ACCEPTED


def exact_duplicates(rows: Rows) -> np.ndarray:
    """Numbers of accepted rows whose question has the words of an earlier accepted one."""
    number = len(rows.accepted)
    numbers, digests = np.empty(number, np.uint32), np.empty((2, number), np.uint64)
    start = end = 0
    for path, size in zip(rows.spools, rows.sizes, strict=True):
        sketch = Sketch(sketch_of(path))
        here = sketch.rows + start
        accepted = rows.status[here] == ACCEPTED
        begin, end = end, end + int(accepted.sum())
        numbers[begin:end] = here[accepted]
        digests[:, begin:end] = sketch.digests()[:, accepted]
        start += size
    order = np.lexsort(digests)  # stable: equal ones stay in the order of their rows
    repeated = np.ones(max(number - 1, 0), bool)
    for half in digests:
        half = half[order]
        repeated &= half[1:] == half[:-1]
    return np.sort(numbers[order[1:][repeated]])


def near_duplicates(rows: Rows, search: NearSearch, do: Callable[[NearSearch], None]) -> np.ndarray:
    """Numbers of the rows of a planned search that are connected to an earlier one; `do` does all its tasks.

    Raises what they raise, and StoreError when one was not done.
    """
    do(search)
    groups = _Groups(len(rows))
    for band in range(search.number):
        groups.join(search.found(band))
    return groups.later()


class _Groups:
    """Union-find over rows, all links of a band at once; the first of a group is its root, and each row knows it."""

    def __init__(self, size: int) -> None:
        self._root = np.arange(size, dtype=np.uint32)

    def join(self, links: np.ndarray) -> None:
        """(n, 2) pairs of rows."""
        while len(links):
            roots = np.sort(self._root[links], axis=1)
            apart = roots[:, 0] != roots[:, 1]
            links, roots = links[apart], roots[apart]
            np.minimum.at(self._root, roots[:, 1], roots[:, 0])
            while not np.array_equal(above := self._root[self._root], self._root):
                self._root = above

    def later(self) -> np.ndarray:
        """Rows that are not the first of their group."""
        return np.flatnonzero(self._root != np.arange(len(self._root)))
