"""Balanced samples: fewer repetitions of hubs, or an even spread over node types, with weights that undo it.

Uniform samples of graphs with hubs repeat one hub in a large part of all graphlets (in the published dataset
41 nodes occur in more than 2,000 questions, one of them in 9,454). Both methods here choose from a larger
*uniform pool*, in rounds: in round i one more graphlet of every shape is taken from the first POOL_FACTOR *
(i + 1) of its pool. What a round takes depends on earlier rounds only, so samples are nested.

- cap: take the first graphlet of the pool without a *full* node, which is a node in `max_per_node` chosen
  graphlets of any shape. A shape whose pool has no such graphlet yet catches up in a later round.
- spread: graphlets are grouped by the types of their nodes (as a multiset); take the first graphlet of the
  group with the fewest chosen ones. Small groups are used up.

The weight of a graphlet is 1 / (its inclusion probability relative to a uniform sample of the same size from
the same shape): n / (pool size * probability). The position of a graphlet in the pool is random. With a cap,
a graphlet is chosen if its position is below the first position at which one of its nodes caused a refusal;
the probability is this position / pool size (a threshold as in priority sampling: Duffield, Lund, Thorup
2007; Ting 2017). With spread, members of a group are equally likely: the probability is its chosen graphlets
/ its members. The combination is ours.
"""

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.jit import helper, kernel

# Size of the pool in graphlets per requested graphlet.
POOL_FACTOR = 8


@dataclass(frozen=True)
class Balanced:
    """Selected rows of the pool, ascending int64 (m,), their weights float64 (m,) and rounds int64 (m,)."""

    rows: np.ndarray
    weight: np.ndarray
    round: np.ndarray


def cap_nodes(
    shape: np.ndarray, nodes: np.ndarray, position: np.ndarray, per_shape: int, max_per_node: int
) -> Balanced:
    """Choose up to `per_shape` graphlets of each shape so that no node occurs in more than `max_per_node`.

    `shape` (N,), `nodes` (N, 5), -1 padded, and `position` (N,) are a uniform pool. While no node is full,
    the result is the plain uniform sample, with weights 1.
    """
    order, starts = _pools(shape, position)
    ends, rounds, refused = choose_capped(order, starts, nodes, max_per_node, per_shape)
    chance, pool = np.ones(len(shape)), np.zeros(len(shape), np.int64)
    for start, end in zip(starts[:-1].tolist(), ends.tolist(), strict=True):
        rows = order[start : start + end]
        pool[rows] = end
        if refused[rows].any():
            # limit[node]: the first row that was refused because of this node; if there is none, the number of rows.
            members = nodes[rows]
            limit = np.full(int(members.max()) + 2, end, np.int64)  # the last entry: padding
            for column in range(members.shape[1]):
                hits = np.flatnonzero(refused[rows] >> column & 1)
                np.minimum.at(limit, members[hits, column], hits)
            chance[rows] = limit[members].min(axis=1) / end
    return _weighted(rounds, chance, shape, pool)


def spread_types(
    shape: np.ndarray, nodes: np.ndarray, position: np.ndarray, per_shape: int, node_type: np.ndarray
) -> Balanced:
    """Divide each shape's `per_shape` graphlets evenly among the type signatures in the pool.

    The pool is that of `cap_nodes`; `node_type` (n,) holds the type code of every node.
    """
    types = np.where(nodes < 0, -1, np.asarray(node_type)[np.where(nodes < 0, 0, nodes)])
    signature = np.column_stack([shape, np.sort(types, axis=1)])
    group = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
    rounds = np.full(len(shape), -1, np.int64)
    order, starts = _pools(shape, position)
    for start, last in pairwise(starts.tolist()):
        rows = order[start:last]
        _spread_pool(rows.tolist(), group[rows].tolist(), per_shape, rounds)
    seen = position < POOL_FACTOR * per_shape
    accepted = np.bincount(group[rounds >= 0], minlength=len(shape))
    members = np.bincount(group[seen], minlength=len(shape))
    pool = np.bincount(shape[seen], minlength=len(SHAPES) + 1)
    return _weighted(rounds, (accepted / np.maximum(members, 1))[group], shape, pool[shape])


