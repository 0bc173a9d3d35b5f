"""Samples by rank: count the occurrences of each shape in a fixed order, and look up the drawn ranks.

For each shape distinct ranks are drawn from [0, total), and one walk over the graph looks up which
occurrences have them. The walk goes window by window of *blocks*: the occurrences of each shape in each block
are counted, in total and by 3-prefix; the counts give the block and 3-prefix of each rank, and only these
prefixes are enumerated. A block is some consecutive units of work; a unit is a root, or a slice of a hub's
second vertices, so several threads share the work of a hub.

Ranks depend on graph and seed alone, hence so does the sample: not on threads or blocks. The ranks of a
smaller sample come first in those of a larger one (kernels.choices), so samples are nested. Time
grows with the connected sets of three and four vertices, not with those of five
(kernels.walk); memory is 29 bytes per vertex and thread, twice, 240 bytes per 3-prefix of a
window, 60 bytes per sampled graphlet. Counts are int64: totals up to 2**62.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kgqa_hpc.graphlets.kernels import walk as walk_kernels
from kgqa_hpc.graphlets.kernels.choices import rank_sequence
from kgqa_hpc.graphlets.kernels.ranks import emit_units
from kgqa_hpc.graphlets.ordered_graph import OrderedGraph, TriangleLists
from kgqa_hpc.graphlets.shapes import SHAPE_OF, SHAPES, SLOTS, Occurrences

BLOCK_PREFIXES = 8_000  # approximate number of 3-prefixes of a block; a few milliseconds of work
WINDOW_PREFIXES = 32_000  # approximate number of 3-prefixes of a window, per thread; 8 MB


@dataclass(frozen=True)
class Units:
    """Units of work, int64: unit i is the second vertices firsts[i]..lasts[i] (extension positions) of roots[i].

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


def cut_units(graph: OrderedGraph) -> Units:
    """Cut the roots into blocks of about BLOCK_PREFIXES 3-prefixes, and hubs into slices.

    The 3-prefixes of a root are estimated from above: pairs of its later neighbours, and their neighbours.
    """
    n = graph.num_nodes
    source = np.repeat(np.arange(n, dtype=np.int32), graph.degree)
    up = graph.indices > source
    later = np.bincount(source[up], minlength=n).astype(np.int64)
    beyond = np.bincount(source[up], weights=graph.degree[graph.indices[up]], minlength=n)
    cost = later * (later - 1) / 2 + beyond + 1
    slices = np.clip(np.ceil(cost / BLOCK_PREFIXES), 1, np.maximum(later, 1)).astype(np.int64)
    roots = np.repeat(np.arange(n, dtype=np.int64), slices)
    number = np.arange(len(roots)) - np.repeat(np.cumsum(slices) - slices, slices)
    firsts = later[roots] * number // slices[roots]
    lasts = later[roots] * (number + 1) // slices[roots]
    filled = np.cumsum(cost[roots] / slices[roots])
    ends = BLOCK_PREFIXES * np.arange(1, math.ceil(cost.sum() / BLOCK_PREFIXES))
    cuts = np.searchsorted(filled, ends, side="right")
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
        """The working arrays of kernels.walk for walks from `root` on.

        reached int64 (1,), cursor int64 (n,), marks uint8 (n,), extension int32 (n + 1,), near int32 (n, 4).
        """
        n = self._graph.num_nodes
        try:
            scratch = self._idle.pop()
        except IndexError:
            arrays = np.zeros(n, np.int64), np.zeros(n, np.uint8), np.zeros(n + 1, np.int32)
            scratch = np.full(1, n, np.int64), *arrays, np.zeros((n, 4), np.int32)
        reached, cursor, _, _, near = scratch
        if reached[0] > root:  # another round, or new arrays
            reached[0] = -1
            cursor[:] = self._graph.indptr[:-1]
            near[:, 0] = self._graph.degree
        yield scratch
        self._idle.append(scratch)


