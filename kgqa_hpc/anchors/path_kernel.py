"""Count of simple paths of two to four edges: the number of pairs of ends for each inner part of a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from kgqa_hpc.jit import helper, kernel


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
