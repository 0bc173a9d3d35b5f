"""Cutting an enumeration into units and blocks of work, and the working arrays that threads need for them.

A unit is a root, or a slice of a hub's second vertices; a block is some consecutive units, about as much work
as any other block, and what a thread does at a time.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgqa_hpc.graphlets.ordered_graph import OrderedGraph

BLOCK_PREFIXES = 8_000  # approximate number of 3-prefixes of a block; a few milliseconds of work


@dataclass(frozen=True)
class Units:
    """Work in order, int64: unit i is the second vertices firsts[i]..lasts[i] (extension positions) of roots[i].

    Block b is the units bounds[b]..bounds[b + 1].
    """

    roots: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    bounds: np.ndarray

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.bounds) - 1

    def block(self, b: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        block_range = slice(self.bounds[b], self.bounds[b + 1])
        return self.roots[block_range], self.firsts[block_range], self.lasts[block_range]


def cut_units(graph: OrderedGraph, blocks: int | None = None) -> Units:
    """Cut the roots into blocks of about BLOCK_PREFIXES 3-prefixes, or about `blocks`; hubs into slices.

    The 3-prefixes of a root are estimated from above: pairs of its later neighbours, and their neighbours.
    """
    n = graph.num_nodes
    source = np.repeat(np.arange(n, dtype=np.int32), graph.degree)
    up = graph.indices > source
    later = np.bincount(source[up], minlength=n).astype(np.int64)
    beyond = np.bincount(source[up], weights=graph.degree[graph.indices[up]], minlength=n)
    cost = later * (later - 1) / 2 + beyond + 1
    share = cost.sum() / blocks if blocks else BLOCK_PREFIXES
    slices = np.clip(np.ceil(cost / share), 1, np.maximum(later, 1)).astype(np.int64)
    roots = np.repeat(np.arange(n, dtype=np.int64), slices)
    number = np.arange(len(roots)) - np.repeat(np.cumsum(slices) - slices, slices)
    firsts = later[roots] * number // slices[roots]
    lasts = later[roots] * (number + 1) // slices[roots]
    filled = np.cumsum(cost[roots] / slices[roots])
    cuts = np.searchsorted(filled, share * np.arange(1, math.ceil(cost.sum() / share)), side="right")
    bounds = np.unique(np.concatenate([[0], cuts, [len(roots)]]))
    return Units(roots, firsts, lasts, bounds)


class Scratches:
    """Pool of working arrays for threads, lent block by block.

    Each set of arrays records the last root it processed; blocks come in ascending order, so arrays are reset
    only when another round begins.
    """

    def __init__(self, graph: OrderedGraph) -> None:
        self._graph = graph
        self._idle: list[tuple[np.ndarray, ...]] = []

    @contextlib.contextmanager
    def lent(self, root: int) -> Iterator[tuple[np.ndarray, ...]]:
        """The working arrays of kernels.count.walk for walks from `root` on; shapes and dtypes as in `_new`."""
        try:
            scratch = self._idle.pop()
        except IndexError:
            scratch = self._new()
        if scratch[0][0] > root:
            self._restart(scratch)
        yield scratch
        self._idle.append(scratch)

    def _new(self) -> tuple[np.ndarray, ...]:
        n = self._graph.num_nodes
        # The arrays reached, cursor, marks, extension and near.
        arrays = np.zeros(n, np.int64), np.zeros(n, np.uint8), np.zeros(n + 1, np.int32)
        scratch = np.zeros(1, np.int64), *arrays, np.zeros((n, 4), np.int32)
        self._restart(scratch)
        return scratch

    def _restart(self, scratch: tuple[np.ndarray, ...]) -> None:
        reached, cursor, _, _, near = scratch
        reached[0] = -1
        cursor[:] = self._graph.indptr[:-1]
        near[:, 0] = self._graph.degree