def _bulk_tables() -> tuple[np.ndarray, ...]:
    """Shape ids of a 3-prefix extended by vertices of patterns p (and q); t: the third vertex's pattern (1..3).

    three[t]; four[t, p]; fresh[t, p]: fifth vertex adjacent to the fourth only; apart and joined[t, p, q]: fourth
    and fifth vertex not adjacent, adjacent. larger[t, p]: the shapes of five nodes that begin so, as bits.
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
    larger = 1 << fresh
    for q in range(1, 8):
        larger |= (1 << apart[:, :, q]) | (1 << joined[:, :, q])
    return three, four, fresh, apart, joined, larger


_TABLES = _bulk_tables()


class _Walk:
    """Counts blocks and looks up ranks in them; any thread may process any block."""

    def __init__(self, graph: OrderedGraph, lists: TriangleLists, units: Units) -> None:
        self.workers = graph.workers
        self._rows = graph.indptr, graph.indices
        self._triangles = lists.starts, lists.corners
        self._units = units
        self._counting, self._looking_up = Scratches(graph), Scratches(graph)

    def triples(self, block: int) -> np.ndarray:
        """Connected vertex sets of three by shape, int64 (30,); their sum is the block's 3-prefixes."""
        work = self._units.block(block)
        with self._counting.lent(work[0][0]) as scratch:
            counts: np.ndarray = walk_kernels.count_triples(*work, *self._rows, scratch, _TABLES)
        return counts

    def count(self, block: int, largest: int, trail: np.ndarray) -> np.ndarray:
        """Occurrences of each shape of 4 or 5 nodes, int64 (30,); fills `trail` int64 (prefixes, 30), by
        3-prefix.
        """
        work = self._units.block(block)
        graph = *self._rows, *self._triangles
        with self._counting.lent(work[0][0]) as scratch:
            counts: np.ndarray = walk_kernels.count_units(
                *work, largest == 5, *graph, scratch, _TABLES, trail
            )
        return counts

    def look_up(
        self,
        block: int,
        largest: int,
        trail: np.ndarray,
        ranks: np.ndarray,
        starts: np.ndarray,
        occurrences: Occurrences,
    ) -> None:
        """Write the occurrences whose ranks within the block are ranks[starts[0, s]:starts[1, s]], for each shape s."""
        work = self._units.block(block)
        targets = ranks, starts[0].copy(), starts[1], occurrences.nodes, occurrences.codes
        with self._looking_up.lent(work[0][0]) as scratch:
            emit_units(*work, largest, *self._rows, scratch, _TABLES, trail, *targets)


def count_by_enumeration(graph: OrderedGraph, lists: TriangleLists) -> dict[int, int]:
    """Exact induced occurrences of every shape; `lists` are the graph's triangles."""
    units = cut_units(graph)
    walk = _Walk(graph, lists, units)
    triples = graph.workers.run(walk.triples, range(units.blocks))

    def count(block: int) -> np.ndarray:
        return walk.count(block, 5, np.empty((triples[block].sum(), SLOTS), np.int64))

    counts = triples + graph.workers.run(count, range(units.blocks), "counting")
    total = np.array(counts, np.int64).reshape(-1, SLOTS).sum(axis=0)
    return {shape: int(total[shape]) for shape in SHAPES}