def _spread_pool(pool: list[int], group: list[int], per_shape: int, rounds: np.ndarray) -> None:
    """Select graphlets of one shape in rounds; a group stays in the heap while it has unselected members."""
    waiting: dict[int, list[int]] = {}
    accepted: dict[int, int] = {}
    heap: list[tuple[int, int]] = []  # (number of graphlets chosen from the group, group)
    seen = 0
    for turn in range(min(per_shape, len(pool))):
        for position in range(seen, min(POOL_FACTOR * (turn + 1), len(pool))):
            members = waiting.setdefault(group[position], [])
            if accepted.get(group[position], 0) == len(members):
                heapq.heappush(heap, (len(members), group[position]))
            members.append(pool[position])
            seen = position + 1
        times, chosen = heapq.heappop(heap)
        rounds[waiting[chosen][times]] = turn
        accepted[chosen] = times + 1
        if times + 1 < len(waiting[chosen]):
            heapq.heappush(heap, (times + 1, chosen))


def _pools(shape: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows ordered by shape and position, and the start of each shape: int64 (N,), (shapes + 1,)."""
    order = np.lexsort((position, shape))
    begins = np.flatnonzero(np.diff(shape[order], prepend=-1))
    return order, np.append(begins, len(order))


def _weighted(rounds: np.ndarray, chance: np.ndarray, shape: np.ndarray, pool: np.ndarray) -> Balanced:
    """The selected rows, each with its weight n / (pool size * probability); n: selected rows of its shape."""
    rows = np.flatnonzero(rounds >= 0)
    chosen = np.bincount(shape[rows], minlength=len(SHAPES) + 1)[shape[rows]]
    return Balanced(rows, chosen / (pool[rows] * chance[rows]), rounds[rows])


@kernel
def choose_capped(order, starts, nodes, most, turns):
    """Choose rows of `nodes` int32 (N, 5) so that no vertex occurs in more than `most`.

    Pool s is the rows order[starts[s]:starts[s + 1]] (int64). In each of `turns` rounds, every pool gives its
    next rows without a full vertex, until it has given as many as there were rounds, or its visible rows end;
    each round makes POOL_FACTOR more rows visible. Returns three arrays: the number of rows that each pool
    examined, up to its next row without a full vertex, int64 (pools,); the round in which each row was chosen,
    int64 (N,), -1 where it was not; a bit for each full vertex of a row that was passed over, uint8 (N,).
    """
    pools = starts.shape[0] - 1
    rounds = np.full(nodes.shape[0], -1, np.int64)
    refused = np.zeros(nodes.shape[0], np.uint8)
    load = np.zeros(np.int64(nodes.max()) + 1 if nodes.shape[0] else 1, np.int64)
    position = np.zeros(pools, np.int64)
    accepted = np.zeros(pools, np.int64)
    # The last turn only advances each pool to its next row without a full vertex.
    for turn in range(turns + 1):
        for s in range(pools):
            size = starts[s + 1] - starts[s]
            visible = min(POOL_FACTOR * (turn + 1), size) if turn < turns else size
            while accepted[s] <= turn and position[s] < visible:
                row = order[starts[s] + position[s]]
                refused[row] = _full(nodes[row], load, most)
                if refused[row] == 0:
                    if turn == turns:
                        break
                    rounds[row] = turn
                    accepted[s] += 1
                    for v in nodes[row]:
                        if v >= 0:
                            load[v] += 1
                position[s] += 1
    return position, rounds, refused


@helper
def _full(members, load, most):
    bits = np.uint8(0)
    for i in range(members.shape[0]):
        if members[i] >= 0 and load[members[i]] >= most:
            bits |= np.uint8(1 << i)
    return bits
