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
    numbers, digests = [np.empty(0, np.int64)], [np.empty((0, 2), np.uint64)]
    start = 0
    for path, size in zip(rows.spools, rows.sizes, strict=True):
        sketch = Sketch(sketch_of(path))
        here = sketch.rows + start
        accepted = rows.status[here] == ACCEPTED
        numbers.append(here[accepted])
        digests.append(sketch.digests()[accepted])
        start += size
    return _repeated(np.concatenate(numbers), np.concatenate(digests))


def _repeated(numbers: np.ndarray, digests: np.ndarray) -> np.ndarray:
    order = np.lexsort((numbers, digests[:, 1], digests[:, 0]))
    repeated = (digests[order][1:] == digests[order][:-1]).all(axis=1)
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
    """Union-find over rows; the first of a group is its root."""

    def __init__(self, size: int) -> None:
        self._parent = np.arange(size, dtype=np.int64)

    def _root(self, one: int) -> int:
        parent = self._parent
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = int(parent[one])
        return one

    def join(self, links: np.ndarray) -> None:
        """(n, 2) pairs of rows, the earlier one first; most bands say what others said before."""
        for first, later in links[self._parent[links[:, 1]] != links[:, 0]].tolist():
            one, other = self._root(first), self._root(later)
            self._parent[max(one, other)] = min(one, other)

    def later(self) -> np.ndarray:
        """Rows that are not the first of their group."""
        return np.flatnonzero(self._parent != np.arange(len(self._parent)))
