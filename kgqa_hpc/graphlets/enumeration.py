"""Bulk ESU over a whole graph: exact counts, and uniform samples without replacement by rank.

Pass 1 counts the occurrences of each shape in each *block* of consecutive units of work; for each shape
distinct ranks are drawn from [0, total); pass 2 walks the blocks that hold ranks and writes the occurrences
that have them. A unit is a root, or a slice of a hub's second vertices, so no thread is left alone with a
hub.

Ranks depend on graph and seed alone, hence so does the sample: not on threads, blocks, or who ran which.
Time about 0.7 ns per occurrence on one core (tools/bench_graphlets.py), twice for samples; memory 5 bytes
per vertex and thread, 100 bytes per block, 44 bytes per sampled graphlet. Counts are int64: totals up to
2**62.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgqa_hpc.graphlets.kernels import enumerate as kernels
from kgqa_hpc.graphlets.order import OrderedGraph
from kgqa_hpc.graphlets.shapes import SHAPE_OF, SHAPES, SLOTS
from kgqa_hpc.graphlets.splitmix import distinct_ranks
from kgqa_hpc.graphlets.threads import Progress, run_parts

BLOCKS = 2048  # at most
BLOCK_COST = 1e5  # of a block at least, about a tenth of a millisecond


def _bulk_tables() -> tuple[np.ndarray, ...]:
    """Shape ids of a 3-prefix extended by patterns, indexed by the third vertex's pattern (1..3), then p
    (and q).

    three[t]; four[t, p]; fresh[t, p]: fifth vertex adjacent to the fourth only; apart and joined[t, p, q]:
    fourth and fifth vertex non-adjacent, adjacent.
    """
    three = np.zeros(4, np.int64)
    four, fresh = np.zeros((4, 8), np.int64), np.zeros((4, 8), np.int64)
    apart, joined = np.zeros((4, 8, 8), np.int64), np.zeros((4, 8, 8), np.int64)
    for t in (1, 2, 3):
        triple = 1 | (t << 1)
        three[t] = SHAPE_OF[3][triple]
        for p in range(1, 8):
            quadruple = triple | (p << 3)
            four[t, p] = SHAPE_OF[4][quadruple]
            fresh[t, p] = SHAPE_OF[5][quadruple | (8 << 6)]
            for q in range(1, 8):
                apart[t, p, q] = SHAPE_OF[5][quadruple | (q << 6)]
                joined[t, p, q] = SHAPE_OF[5][quadruple | ((q | 8) << 6)]
    return three, four, fresh, apart, joined


_TABLES = _bulk_tables()


@dataclass(frozen=True)
class Units:
    """Work in order: unit i is the second vertices firsts[i]..lasts[i] (extension positions) of root
    roots[i].

    All int64. Block b is the units bounds[b]..bounds[b + 1].
    """

    roots: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    bounds: np.ndarray

    def block(self, b: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        here = slice(self.bounds[b], self.bounds[b + 1])
        return self.roots[here], self.firsts[here], self.lasts[here]


def cut_units(graph: OrderedGraph, blocks: int | None = None) -> Units:
    """Cut the roots into at most about 2 * `blocks` blocks of similar cost; hubs into slices of second
    vertices.

    The cost of a root is taken as the cube of its later neighbours, enough for balance.
    """
    n = graph.num_nodes
    source = np.repeat(np.arange(n, dtype=np.int32), graph.degree)
    later = np.bincount(source[graph.indices > source], minlength=n).astype(np.int64)
    cost = later.astype(float) ** 3 + 1
    blocks = blocks or int(min(BLOCKS, 1 + cost.sum() / BLOCK_COST))
    share = cost.sum() / blocks if n else 1.0
    slices = np.clip(np.ceil(cost / share), 1, np.maximum(later, 1)).astype(np.int64)
    roots = np.repeat(np.arange(n, dtype=np.int64), slices)
    number = np.arange(len(roots)) - np.repeat(np.cumsum(slices) - slices, slices)
    firsts = later[roots] * number // slices[roots]
    lasts = later[roots] * (number + 1) // slices[roots]
    filled = np.cumsum(cost[roots] / slices[roots])
    cuts = np.searchsorted(filled, share * np.arange(1, blocks), side="right")
    bounds = np.unique(np.concatenate([[0], cuts, [len(roots)]]))
    return Units(roots, firsts, lasts, bounds)


class _Scratch(threading.local):
    """Working arrays of one thread. The cursors only move forward, so they start afresh when roots step
    back.
    """

    def __init__(self, graph: OrderedGraph) -> None:
        self._start = graph.indptr[:-1]
        self.cursor = self._start.copy()
        self.marks = np.zeros(graph.num_nodes, np.uint8)
        self.extension = np.zeros(graph.num_nodes + 1, np.int32)
        self._root = 0

    def at(self, root: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if root < self._root:
            self.cursor[:] = self._start
        self._root = root
        return self.cursor, self.marks, self.extension


def count_blocks(
    graph: OrderedGraph,
    units: Units,
    *,
    largest: int = 5,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Induced occurrences of each shape in each block; int64 (blocks, 30)."""
    scratch = _Scratch(graph)

    def count(block: int) -> np.ndarray:
        roots, firsts, lasts = units.block(block)
        arrays = scratch.at(int(roots[0]))
        return kernels.count_units(
            roots, firsts, lasts, largest, graph.indptr, graph.indices, arrays, _TABLES
        )

    blocks = range(len(units.bounds) - 1)
    counts = run_parts(count, blocks, threads=threads, progress=progress, label="counting")
    return np.array(counts, np.int64).reshape(len(blocks), SLOTS)


