"""Occurrences of shapes, in the form of the samplers and in that of their callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgqa_hpc.graphlets.ordered_graph import OrderedGraph
from kgqa_hpc.graphlets.shapes import SHAPES, template_order


@dataclass(frozen=True)
class Found:
    """Occurrences as a sampler found them.

    shape int64 (m,); nodes int32 (m, 5) in the labels of the ordered graph, -1 padded; codes int64 (m,):
    adjacency codes of these nodes in this order; position int64 (m,): samples with per_shape > position
    contain the occurrence.
    """

    shape: np.ndarray
    nodes: np.ndarray
    codes: np.ndarray
    position: np.ndarray

    @classmethod
    def join(cls, parts: Sequence[Found]) -> Found:
        """Concatenate `parts`."""
        parts = [cls.empty(), *parts]
        columns = ("shape", "nodes", "codes", "position")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))

    @classmethod
    def empty(cls, size: int = 0) -> Found:
        """Arrays for `size` occurrences, to be filled."""
        shape, codes, position = (np.zeros(size, np.int64) for _ in range(3))
        return cls(shape, np.full((size, 5), -1, np.int32), codes, position)


def arrange(graph: OrderedGraph, occurrences: Found) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Occurrences in the caller's node numbers, labelled by template, sorted by shape and nodes.

    Returns shape int16 (m,), nodes int32 (m, 5), position int64 (m,).
    """
    original = np.concatenate([graph.original, np.array([-1], np.int32)])  # so that -1 stays -1
    shapes, rows, positions = [np.zeros(0, np.int16)], [np.zeros((0, 5), np.int32)], [np.zeros(0, np.int64)]
    for shape in SHAPES:
        which = occurrences.shape == shape
        if not which.any():
            continue
        nodes = template_order(shape, original[occurrences.nodes[which]], occurrences.codes[which])
        order = np.lexsort(nodes.T[::-1])
        shapes.append(np.full(len(order), shape, np.int16))
        rows.append(nodes[order])
        positions.append(occurrences.position[which][order])
    return np.concatenate(shapes), np.concatenate(rows), np.concatenate(positions)
