"""Balanced samples: fewer repetitions of hubs, or an even spread over node types, with weights that undo
it.

Uniform samples of graphs with hubs repeat one hub in a large part of all graphlets (in the published
dataset 41 nodes stand in more than 2,000 questions, one in 9,454). Both methods here thin a larger *uniform
pool*, with inclusion probabilities that are known, so that weighted means over the balanced sample are
unbiased for the uniform one:

- cap: a graphlet g has the keep factor q(g) = the smallest factor of its nodes and a random number u(g); it
  is kept when u(g) / q(g) lies below a threshold t <= 1 that leaves `per_shape` graphlets, hence with
  probability min(1, t q(g)) (priority sampling: Duffield, Lund, Thorup 2007). Factors start at 1 and those
  of overloaded nodes are lowered until no node stands in more than `max_per_node` graphlets of all shapes
  together.
- strata: the graphlets of a shape are grouped by the types of their nodes (as a multiset) and the sample is
  shared out evenly among the groups, small groups giving what they have.

The weight of a graphlet is 1 / (its inclusion probability relative to a uniform sample of the same size
from the same shape): n / (pool size * probability). The combination is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.graphlets.splitmix import key_of, mix

POOL_FACTOR = 8  # graphlets drawn per graphlet wanted
_ROUNDS = 200  # of lowering factors; some twenty are usual
_MARGIN = 0.95  # aim below the cap, for lowering one hub raises others


@dataclass(frozen=True)
class Balanced:
    """Rows of the pool that were kept, and their weights: int64 (m,), float64 (m,)."""

    rows: np.ndarray
    weight: np.ndarray


def cap_nodes(shape: np.ndarray, nodes: np.ndarray, per_shape: int, max_per_node: int, seed: int) -> Balanced:
    """Keep at most `per_shape` graphlets of each shape so that no node stands in more than `max_per_node`.

    `shape` (N,) and `nodes` (N, 5), -1 padded, are a uniform pool. If a plain uniform sample obeys the cap
    already, it is what is returned, with weights 1.
    """
    luck = _luck(shape, nodes, seed)
    padded = np.where(nodes < 0, 0, nodes)
    size = int(nodes.max(initial=0)) + 1
    factor = np.ones(size)
    rows, threshold = _keep(shape, luck, np.ones(len(shape)), per_shape)
    for _ in range(_ROUNDS):
        load = _loads(nodes[rows], size)
        over = load > max_per_node
        if not over.any():
            break
        factor[over] *= _MARGIN * max_per_node / load[over]
        quality = np.where(nodes < 0, 1.0, factor[padded]).min(axis=1)
        rows, threshold = _keep(shape, luck, quality, per_shape)
    else:
        rows = _enforce(rows, nodes, luck, max_per_node)
    quality = np.where(nodes < 0, 1.0, factor[padded]).min(axis=1)
    if (quality == 1.0).all():
        return Balanced(rows, np.ones(len(rows)))
    chance = np.minimum(1.0, threshold[shape[rows]] * quality[rows])
    return Balanced(rows, _relative(shape, rows, chance))


def spread_types(
    shape: np.ndarray, nodes: np.ndarray, per_shape: int, node_type: np.ndarray, seed: int
) -> Balanced:
    """Share each shape's `per_shape` graphlets out evenly among the type signatures in the pool.

    `node_type` (n,) holds the type code of every node.
    """
    luck = _luck(shape, nodes, seed)
    types = np.where(nodes < 0, -1, np.asarray(node_type)[np.where(nodes < 0, 0, nodes)])
    signature = np.column_stack([shape, np.sort(types, axis=1)])
    _, group, sizes = np.unique(signature, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    shape_of_group = np.zeros(len(sizes), np.int64)
    shape_of_group[group] = shape
    quota = np.zeros(len(sizes), np.int64)
    for s in np.unique(shape):
        groups = np.flatnonzero(shape_of_group == s)
        quota[groups] = _even_shares(sizes[groups], per_shape)
    order = np.lexsort((luck, group))
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.sort(order[place < quota[group[order]]])
    chance = (quota / sizes)[group[rows]]
    return Balanced(rows, _relative(shape, rows, chance))


def _luck(shape: np.ndarray, nodes: np.ndarray, seed: int) -> np.ndarray:
    """A uniform number of (0, 1] per graphlet that depends on its content and the seed alone."""
    words = mix(np.asarray(shape, np.uint64) ^ np.uint64(key_of(seed, 3)))
    for column in nodes.T:
        words = mix(words ^ column.astype(np.int64).astype(np.uint64))
    return ((words >> np.uint64(11)) + np.uint64(1)).astype(np.float64) / 2**53


def _keep(
    shape: np.ndarray, luck: np.ndarray, quality: np.ndarray, per_shape: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the smallest luck / quality below 1, `per_shape` of each shape; and each shape's
    threshold.
    """
    priority = luck / quality
    order = np.lexsort((priority, shape))
    sizes = np.bincount(shape, minlength=max(SHAPES) + 1)
    begin = np.cumsum(sizes) - sizes
    place = np.arange(len(order)) - begin[shape[order]]
    threshold = np.ones(len(sizes))
    for s in np.flatnonzero(sizes > per_shape):
        threshold[s] = min(1.0, priority[order[begin[s] + per_shape]])
    kept = (place < per_shape) & (priority[order] <= 1.0)
    return np.sort(order[kept]), threshold


def _loads(nodes: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(nodes[nodes >= 0], minlength=size)


def _enforce(rows: np.ndarray, nodes: np.ndarray, luck: np.ndarray, max_per_node: int) -> np.ndarray:
    """Drop what still exceeds the cap, in random order; happens when factors do not settle."""
    load: dict[int, int] = {}
    kept = []
    for row in rows[np.argsort(luck[rows], kind="stable")].tolist():
        members = [node for node in nodes[row].tolist() if node >= 0]
        if all(load.get(node, 0) < max_per_node for node in members):
            kept.append(row)
            for node in members:
                load[node] = load.get(node, 0) + 1
    return np.sort(np.array(kept, np.int64))


def _relative(shape: np.ndarray, rows: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """n / (pool size * chance) for each kept row, n and pool size those of its shape."""
    length = max(SHAPES) + 1
    pool, kept = np.bincount(shape, minlength=length), np.bincount(shape[rows], minlength=length)
    return (kept / np.maximum(pool, 1))[shape[rows]] / chance


def _even_shares(sizes: np.ndarray, total: int) -> np.ndarray:
    """Shares of `total` as even as `sizes` allow; what does not divide goes to the first groups."""
    shares = np.zeros(len(sizes), np.int64)
    left = min(total, int(sizes.sum()))
    while left:
        open_groups = np.flatnonzero(shares < sizes)
        each = max(left // len(open_groups), 1)
        for group in open_groups[:left]:
            given = min(each, int(sizes[group] - shares[group]), left)
            shares[group] += given
            left -= given
    return shares
