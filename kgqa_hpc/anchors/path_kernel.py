"""Kernels of paths: the number of simple paths of two to four edges, and the ends of a chain of typed steps."""

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


@kernel
def first_arms(
    starts: Any, relation: Any, out: Any, neighbour: Any, node_type: Any, path: Any, types: Any, forward: bool
) -> Any:
    """For each step of a path the edge type, 1 for outgoing, and node type of its first arm; int64 (steps, 3).

    `starts` to `neighbour`: arrays of `Incidence`. `types`: the edge type of each step, -1 for any; `forward`: only
    outgoing edges. Every step has such an arm.
    """
    steps = np.empty((len(path) - 1, 3), np.int64)
    for k in range(len(path) - 1):
        row = starts[path[k]]
        while (
            neighbour[row] != path[k + 1]
            or (types[k] >= 0 and relation[row] != types[k])
            or (forward and not out[row])
        ):
            row += 1
        steps[k, 0], steps[k, 1], steps[k, 2] = relation[row], out[row], node_type[path[k + 1]]
    return steps


@kernel
def chain_ends(
    starts: Any,
    relation: Any,
    out: Any,
    neighbour: Any,
    node_type: Any,
    start: int,
    chain: Any,
    most: int,
    looks: int,
) -> Any:
    """The distinct ends of simple paths from `start` along `chain`, int32; None for more than `most` ends, or if the
    search expands more than `looks` nodes.

    `starts` to `neighbour`: arrays of `Incidence`; `chain`: as from `first_arms`.
    Depth first: `row` and `stop` are the open rows of each node of the path.
    """
    last = len(chain) - 1
    path, row, stop = np.empty(last + 1, np.int64), np.empty(last + 1, np.int64), np.empty(last + 1, np.int64)
    ends = {np.int32(0)}
    ends.clear()
    path[0] = start
    row[0], stop[0] = _rows(starts, relation, out, start, chain[0])
    depth, expanded = 0, 1
    while depth >= 0:
        if row[depth] == stop[depth]:
            depth -= 1
            continue
        node = neighbour[row[depth]]
        row[depth] += 1
        if node_type[node] != chain[depth, 2] or (path[: depth + 1] == node).any():
            continue
        if depth == last:
            ends.add(node)
            if len(ends) > most:
                return None
            continue
        depth, expanded = depth + 1, expanded + 1
        if expanded > looks:
            return None
        path[depth] = node
        row[depth], stop[depth] = _rows(starts, relation, out, node, chain[depth])
    return np.array(list(ends), np.int32)


@helper
def _rows(starts: Any, relation: Any, out: Any, node: int, step: Any) -> Any:
    """First row and end of the arms of a node with the edge type and direction of a step; arms are sorted by both."""
    sort_key = step[0] * 2 + 1 - step[1]
    bounds = np.empty(2, np.int64)
    for side in range(2):
        low, high = starts[node], starts[node + 1]
        while low < high:
            middle = (low + high) // 2
            if relation[middle] * 2 + (0 if out[middle] else 1) < sort_key + side:
                low = middle + 1
            else:
                high = middle
        bounds[side] = low
    return bounds[0], bounds[1]
