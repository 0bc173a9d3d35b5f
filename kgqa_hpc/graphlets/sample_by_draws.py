"""Samples and estimates from streams of draws: the method for graphs with hubs.

A stream is the endless sequence of copies of one structure. Draw number i depends on (graph, seed, structure, i)
alone: any part of a stream can be drawn at any time by any number of threads. Draws are made in batches sorted
by root, so that the data of a root is built once and stays in the cache.

A shape's sample of size n is the first n *different* occurrences that its stream hits. Draws that hit a shape
are uniform on its occurrences; by symmetry the sample is exactly uniform without replacement for every n, and
a pure function of (graph, seed, shape, stream). A larger sample continues a smaller one. Ours.

Where totals are not known exactly they are estimated from all streams together: shape T is hit in
proportion to its occurrences times an exposure that is known exactly, so hits / exposure is unbiased, with
a binomial standard error.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kgqa_hpc.graphlets.choose_method import Assignment
from kgqa_hpc.graphlets.kernels import draw_rows
from kgqa_hpc.graphlets.kernels.choices import MAX_TOTAL, key_of, pick_roots, scaled
from kgqa_hpc.graphlets.kernels.draw_cycles import draw_cliques, draw_cycles
from kgqa_hpc.graphlets.shapes import SHAPE_OF, SHAPES, SLOTS, SUBCOPIES, Occurrences, code_of
from kgqa_hpc.graphlets.structures import STARS, Ground, edge_table, root_weights, slot_weights

SEGMENTS = 16  # largest number of parts of a batch, drawn in parallel
SEGMENT = 4096  # smallest number of draws of a part
BUCKETS = 1 << 16  # entries of the lookup table that finds roots


class Stream:
    """The endless sequence of draws of one structure; `copies`: how many copies a draw chooses from."""

    def __init__(self, ground: Ground, shape: int, seed: int) -> None:
        self.structure = ground.way_of(shape)
        self._ground = ground
        self._key = key_of(seed, shape, 1)
        self._root_key = key_of(seed, shape, 2)
        total = float(root_weights(ground, shape, np.float64).sum())
        # Beyond 2**62 weights are float64: a root's probability is then off by some parts in 2**52.
        dtype: type = np.int64 if total < MAX_TOTAL else np.float64
        self._cumulative: np.ndarray = np.cumsum(root_weights(ground, shape, dtype))
        self._total: int | float = self._cumulative[-1].item() if len(self._cumulative) else 0
        bounds = np.linspace(0, self._total, BUCKETS + 1)
        self._guide = np.searchsorted(self._cumulative, bounds, side="right")
        self.copies = float(self._total) / self.structure.ways

    def draw(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws start, …, start + count - 1: nodes int32 (count, 5), -1 padded; codes int16, -1 for a
        rejected draw.
        """
        nodes, codes = np.empty((count, 5), np.int32), np.empty(count, np.int16)
        segments = max(1, min(SEGMENTS, count // SEGMENT))
        cuts = [count * i // segments for i in range(segments + 1)]
        kernel, picks = self._kernel(start, nodes, codes), np.empty(count, np.int64)
        apart = self.structure.family == "rows"  # draws from a root share no data: independent segments

        def pick(i: int) -> None:
            block = slice(cuts[i], cuts[i + 1])
            numbers = np.arange(start + cuts[i], start + cuts[i + 1], dtype=np.int64)
            goals = scaled(self._root_key, numbers, self._total)
            pick_roots(self._cumulative, self._guide, goals, cuts[i], picks[block])

        def draw(i: int) -> None:
            block = picks[cuts[i] : cuts[i + 1]]
            if apart:
                pick(i)
                block.sort()
            kernel(block)

        run = self._ground.graph.workers.run
        if not apart:
            run(pick, range(segments))
            picks.sort()
        run(draw, range(segments))
        return nodes, codes

    def _kernel(self, start: int, nodes: np.ndarray, codes: np.ndarray) -> Callable[[np.ndarray], None]:
        """The kernel that draws a copy for each pick (root << 32 | i) into row i of `nodes` and `codes`."""
        shape, graph, lists = self.structure.shape, self._ground.graph, self._ground.lists
        size, full_code = SHAPES[shape].k, code_of(SHAPES[shape].edges)
        drawn = full_code & ~code_of(self.structure.closing)
        key, slots = np.uint64(self._key), (graph.indptr, graph.indices)
        corners = (lists.starts, lists.corners)
        out = (edge_table(self._ground), nodes, codes)
        if self.structure.family == "rows":
            kind = draw_rows.TAILS if shape == 13 else self.structure.kind
            needed = shape not in STARS and kind != draw_rows.TRIANGLES
            weights = slot_weights(self._ground, kind) if needed else np.zeros(0, np.int64)
            return lambda picks: draw_rows.draw_rows(
                shape, size, drawn, full_code, key, start, picks, weights, *slots, *corners, *out
            )
        if self.structure.family == "cliques":
            return lambda picks: draw_cliques(
                shape, size, full_code, key, start, picks, *slots, *corners, *out
            )
        return lambda picks: draw_cycles(shape, size, full_code, key, start, picks, *slots, *out)


# Largest number of draws in memory at a time (65 MB).
BATCH = 1 << 21
# Draws of each structure for the first estimate.
PILOT = 1 << 17


@dataclass
class HitCounts:
    """Hits of all streams so far: per structure its copies, its draws, and hits by shape, int64 (30,)."""

    copies: dict[int, float] = field(default_factory=dict)
    draws: dict[int, int] = field(default_factory=dict)
    hits: dict[int, np.ndarray] = field(default_factory=dict)

    def add(self, structure: int, copies: float, shapes: np.ndarray) -> None:
        """Count draws by the shape they hit (0: rejected)."""
        self.copies[structure] = copies
        self.draws[structure] = self.draws.get(structure, 0) + len(shapes)
        hits = self.hits.setdefault(structure, np.zeros(SLOTS, np.int64))
        hits += np.bincount(shapes, minlength=SLOTS)

    def estimate(self) -> tuple[dict[int, float], dict[int, float]]:
        """Unbiased estimates of the totals and their standard errors.

        A shape without a hit gets the estimate 0 and the standard error of one hit. Both are 0 for a shape that no
        draw could hit.
        """
        totals, errors = dict.fromkeys(SHAPES, 0.0), dict.fromkeys(SHAPES, 0.0)
        for shape in SHAPES:
            rates = {
                s: SUBCOPIES[shape][s] / self.copies[s]
                for s in self.draws
                if s in SUBCOPIES[shape] and self.copies[s]
            }
            exposure = sum(self.draws[s] * rate for s, rate in rates.items())
            if not exposure:
                continue
            hits = sum(int(self.hits[s][shape]) for s in rates)
            totals[shape] = hits / exposure
            chances = ((self.draws[s], min(1.0, totals[shape] * rate)) for s, rate in rates.items())
            variance = sum(draws * p * (1 - p) for draws, p in chances)
            errors[shape] = math.sqrt(variance if hits else 1.0) / exposure
        return totals, errors


class _Collector:
    """The different occurrences of one shape in the order in which they are hit, up to `size`.

    It stops early after ten times as many repeated hits as expected if one occurrence were still missing.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.nodes = np.zeros((0, 5), np.int32)
        self.codes = np.zeros(0, np.int64)
        self._hits = 0
        self._last_new = -1  # index of the last hit that was a new occurrence
        self._gave_up = False

    @property
    def open(self) -> bool:
        """Whether further occurrences are needed."""
        return len(self.codes) < self.size and not self._gave_up

    def add(self, nodes: np.ndarray, codes: np.ndarray) -> None:
        """Add the next hits, in batches of about the number that is still needed."""
        while self.open and len(codes):
            count = max(2 * (self.size - len(self.codes)), 1 << 14)
            self._take(nodes[:count], codes[:count])
            nodes, codes = nodes[count:], codes[count:]

    def _take(self, nodes: np.ndarray, codes: np.ndarray) -> None:
        had = len(self.codes)
        all_nodes, all_codes = np.concatenate([self.nodes, nodes]), np.concatenate([self.codes, codes])
        # Index of the first row of every different set of nodes
        sets = np.sort(all_nodes, axis=1)
        order = np.lexsort(sets.T)  # stable: equal sets keep their order
        ordered = sets[order]
        fresh = np.ones(len(all_nodes), bool)
        fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        fresh_rows = np.sort(order[fresh])[: self.size]
        numbers = np.concatenate([[self._last_new], self._hits + fresh_rows[had:] - had])
        self._hits += len(codes)
        # Repeated hits before each new occurrence and since the last; independent of the batches.
        in_vain = np.diff(np.append(numbers, self._hits)) - 1
        too_late = in_vain > 10 * np.arange(had, had + len(in_vain)) + 20
        new = int(np.argmax(np.append(too_late, True)))
        self._gave_up = bool(too_late.any())
        selected = fresh_rows[: had + new]
        self._last_new = int(numbers[min(new, len(numbers) - 1)])
        self.nodes, self.codes = all_nodes[selected], all_codes[selected]


def pilot(ground: Ground, seed: int, unknown: Iterable[int] = tuple(SHAPES), draws: int = PILOT) -> HitCounts:
    """Draws of each available structure that `unknown` shapes contain, to estimate how often these are hit."""
    counts = HitCounts()
    contained = set().union(*(SUBCOPIES[shape] for shape in unknown))
    available = [s for s in ground.structures() if s in contained]
    for done, structure in enumerate(available, 1):
        stream = Stream(ground, structure, seed)
        if stream.copies:
            _, _, shapes = _classified(stream, 0, draws)
            counts.add(structure, stream.copies, shapes)
        ground.graph.workers.tell(done, len(available), "estimating")
    return counts


def _classified(stream: Stream, start: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nodes, codes = stream.draw(start, count)
    # The last entry is for code -1 (a rejected draw), which is no shape.
    shape_of = np.append(SHAPE_OF[SHAPES[stream.structure.shape].k], 0).astype(np.int8)
    return nodes, codes, shape_of[codes]


def draw_samples(
    ground: Ground,
    assignments: Iterable[Assignment],
    sizes: Mapping[int, int],
    limits: Mapping[int, int],
    seed: int,
    counts: HitCounts,
) -> Occurrences:
    """`sizes[shape]` occurrences of each assigned shape, or fewer if `limits[shape]` draws hit fewer.

    Streams are read from their beginning, so the pilot's draws are made again; only later draws are added to `counts`.
    """
    by_structure: dict[int, list[Assignment]] = {}
    for assignment in assignments:
        by_structure.setdefault(assignment.structure, []).append(assignment)
    collectors = {a.shape: _Collector(sizes[a.shape]) for group in by_structure.values() for a in group}
    structures = [structure for structure in ground.structures() if structure in by_structure]
    for done, structure in enumerate(structures, 1):
        stream = Stream(ground, structure, seed)
        _read_stream(stream, by_structure[structure], collectors, limits, counts)
        ground.graph.workers.tell(done, len(by_structure), "sampling")
    return Occurrences.join(
        [
            Occurrences(np.full(len(c.codes), shape, np.int64), c.nodes, c.codes, np.arange(len(c.codes)))
            for shape, c in sorted(collectors.items())
        ]
    )


def _read_stream(
    stream: Stream,
    group: list[Assignment],
    collectors: Mapping[int, _Collector],
    limits: Mapping[int, int],
    counts: HitCounts,
) -> None:
    structure = stream.structure.shape
    drawn_before = counts.draws.get(structure, 0)
    position = 0
    expected = max(a.draws for a in group)
    while True:
        waiting = [a for a in group if collectors[a.shape].open and position < limits[a.shape]]
        if not waiting:
            return
        ahead = expected - position if position < expected else 0.25 * position
        count = int(min(BATCH, max(1024, 1.05 * ahead), max(limits[a.shape] for a in waiting) - position))
        nodes, codes, shapes = _classified(stream, position, count)
        if position + count > drawn_before:
            counts.add(structure, stream.copies, shapes[max(drawn_before - position, 0) :])
        for a in waiting:
            hits = np.flatnonzero(shapes[: limits[a.shape] - position] == a.shape)
            collectors[a.shape].add(nodes[hits], codes[hits])
        position += count
