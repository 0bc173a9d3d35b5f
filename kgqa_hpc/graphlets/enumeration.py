"""Bulk ESU over a whole graph: exact counts, and uniform samples without replacement by rank.

For each shape distinct ranks are drawn from [0, total), and one walk looks up who has them. It goes window
by window of *blocks*: the occurrences of each shape in each block are counted, and how many begin with each
3-prefix is taken down; then it is known which ranks fall into which block, and only the prefixes they fall
into are gone through one by one. A block is some consecutive units of work; a unit is a root, or a slice of
a hub's second vertices, so no thread is left alone with a hub.

Ranks depend on graph and seed alone, hence so does the sample: not on threads, blocks, or who ran which.
Time grows with the connected sets of three and four vertices, not with those of five (kernels.esu_counts);
memory is 29 bytes per vertex and thread, twice, 240 bytes per 3-prefix of a window, 44 bytes per sampled
graphlet. Counts are int64: totals up to 2**62.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kgqa_hpc.cores import usable_cores
from kgqa_hpc.graphlets.closed_form import TriangleLists, list_triangles
from kgqa_hpc.graphlets.kernels import esu_counts, esu_ranks
from kgqa_hpc.graphlets.order import OrderedGraph
from kgqa_hpc.graphlets.shapes import SHAPE_OF, SHAPES, SLOTS
from kgqa_hpc.graphlets.splitmix import distinct_ranks
from kgqa_hpc.graphlets.threads import Progress, run_parts
from kgqa_hpc.graphlets.units import Scratches, Units, cut_units

WINDOW_PREFIXES = 32_000  # 3-prefixes of a window per thread, about; 8 MB


def _bulk_tables() -> tuple[np.ndarray, ...]:
    """Shape ids of a 3-prefix extended by patterns, indexed by the third vertex's pattern (1..3), then p
    (and q).

    three[t]; four[t, p]; fresh[t, p]: fifth vertex adjacent to the fourth only; apart and joined[t, p, q]:
    fourth and fifth vertex non-adjacent, adjacent. larger[t, p]: the shapes of five nodes that begin so, as
    bits.
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


@dataclass(frozen=True)
class Found:
    """Occurrences as found: shape int64 (m,), nodes int32 (m, 5) in the graph's labels, -1 padded, codes
    int64 (m,).
    """

    shape: np.ndarray
    nodes: np.ndarray
    codes: np.ndarray


class _Walk:
    """Counts blocks and looks up ranks in them; any thread may do any block."""

    def __init__(self, graph: OrderedGraph, lists: TriangleLists, units: Units) -> None:
        self._rows = graph.indptr, graph.indices
        self._triangles = lists.starts, lists.corners
        self._units = units
        self._counting, self._looking_up = Scratches(graph), Scratches(graph)

    def triples(self, block: int) -> np.ndarray:
        """Connected vertex sets of three by shape, int64 (30,); their sum is the block's 3-prefixes."""
        work = self._units.block(block)
        with self._counting.lent(work[0][0]) as scratch:
            counts: np.ndarray = esu_counts.count_triples(*work, *self._rows, scratch, _TABLES)
        return counts

    def count(self, block: int, largest: int, trail: np.ndarray) -> np.ndarray:
        """Occurrences of each shape of four nodes or more, int64 (30,); how many begin with each 3-prefix
        goes to `trail`, int64 (prefixes, 30).
        """
        work = self._units.block(block)
        graph = *self._rows, *self._triangles
        with self._counting.lent(work[0][0]) as scratch:
            counts: np.ndarray = esu_counts.count_units(*work, largest == 5, *graph, scratch, _TABLES, trail)
        return counts

    def look_up(
        self, block: int, largest: int, trail: np.ndarray, ranks: np.ndarray, starts: np.ndarray, found: Found
    ) -> None:
        """Write the occurrences with ranks[starts[0, s]:starts[1, s]] of each shape s, counted within the
        block.
        """
        work = self._units.block(block)
        wanted = ranks, starts[0].copy(), starts[1], found.nodes, found.codes
        with self._looking_up.lent(work[0][0]) as scratch:
            esu_ranks.emit_units(*work, largest, *self._rows, scratch, _TABLES, trail, *wanted)


