"""Uniform samples of graphlets, reproducible by seed, independent of threads and machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets.census import Backend
from kgqa_hpc.graphlets.closed_form import closed_form_counts
from kgqa_hpc.graphlets.enumeration import Found, enumerate_sample
from kgqa_hpc.graphlets.order import OrderedGraph, order_graph
from kgqa_hpc.graphlets.plan import Method, Plan
from kgqa_hpc.graphlets.shapes import SHAPES, template_order
from kgqa_hpc.graphlets.threads import Progress


@dataclass(frozen=True)
class GraphletSample:
    """Sampled graphlets and the census they were drawn from.

    totals: occurrences of each shape in the graph, exact unless `errors` says otherwise; errors: standard
    error of each total, 0.0 when exact; shape int16 (N,); nodes int32 (N, 5): node numbers in the order of
    the shape's template, -1 padded, of the labellings that fit the smallest; weight float64 (N,): 1 /
    (inclusion probability relative to a uniform sample of the shape), 1.0 when uniform; plan: how it was
    done. Rows are sorted by shape, then nodes.
    """

    totals: dict[int, int]
    errors: dict[int, float]
    shape: np.ndarray
    nodes: np.ndarray
    weight: np.ndarray
    plan: Plan

    def __len__(self) -> int:
        return len(self.shape)

    def sampled(self) -> dict[int, int]:
        """Number of sampled graphlets per shape."""
        sizes = np.bincount(self.shape, minlength=max(SHAPES) + 1)
        return {shape: int(sizes[shape]) for shape in SHAPES}


def sample_graphlets(
    indptr: np.ndarray,
    indices: np.ndarray,
    *,
    per_shape: int,
    seed: int,
    shapes: Iterable[int] | None = None,
    method: Method = "auto",
    backend: Backend = "native",
    max_per_node: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> GraphletSample:
    """Count all shapes and draw `per_shape` occurrences of each, uniformly without replacement; all where
    there are fewer.

    `indptr` (n+1,) and `indices` (2m,) are the CSR arrays of a graph. `shapes` restricts what is sampled
    (counts are always complete). The sample is a pure function of graph, per_shape, seed, shapes and
    method. Raises InputError on arrays that are no graph and on unknown shapes.
    """
    wanted = _wanted_sizes(per_shape, shapes)
    graph = order_graph(np.asarray(indptr), np.asarray(indices))
    totals = closed_form_counts(graph, threads=threads, progress=progress)
    _, found = enumerate_sample(graph, wanted, seed, threads=threads, progress=progress)
    plan = Plan("enumerate", f"{sum(totals.values()):,} occurrences are few enough to walk through", 0.0)
    shape, nodes = arrange(graph, found)
    return GraphletSample(totals, dict.fromkeys(SHAPES, 0.0), shape, nodes, np.ones(len(shape)), plan)


def arrange(graph: OrderedGraph, found: Found) -> tuple[np.ndarray, np.ndarray]:
    """Occurrences in the caller's node numbers, labelled by template, sorted by shape and nodes: int16,
    int32 (N, 5).
    """
    original = np.concatenate([graph.original, np.array([-1], np.int32)])  # so that -1 stays -1
    shapes, rows = [np.zeros(0, np.int16)], [np.zeros((0, 5), np.int32)]
    for shape in SHAPES:
        which = found.shape == shape
        if not which.any():
            continue
        nodes = template_order(shape, original[found.nodes[which]], found.codes[which])
        nodes = nodes[np.lexsort(nodes.T[::-1])]
        shapes.append(np.full(len(nodes), shape, np.int16))
        rows.append(nodes)
    return np.concatenate(shapes), np.concatenate(rows)


def _wanted_sizes(per_shape: int, shapes: Iterable[int] | None) -> dict[int, int]:
    wanted = sorted(SHAPES if shapes is None else set(shapes))
    unknown = [shape for shape in wanted if shape not in SHAPES]
    if unknown:
        raise InputError(f"no shape has the id {unknown[0]}", f"shapes are numbered 1 to {max(SHAPES)}")
    if per_shape < 0:
        raise InputError(f"per_shape is {per_shape}", "it is the number of graphlets to draw of each shape")
    return dict.fromkeys(wanted, per_shape)
