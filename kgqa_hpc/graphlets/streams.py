"""Streams of draws: the endless sequence of copies of one structure.

Draw number i of a stream depends on (graph, seed, structure, i) alone: any part of a stream can be drawn at
any time by any number of threads. Draws are made in batches sorted by root, so that the data of a root is
built once and stays in the cache.
"""

from collections.abc import Callable

import numpy as np

from kgqa_hpc.graphlets.kernels.draw import rows
from kgqa_hpc.graphlets.kernels.draw.choices import pick_roots
from kgqa_hpc.graphlets.kernels.draw.cliques import draw_cliques
from kgqa_hpc.graphlets.kernels.draw.cycles import draw_cycles
from kgqa_hpc.graphlets.shapes import SHAPES, code_of
from kgqa_hpc.graphlets.splitmix import MAX_TOTAL, key_of, scaled
from kgqa_hpc.graphlets.structures import STARS, Ground, edge_table, root_weights, slot_weights

SEGMENTS = 16  # largest number of parts of a batch, drawn in parallel
SEGMENT = 4096  # smallest number of draws
BUCKETS = 1 << 16  # of the lookup table that finds roots


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
        kernel = self._kernel(start, nodes, codes)
        picks = np.empty(count, np.int64)

        def pick(i: int) -> None:
            block = slice(cuts[i], cuts[i + 1])
            numbers = np.arange(start + cuts[i], start + cuts[i + 1], dtype=np.int64)
            goals = scaled(self._root_key, numbers, self._total)
            pick_roots(self._cumulative, self._guide, goals, cuts[i], picks[block])

        def draw(i: int) -> None:
            kernel(picks[cuts[i] : cuts[i + 1]])

        def pick_and_draw(i: int) -> None:
            pick(i)
            picks[cuts[i] : cuts[i + 1]].sort()
            draw(i)

        run = self._ground.graph.workers.run
        if (
            self.structure.family == "rows"
        ):  # no data is shared between draws of a root, so segments are independent
            run(pick_and_draw, range(segments))
        else:
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
            kind = rows.TAILS if shape == 13 else self.structure.kind
            needed = shape not in STARS and kind != rows.TRIANGLES
            weights = slot_weights(self._ground, kind) if needed else np.zeros(0, np.int64)
            return lambda picks: rows.draw_rows(
                shape, size, drawn, full_code, key, start, picks, weights, *slots, *corners, *out
            )
        if self.structure.family == "cliques":
            return lambda picks: draw_cliques(
                shape, size, full_code, key, start, picks, *slots, *corners, *out
            )
        return lambda picks: draw_cycles(shape, size, full_code, key, start, picks, *slots, *out)
