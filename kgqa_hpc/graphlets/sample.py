"""Uniform samples of graphlets, reproducible by seed, independent of threads and machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets import balance, graph_tool
from kgqa_hpc.graphlets.census import Backend
from kgqa_hpc.graphlets.closed_form import TriangleLists, copy_counts, induced_counts, list_triangles
from kgqa_hpc.graphlets.drawing import Tally, draw_samples, pilot
from kgqa_hpc.graphlets.enumeration import Found, count_by_enumeration, enumerate_sample
from kgqa_hpc.graphlets.order import OrderedGraph, order_graph
from kgqa_hpc.graphlets.plan import (
    SHORT_SECONDS,
    Announce,
    Assignment,
    Method,
    Plan,
    affordable_passes,
    assign,
    counting_seconds,
    draw_limits,
    enumeration_seconds,
    explain_drawing,
    explain_enumeration,
    pass_seconds,
)
from kgqa_hpc.graphlets.shapes import SHAPES, template_order
from kgqa_hpc.graphlets.splitmix import MAX_TOTAL
from kgqa_hpc.graphlets.structures import Ground, root_copies
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


@dataclass(frozen=True)
class _Drawn:
    """What a method found, in the labels of the ordered graph."""

    totals: dict[int, int]
    errors: dict[int, float]
    found: Found
    plan: Plan


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
    node_type: np.ndarray | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    announce: Announce | None = None,
) -> GraphletSample:
    """Count all shapes and draw `per_shape` occurrences of each, uniformly without replacement; all where
    there are fewer.

    `indptr` (n+1,) and `indices` (2m,) are the CSR arrays of a graph. `shapes` restricts what is sampled
    (counts are always complete). `method`: `enumerate` walks through all occurrences, `structure` draws
    (for graphs with hubs), `auto` leaves it to the planner (graphlets.plan). With `max_per_node` no node
    stands in more sampled graphlets; with `node_type`, int (n,), each shape's sample is spread evenly over
    the types of its nodes; both record weights that undo it (graphlets.balance). Backend `graph-tool`
    samples as published: independently, about `per_shape` of each.

    `announce` is told the plan when it is made, before the long part.

    The sample is a pure function of the graph, seed and these options; `threads` and the machine do not
    matter. Raises InputError on arrays that are no graph, unknown shapes, and more occurrences than can be
    enumerated.
    """
    wanted = _wanted_sizes(per_shape, shapes, max_per_node, node_type)
    balanced = max_per_node is not None or node_type is not None
    sizes = {shape: size * (balance.POOL_FACTOR if balanced else 1) for shape, size in wanted.items()}
    graph = order_graph(np.asarray(indptr), np.asarray(indices), threads=threads)
    if backend == "graph-tool":
        drawn = _published(graph, sizes, seed)
    else:
        drawn = _draw(graph, sizes, seed, method, threads, progress, announce or (lambda plan: None))
    shape, nodes = arrange(graph, drawn.found)
    weight, plan = np.ones(len(shape)), drawn.plan
    if balanced:
        if max_per_node is not None:
            kept = balance.cap_nodes(shape, nodes, per_shape, max_per_node, seed)
            how = f"no node stands in more than {max_per_node:,}"
        else:
            kept = balance.spread_types(shape, nodes, per_shape, np.asarray(node_type), seed)
            how = "each shape is spread over the types of its nodes"
        plan = replace(plan, text=f"{plan.text}; {len(kept.rows):,} of these {len(shape):,} are kept: {how}")
        shape, nodes, weight = shape[kept.rows], nodes[kept.rows], kept.weight
    return GraphletSample(drawn.totals, drawn.errors, shape, nodes, weight, plan)


def _draw(
    graph: OrderedGraph,
    sizes: Mapping[int, int],
    seed: int,
    method: Method,
    threads: int | None,
    progress: Progress | None,
    announce: Announce,
) -> _Drawn:
    """Count what can be counted in reasonable time, decide, and draw."""
    lists = list_triangles(graph, threads=threads, progress=progress)
    seconds = pass_seconds(graph, lists, threads=threads)
    passes = affordable_passes(seconds)
    counts = copy_counts(graph, lists, passes=passes, threads=threads, progress=progress)
    exact = induced_counts(counts.copies)
    complete = len(exact) == len(SHAPES)
    wanted = {shape: size for shape, size in sizes.items() if exact.get(shape, 1) > 0}
    counted = counting_seconds(seconds, len(graph.indices))
    if method == "enumerate" or (
        method == "auto" and complete and enumeration_seconds(exact) <= SHORT_SECONDS
    ):
        return _enumerate(graph, lists, exact, wanted, counted, seed, threads, progress, announce)
    ground = Ground(graph, lists, counts, passes, threads)
    tally = Tally()
    guess: dict[int, float] = {shape: float(total) for shape, total in exact.items()}
    if not complete:
        unknown = [shape for shape in SHAPES if shape not in exact]
        tally = pilot(ground, seed, unknown=unknown, threads=threads, progress=progress)
        estimates, errors = tally.estimate()
        guess = {shape: guess.get(shape, estimates[shape] or errors[shape]) for shape in SHAPES}
    copies = {s: root_copies(ground, s) for s in ground.structures()}
    assignments, drawing = assign(guess, wanted, copies, seconds, len(graph.indices))
    if method == "auto" and complete and enumeration_seconds(exact) <= drawing:
        return _enumerate(graph, lists, exact, wanted, counted, seed, threads, progress, announce)
    plan = explain_drawing(guess, len(SHAPES) - len(exact), counted, drawing)
    announce(plan)
    limits = draw_limits(assignments, exact)
    found = draw_samples(ground, assignments, wanted, limits, seed, tally, threads=threads, progress=progress)
    return _estimated(exact, tally, found, assignments, plan)


def _published(graph: OrderedGraph, sizes: Mapping[int, int], seed: int) -> _Drawn:
    totals, found = graph_tool.sample(graph, sizes, seed)
    text = f"{sum(totals.values()):,} occurrences, each kept with its shape's ratio by graph-tool (RAND-ESU)"
    done = {shape: f"{int((found.shape == shape).sum()):,} of {totals[shape]:,}" for shape in sizes}
    return _Drawn(totals, dict.fromkeys(SHAPES, 0.0), found, Plan("graph-tool", text, 0.0, done))


def _enumerate(
    graph: OrderedGraph,
    lists: TriangleLists,
    exact: dict[int, int],
    sizes: Mapping[int, int],
    counted: float,
    seed: int,
    threads: int | None,
    progress: Progress | None,
    announce: Announce,
) -> _Drawn:
    if sum(exact.values()) > MAX_TOTAL:
        raise InputError(
            f"{sum(exact.values()):,} occurrences cannot be enumerated", "leave the method to the planner"
        )
    totals = exact
    if len(exact) < len(SHAPES):
        totals = count_by_enumeration(graph, threads=threads, progress=progress)
    plan = explain_enumeration(totals, counted)
    announce(plan)
    found = enumerate_sample(graph, lists, totals, sizes, seed, threads=threads, progress=progress)
    taken = np.bincount(found.shape, minlength=max(SHAPES) + 1)
    done = {shape: _share(int(taken[shape]), totals[shape]) + " by rank" for shape in sizes}
    return _Drawn(totals, dict.fromkeys(SHAPES, 0.0), found, replace(plan, shapes=done))


def _estimated(
    exact: Mapping[int, int],
    tally: Tally,
    found: Found,
    assignments: Iterable[Assignment],
    plan: Plan,
) -> _Drawn:
    estimates, errors = tally.estimate()
    taken = np.bincount(found.shape, minlength=max(SHAPES) + 1)
    totals = {s: exact.get(s, max(round(estimates[s]), int(taken[s]))) for s in SHAPES}
    errors = {s: 0.0 if s in exact else errors[s] for s in SHAPES}
    done = {
        a.shape: f"{_share(int(taken[a.shape]), totals[a.shape], errors[a.shape])} from draws of "
        f"{SHAPES[a.structure].name} ({a.probability:.2g} of them hit)"
        for a in assignments
    }
    return _Drawn(totals, errors, found, replace(plan, shapes=done))


def _share(taken: int, total: int, error: float = 0.0) -> str:
    if error:
        return f"{taken:,} of about {total:.3g}"
    return f"all {total:,}" if taken == total else f"{taken:,} of {total:,}"


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


def _wanted_sizes(
    per_shape: int, shapes: Iterable[int] | None, max_per_node: int | None, node_type: np.ndarray | None
) -> dict[int, int]:
    wanted = sorted(SHAPES if shapes is None else set(shapes))
    unknown = [shape for shape in wanted if shape not in SHAPES]
    if unknown:
        raise InputError(f"no shape has the id {unknown[0]}", f"shapes are numbered 1 to {max(SHAPES)}")
    if per_shape < 0:
        raise InputError(f"per_shape is {per_shape}", "it is the number of graphlets to draw of each shape")
    if max_per_node is not None and max_per_node < 1:
        raise InputError(
            f"max_per_node is {max_per_node}", "it is the number of graphlets a node may stand in"
        )
    if max_per_node is not None and node_type is not None:
        raise InputError(
            "a cap per node and a spread over types cannot be had together", "choose one of them"
        )
    return dict.fromkeys(wanted, per_shape)