def enumerate_sample(
    graph: OrderedGraph,
    lists: TriangleLists,
    totals: Mapping[int, int],
    sizes: Mapping[int, int],
    seed: int,
) -> Occurrences:
    """`sizes[shape]` occurrences of each shape, uniform without replacement; all where there are fewer.

    `lists` are the graph's triangles, `totals` the exact counts of at least these shapes. Raises RuntimeError
    when the walk, which counts them again, finds other totals: a defect of this program.
    """
    largest = max((SHAPES[shape].k for shape in sizes), default=3)
    ranks, occurrences = _choose_ranks(totals, sizes, seed)
    units = cut_units(graph)
    walk = _Walk(graph, lists, units)
    triples = np.array(graph.workers.run(walk.triples, range(units.blocks)), np.int64)
    prefixes = triples.reshape(-1, SLOTS).sum(axis=1)
    windows = list(_windows(prefixes, WINDOW_PREFIXES * graph.workers.number))
    trail = np.empty((max((prefixes[a:b].sum() for a, b in windows), default=0), SLOTS), np.int64)
    before = np.zeros(SLOTS, np.int64)
    for start, last in windows:
        parts = np.split(trail, np.cumsum(prefixes[start:last]))
        before += _go_through(
            walk, range(start, last), largest, triples[start:last], parts, before, ranks, occurrences
        )
        graph.workers.tell(last, units.blocks, "sampling")
    if wrong := [shape for shape in sizes if before[shape] != totals[shape]]:
        raise RuntimeError(f"shape {wrong[0]}: {before[wrong[0]]:,} enumerated, {totals[wrong[0]]:,} counted")
    return occurrences


def _choose_ranks(
    totals: Mapping[int, int], sizes: Mapping[int, int], seed: int
) -> tuple[dict[int, np.ndarray], Occurrences]:
    """The requested ranks of each shape, ascending, and an empty array for their occurrences in this order."""
    ranks, rooms = {}, []
    for shape, size in sorted(sizes.items()):
        drawn = rank_sequence(totals[shape], size, seed, shape)
        room = Occurrences.empty(len(drawn))
        room.shape[:] = shape
        room.position[:] = np.argsort(drawn)
        ranks[shape] = drawn[room.position]
        rooms.append(room)
    return ranks, Occurrences.join(rooms)


def _go_through(
    walk: _Walk,
    blocks: range,
    largest: int,
    triples: np.ndarray,
    trails: list[np.ndarray],
    before: np.ndarray,
    ranks: Mapping[int, np.ndarray],
    occurrences: Occurrences,
) -> np.ndarray:
    """Count the graphlets in the blocks of a window and look up those with the wanted ranks; returns counts by shape.

    `before`: occurrences in earlier windows.
    """

    def count(at: int) -> np.ndarray:
        return walk.count(blocks[at], largest, trails[at])

    per_block = triples
    if largest > 3:
        per_block = triples + np.array(walk.workers.run(count, range(len(blocks))))
    local, starts = _split_ranks(per_block, before, ranks)

    def look_up(at: int) -> None:
        walk.look_up(blocks[at], largest, trails[at], local, starts[at : at + 2], occurrences)

    active = [at for at in range(len(blocks)) if (starts[at] < starts[at + 1]).any()]
    walk.workers.run(look_up, active)
    total: np.ndarray = per_block.sum(axis=0)
    return total


def _windows(prefixes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive blocks first..last of about `most` prefixes together, at least one block each."""
    ends = np.cumsum(prefixes)
    start = 0
    while start < len(prefixes):
        reached = ends[start] - prefixes[start] + most
        last = max(int(np.searchsorted(ends, reached, side="right")), start + 1)
        yield start, last
        start = last


def _split_ranks(
    per_block: np.ndarray, before: np.ndarray, ranks: Mapping[int, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks within their blocks, int64 (m,), shape after shape, 0 for other blocks; starts int64 (blocks + 1, 30).

    `before` (30,) are the occurrences ahead of the first block. The ranks of shape s in block b are
    local[starts[b, s]:starts[b + 1, s]].
    """
    starts = np.zeros((len(per_block) + 1, SLOTS), np.int64)
    local = np.zeros(sum(map(len, ranks.values())), np.int64)
    offset = 0
    for shape, shape_ranks in ranks.items():
        ahead = before[shape] + np.concatenate([[0], np.cumsum(per_block[:, shape])])
        cuts = np.searchsorted(shape_ranks, ahead, side="left")
        starts[:, shape] = offset + cuts
        inside = shape_ranks[cuts[0] : cuts[-1]]
        local[offset + cuts[0] : offset + cuts[-1]] = inside - np.repeat(ahead[:-1], np.diff(cuts))
        offset += len(shape_ranks)
    return local, starts
