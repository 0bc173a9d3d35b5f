"""Distractors from the graph: nodes of the answer's type and of similar degree that are no neighbours of the subject.

Neighbours of the answer are excluded too, because a more general or more specific term is often correct as well.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from heapq import merge
from itertools import chain

import numpy as np
import numpy.typing as npt

from kgqa_hpc.anchors.names import plain
from kgqa_hpc.kg.graph import KnowledgeGraph

NEAR = 4  # candidates nearest in degree, as a multiple of the number of options


class Distractors:
    """Draws distractors from the graph on which answers are computed."""

    def __init__(self, graph: KnowledgeGraph, shared_names: Collection[str]) -> None:
        self._graph, self._shared = graph, shared_names
        self._degrees = graph.degrees()
        self._of_type = lru_cache(maxsize=None)(self._sorted_by_degree)

    def draw(self, subjects: Sequence[int], answer: int, number: int, chance: random.Random) -> list[int]:
        """`number` nodes that are no answer for any subject; fewer if the graph has too few."""
        ends = (*subjects, answer)
        starts, neighbours = self._graph.csr()
        around = (neighbours[starts[node] : starts[node + 1]].tolist() for node in ends)
        excluded = {*ends, *chain.from_iterable(around)}
        used = {plain(str(self._graph.names[node])) for node in ends}
        near: list[int] = []
        for node in self._by_degree(answer):
            name = str(self._graph.names[node])
            if node in excluded or name in self._shared or plain(name) in used:
                continue
            used.add(plain(name))
            near.append(node)
            if len(near) == NEAR * number:
                break
        return chance.sample(near, min(number, len(near)))

    def _by_degree(self, answer: int) -> Iterator[int]:
        """All nodes of the answer's type by distance in degree from the answer; below before above."""
        nodes, degrees = self._of_type(int(self._graph.node_type[answer]))
        degree = self._degrees[answer]
        middle = int(np.searchsorted(degrees, degree))
        below = ((degree - degrees[k], 0, k) for k in reversed(range(middle)))
        above = ((degrees[k] - degree, 1, k) for k in range(middle, len(nodes)))
        return (int(nodes[k]) for _, _, k in merge(below, above))

    def _sorted_by_degree(self, kind: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        nodes = np.flatnonzero(self._graph.node_type == kind)
        order = np.argsort(self._degrees[nodes], kind="stable")
        return nodes[order], self._degrees[nodes][order]
