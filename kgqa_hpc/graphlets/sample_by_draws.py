"""Samples and estimates from streams of draws: the method for graphs with hubs.

A shape's sample of size n is the first n *different* occurrences that its stream hits. Draws that hit a shape
are uniform on its occurrences; by symmetry the sample is exactly uniform without replacement for every n, and
a pure function of (graph, seed, shape, stream). A larger sample continues a smaller one. Ours.

Where totals are not known exactly they are estimated from all streams together: shape T is hit in
proportion to its occurrences times an exposure that is known exactly, so hits / exposure is unbiased, with
a binomial standard error.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kgqa_hpc.graphlets.choose_method import Assignment
from kgqa_hpc.graphlets.occurrences import Found
from kgqa_hpc.graphlets.shapes import SHAPE_OF, SHAPES, SLOTS, SUBCOPIES
from kgqa_hpc.graphlets.streams import Stream
from kgqa_hpc.graphlets.structures import Ground

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

        Without a hit the estimate is 0 and the error that of one hit; without any exposure both are 0.
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
        self._last_new = -1  # index of the hit
        self._gave_up = False

    @property
    def open(self) -> bool:
        """Whether further occurrences are needed."""
        return len(self.codes) < self.size and not self._gave_up

    def add(self, nodes: np.ndarray, codes: np.ndarray) -> None:
        """Add the next hits, in batches of about the number that is still needed."""
        start = 0
        while self.open and start < len(codes):
            stop = start + max(2 * (self.size - len(self.codes)), 1 << 14)
            self._take(nodes[start:stop], codes[start:stop])
            start = stop

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
    shape_of = np.append(SHAPE_OF[SHAPES[stream.structure.shape].k], 0).astype(
        np.int8
    )  # code -1 is the last entry
    return nodes, codes, shape_of[codes]


def draw_samples(
    ground: Ground,
    assignments: Iterable[Assignment],
    sizes: Mapping[int, int],
    limits: Mapping[int, int],
    seed: int,
    counts: HitCounts,
) -> Found:
    """`sizes[shape]` occurrences of each assigned shape, or fewer if `limits[shape]` draws hit fewer.

    Streams are read from their beginning, so the pilot's draws are drawn again; `counts` gets the others.
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
    return Found.join(
        [
            Found(np.full(len(c.codes), shape, np.int64), c.nodes, c.codes, np.arange(len(c.codes)))
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
