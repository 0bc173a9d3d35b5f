"""Count and uniform sample of simple paths of L edges.

A path is a sequence of L + 1 different nodes; each step follows an edge that its layer allows. Without constraints, the
two reading directions of a path count as two paths. Walks are drawn with exact weights (for each node and layer the
number of walks that continue from it, as integers of any size); walks that repeat a node are discarded, so the others
are uniform. Paths of up to four edges are counted exactly, longer ones by the share of walks that were kept, with its
confidence interval.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kgqa_hpc.intervals import wilson
from kgqa_hpc.jit import helper, kernel
from kgqa_hpc.kg.graph import simple_csr
from kgqa_hpc.kg.relations import Csr

T = TypeVar("T")
EXACT = 4  # largest number of edges of a path that is counted exactly
_SAFE = 2.0**62
# Number of failed tries after which a graph is assumed to have no path.
# If a share of 10**-5 of all walks are paths, a path is found with probability 1 - 10**-4.
TRIES = 1_000_000


class PathSpace:
    """All simple paths along `layers`: for each step the allowed edges, as compressed rows (`simple_csr`, directed)."""

    def __init__(self, layers: Sequence[Csr]) -> None:
        self.layers = tuple(layers)
        self.tried = self.kept = 0

    @cached_property
    def _weights(self) -> list[npt.NDArray[np.int64] | npt.NDArray[np.object_]]:
        """For each layer the cumulative sums, over its steps, of the number of walks that continue after the step."""
        ends = np.ones(len(self.layers[0][0]) - 1, np.int64)
        rough = ends.astype(float)
        for starts, nexts in reversed(self.layers):
            rough = np.diff(_sums(rough[nexts])[starts])
        behind = ends if float(rough.sum()) < _SAFE else ends.astype(object)
        sums = []
        for starts, nexts in reversed(self.layers):
            sums.append(_sums(behind[nexts]))
            behind = np.diff(sums[-1][starts])
        return sums[::-1]

    @cached_property
    def _tables(self) -> list[tuple[Any, Any, Any]]:
        """For each layer its starts, next nodes and weights as sequences that Python indexes quickly."""
        # Arrays are not copied, except integers of more than 64 bits, which become lists.
        return [
            (starts.data, nexts.data, sums.tolist() if sums.dtype == object else sums.data)
            for (starts, nexts), sums in zip(self.layers, self._weights, strict=True)
        ]

    @cached_property
    def walks(self) -> int:
        """Exact number of walks along the layers."""
        return int(self._weights[0][-1])

    def total(self) -> tuple[int, int]:
        """Bounds of the number of paths.

        They are equal for up to four edges; for longer paths Wilson's 95 % interval from the draws so far.
        """
        if len(self.layers) <= EXACT and self.walks < _SAFE:
            return (self._count(),) * 2
        if not self.tried:
            return 0, self.walks
        share = wilson(self.kept, self.tried)
        return int(self.walks * (share.low or 0)), int(self.walks * (share.high or 0)) + 1

    def draws(self, seed: int | str) -> Iterator[tuple[int, ...]]:
        """An endless sequence of independent, uniform simple paths; empty if there are none."""
        if not self.walks:
            return
        chance = random.Random(seed)
        while True:
            for _ in range(TRIES):
                walk = self._walk(chance)
                self.tried += 1
                if len(set(walk)) == len(walk):
                    self.kept += 1
                    break
            else:
                return
            yield walk

    def fitting(
        self, seed: int | str, number: int, in_vain: int, make: Callable[[tuple[int, ...]], T | None]
    ) -> Iterator[T]:
        """Results of `make` other than None for distinct paths, in the order of `draws`.

        Ends after `number` results, or after `in_vain` consecutive draws without a result.
        """
        seen: set[tuple[int, ...]] = set()
        hits = vain = 0
        for path in self.draws(seed):
            vain += 1
            if path not in seen:
                seen.add(path)
                anchor = make(path)
                if anchor is not None:
                    yield anchor
                    hits, vain = hits + 1, 0
            if hits == number or vain == in_vain:
                return

    def _walk(self, chance: random.Random) -> tuple[int, ...]:
        starts, nexts, sums = self._tables[0]
        edge = bisect_right(sums, chance.randrange(self.walks)) - 1
        node = nexts[edge]
        walk = [bisect_right(starts, edge) - 1, node]
        for starts, nexts, sums in self._tables[1:]:
            begin, end = starts[node], starts[node + 1]
            offset = chance.randrange(sums[begin], sums[end])
            node = nexts[bisect_right(sums, offset, begin, end + 1) - 1]
            walk.append(node)
        return tuple(walk)

    def _count(self) -> int:
        (starts, nexts), nodes = self.layers[0], len(self.layers[0][0]) - 1
        if len(self.layers) == 1:
            return len(nexts)
        sources = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(starts))
        back = simple_csr(nodes, nexts, sources, directed=True)  # the first step, reversed
        middle = [*self.layers[1:-1], back, back][:2]  # `back` fills missing layers, which are not read
        return int(count_paths(len(self.layers), *chain(back, *middle, self.layers[-1])))


def _sums(values: npt.NDArray) -> npt.NDArray:
    """Cumulative sums that begin with 0, one element longer than `values`."""
    sums = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=sums[1:])
    return sums


@kernel
def count_paths(
    length: int, begin: Any, firsts: Any, two: Any, twos: Any, three: Any, threes: Any, last: Any, lasts: Any
) -> int:
    """Number of node sequences of `length` (2-4) edges without a repeated node; must stay below 2**63.

    Each layer of steps is given as compressed rows: `begin`, `firsts` for the first step, reversed (from the second
    node to the first), `two` and `three` for the second and third step, `last` for the last. An inner part (m1 … m3)
    has as many paths as first nodes times last nodes, minus the pairs of equal nodes.
    """
    n = len(begin) - 1
    mark = np.full(n, -1, np.int64)  # mark[v] == m1: v is a first node of m1
    total = 0
    for m1 in range(n):
        starts = begin[m1 + 1] - begin[m1]
        if starts == 0:
            continue
        for i in range(begin[m1], begin[m1 + 1]):
            mark[firsts[i]] = m1
        if length == 2:
            total += _ends(m1, m1, m1, starts, mark, last, lasts)
            continue
        for j in range(two[m1], two[m1 + 1]):
            m2 = twos[j]
            open_ends = starts - (1 if mark[m2] == m1 else 0)
            if length == 3:
                total += _ends(m1, m2, m2, open_ends, mark, last, lasts)
                continue
            for k in range(three[m2], three[m2 + 1]):
                m3 = threes[k]
                if m3 != m1:
                    remaining = open_ends - (1 if mark[m3] == m1 else 0)
                    total += _ends(m1, m2, m3, remaining, mark, last, lasts)
    return total


@helper
def _ends(m1: int, m2: int, end: int, starts: int, mark: Any, last: Any, lasts: Any) -> int:
    """Number of pairs of a first and a last node that differ and lie outside the inner part; `starts`: first nodes."""
    ends, both = 0, 0
    for i in range(last[end], last[end + 1]):
        node = lasts[i]
        if node != m1 and node != m2:
            ends += 1
            if mark[node] == m1:
                both += 1
    return starts * ends - both