def count_by_enumeration(
    graph: OrderedGraph,
    *,
    largest: int = 5,
    blocks: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[int, int]:
    """Exact induced occurrences of every shape of up to `largest` nodes."""
    units = cut_units(graph, blocks)
    walk = _Walk(graph, list_triangles(graph, threads=threads), units)

    triples = run_parts(walk.triples, range(units.blocks), threads=threads)

    def count(block: int) -> np.ndarray:
        return walk.count(block, largest, np.empty((triples[block].sum(), SLOTS), np.int64))

    counts = list(triples)
    if largest > 3:
        counts += run_parts(count, range(units.blocks), threads=threads, progress=progress, label="counting")
    total = np.array(counts, np.int64).reshape(-1, SLOTS).sum(axis=0)
    return {shape: int(total[shape]) for shape in SHAPES if SHAPES[shape].k <= largest}


def enumerate_sample(
    graph: OrderedGraph,
    lists: TriangleLists,
    totals: Mapping[int, int],
    sizes: Mapping[int, int],
    seed: int,
    *,
    blocks: int | None = None,
    window: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Found:
    """`sizes[shape]` occurrences of each shape, uniform without replacement; all where there are fewer.

    `lists` are the graph's triangles, `totals` the exact counts of at least these shapes. Raises RuntimeError
    when the walk, in which they are counted again, finds others: a defect of this program.
    """
    largest = max((SHAPES[shape].k for shape in sizes), default=3)
    ranks = {shape: distinct_ranks(totals[shape], size, seed, shape) for shape, size in sorted(sizes.items())}
    found = Found(
        np.repeat(np.array(list(ranks), np.int64), [len(r) for r in ranks.values()]),
        np.full((sum(map(len, ranks.values())), 5), -1, np.int32),
        np.zeros(sum(map(len, ranks.values())), np.int64),
    )
    units = cut_units(graph, blocks)
    walk = _Walk(graph, lists, units)
    triples = np.array(run_parts(walk.triples, range(units.blocks), threads=threads), np.int64)
    prefixes = triples.reshape(-1, SLOTS).sum(axis=1)
    windows = list(_windows(prefixes, window or WINDOW_PREFIXES * (threads or usable_cores())))
    trail = np.empty((max((prefixes[a:b].sum() for a, b in windows), default=0), SLOTS), np.int64)
    before = np.zeros(SLOTS, np.int64)
    for first, last in windows:
        parts = np.split(trail, np.cumsum(prefixes[first:last]))
        before += _go_through(
            walk, range(first, last), largest, triples[first:last], parts, before, ranks, found, threads
        )
        if progress:
            progress(last, units.blocks, "sampling")
    wrong = [shape for shape in sizes if before[shape] != totals[shape]]
    if wrong:
        raise RuntimeError(f"shape {wrong[0]}: {before[wrong[0]]:,} enumerated, {totals[wrong[0]]:,} counted")
    return found


def _go_through(
    walk: _Walk,
    blocks: range,
    largest: int,
    triples: np.ndarray,
    trails: list[np.ndarray],
    before: np.ndarray,
    ranks: Mapping[int, np.ndarray],
    found: Found,
    threads: int | None,
) -> np.ndarray:
    """Count the blocks of a window, `before` of which lie all others, and look up the ranks in them; their
    occurrences.
    """

    def count(at: int) -> np.ndarray:
        return walk.count(blocks[at], largest, trails[at])

    per_block = triples
    if largest > 3:
        per_block = triples + np.array(run_parts(count, range(len(blocks)), threads=threads))
    local, starts = _split_ranks(per_block, before, ranks)

    def look_up(at: int) -> None:
        walk.look_up(blocks[at], largest, trails[at], local, starts[at : at + 2], found)

    active = [at for at in range(len(blocks)) if (starts[at] < starts[at + 1]).any()]
    run_parts(look_up, active, threads=threads)
    total: np.ndarray = per_block.sum(axis=0)
    return total


def _windows(prefixes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive blocks first..last of about `most` prefixes together, at least one block each."""
    ends = np.cumsum(prefixes)
    first = 0
    while first < len(prefixes):
        reached = ends[first] - prefixes[first] + most
        last = max(int(np.searchsorted(ends, reached, side="right")), first + 1)
        yield first, last
        first = last


def _split_ranks(
    per_block: np.ndarray, before: np.ndarray, ranks: Mapping[int, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks counted within their blocks, int64 (m,), shape after shape, those of other blocks being 0; and
    starts int64 (blocks + 1, 30).

    `before` (30,) are the occurrences ahead of the first block. The ranks of shape s in block b are
    local[starts[b, s]:starts[b + 1, s]].
    """
    starts = np.zeros((len(per_block) + 1, SLOTS), np.int64)
    local = np.zeros(sum(map(len, ranks.values())), np.int64)
    offset = 0
    for shape, wanted in ranks.items():
        ahead = before[shape] + np.concatenate([[0], np.cumsum(per_block[:, shape])])
        cuts = np.searchsorted(wanted, ahead, side="left")
        starts[:, shape] = offset + cuts
        inside = wanted[cuts[0] : cuts[-1]]
        local[offset + cuts[0] : offset + cuts[-1]] = inside - np.repeat(ahead[:-1], np.diff(cuts))
        offset += len(wanted)
    return local, starts