@dataclass(frozen=True)
class Found:
    """Occurrences as found: shape int64 (m,), nodes int32 (m, 5) in the graph's labels, -1 padded, codes
    int64 (m,).
    """

    shape: np.ndarray
    nodes: np.ndarray
    codes: np.ndarray


def enumerate_sample(
    graph: OrderedGraph,
    sizes: dict[int, int],
    seed: int,
    *,
    largest: int | None = None,
    blocks: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[dict[int, int], Found]:
    """Exact counts and `sizes[shape]` occurrences of each shape, uniform without replacement; all where
    there are fewer.

    The counts cover the shapes of up to `largest` nodes (default: those of the largest shape in `sizes`).
    """
    largest = largest or max((SHAPES[shape].k for shape in sizes), default=3)
    units = cut_units(graph, blocks)
    per_block = count_blocks(graph, units, largest=largest, threads=threads, progress=progress)
    totals = {shape: int(per_block[:, shape].sum()) for shape in SHAPES if SHAPES[shape].k <= largest}
    ranks = {shape: distinct_ranks(totals[shape], size, seed, shape) for shape, size in sorted(sizes.items())}
    found = _look_up(graph, units, per_block, ranks, largest, threads, progress)
    return totals, found


def _look_up(
    graph: OrderedGraph,
    units: Units,
    per_block: np.ndarray,
    ranks: dict[int, np.ndarray],
    largest: int,
    threads: int | None,
    progress: Progress | None,
) -> Found:
    """The occurrences that have the given ranks, in the order of shapes and ranks."""
    blocks = len(per_block)
    local, starts = _split_ranks(per_block, ranks)
    found = Found(
        np.repeat(np.array(list(ranks), np.int64), [len(r) for r in ranks.values()]),
        np.full((len(local), 5), -1, np.int32),
        np.zeros(len(local), np.int64),
    )
    scratch = _Scratch(graph)

    def emit(block: int) -> None:
        roots, firsts, lasts = units.block(block)
        arrays: Any = scratch.at(int(roots[0]))
        kernels.emit_units(
            roots, firsts, lasts, largest, graph.indptr, graph.indices, arrays, _TABLES,
            local, starts[block].copy(), starts[block + 1], found.nodes, found.codes,
        )  # fmt: skip

    active: Iterable[int] = [b for b in range(blocks) if (starts[b] < starts[b + 1]).any()]
    run_parts(emit, active, threads=threads, progress=progress, label="sampling")
    return found


def _split_ranks(per_block: np.ndarray, ranks: dict[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Ranks counted within their blocks, int64 (m,), shape after shape; and starts int64 (blocks + 1, 30).

    The ranks of shape s in block b are local[starts[b, s]:starts[b + 1, s]].
    """
    starts = np.zeros((len(per_block) + 1, SLOTS), np.int64)
    local = []
    offset = 0
    for shape, wanted in ranks.items():
        before = np.concatenate([[0], np.cumsum(per_block[:, shape])])
        cuts = np.searchsorted(wanted, before, side="left")
        starts[:, shape] = offset + cuts
        local.append(wanted - np.repeat(before[:-1], np.diff(cuts)))
        offset += len(wanted)
    return np.concatenate(local) if local else np.zeros(0, np.int64), starts
