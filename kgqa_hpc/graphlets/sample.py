"""Uniform samples of graphlets: nested, reproducible by seed, independent of threads and machines."""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kgqa_hpc.drawing import few_nodes
from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets import balance, graph_tool
from kgqa_hpc.graphlets.choose_method import (
    REFERENCE_SIZE,
    SHORT_SECONDS,
    Announce,
    Costs,
    Method,
    Plan,
    assign,
    draw_limits,
    enumeration_seconds,
    explain_drawing,
    explain_enumeration,
    resize,
)
from kgqa_hpc.graphlets.count import Backend, copy_counts, induced_counts
from kgqa_hpc.graphlets.kernels.choices import MAX_TOTAL
from kgqa_hpc.graphlets.ordered_graph import (
    OrderedGraph,
    TriangleLists,
    csr_of_graph,
    list_triangles,
    order_graph,
)
from kgqa_hpc.graphlets.sample_by_draws import HitCounts, draw_samples, pilot
from kgqa_hpc.graphlets.sample_by_rank import count_by_enumeration, enumerate_sample
from kgqa_hpc.graphlets.shapes import SHAPES, Occurrences
from kgqa_hpc.graphlets.structures import Ground, root_copies
from kgqa_hpc.terminal import StageProgress
from kgqa_hpc.text.plain_text import csv_lines
from kgqa_hpc.threads import Workers

# Columns of statistics_csv.
COLUMNS = ("id", "name", "nodes", "edges", "total", "standard_error", "ratio", "sampled")
# Layout of the figure of all shapes; in inches the width and height of a cell and the radius of the shape in it.
SHAPES_IN_A_ROW = 6
WIDTH, HEIGHT, RADIUS = 2.0, 2.3, 0.68
_INK, _NODE, _EMPTY = "#22303c", "#2a7f9e", "#c9d1d6"


@dataclass(frozen=True)
class GraphletSample:
    """Sampled graphlets and the counts they were drawn from.

    totals: occurrences of each shape in the graph, exact unless `errors` says otherwise; errors: standard
    error of each total, 0.0 when exact; shape int16 (N,); nodes int32 (N, 5): node numbers in the order of
    the shape's template, -1 padded (the smallest labelling that fits); weight float64 (N,): 1 / (inclusion
    probability relative to a uniform sample of the shape), 1.0 when uniform; position int64 (N,): samples
    with `per_shape` > position contain the graphlet, so those with position >= n extend a sample of n; plan:
    the method and its reason. Rows are sorted by shape, then nodes.
    """

    totals: dict[int, int]
    errors: dict[int, float]
    shape: np.ndarray
    nodes: np.ndarray
    weight: np.ndarray
    position: np.ndarray
    plan: Plan

    def __len__(self) -> int:
        return len(self.shape)

    def sampled(self) -> dict[int, int]:
        """Number of sampled graphlets per shape."""
        sizes = np.bincount(self.shape, minlength=max(SHAPES) + 1)
        return {shape: int(sizes[shape]) for shape in SHAPES}


# Totals, their standard errors, occurrences in the labels of the ordered graph, and the plan of one method
_Drawn = tuple[dict[int, int], dict[int, float], Occurrences, Plan]


def sample_graphlets(
    graph: Any,
    per_shape: int,
    seed: int,
    *,
    shapes: Iterable[int] | None = None,
    max_per_node: int | None = None,
    node_type: npt.ArrayLike | None = None,
    method: Method = "auto",
    backend: Backend = "native",
    threads: int | None = None,
    progress: StageProgress | None = None,
    announce: Announce | None = None,
) -> GraphletSample:
    """Count all shapes and draw `per_shape` occurrences of each, or all, uniformly without replacement.

    `graph` as in `count_graphlets`, or an OrderedGraph. The `nodes` of the sample are positions in the order of the
    graph's own nodes (networkx: `list(graph)[position]`).

    `shapes` restricts what is sampled (counts are always complete). With `max_per_node` no node occurs in more
    sampled graphlets; with `node_type`, int (n,), each shape's sample is spread evenly over the types of its nodes;
    both record weights that undo it (graphlets.balance). `method`: `enumerate` walks through all occurrences,
    `structure` draws (for graphs with hubs), `auto` leaves it to graphlets.choose_method. Backend `graph-tool`
    samples as published: independently, about `per_shape` of each. `announce` is called with the plan when it is
    made, before the long part.

    The sample is a pure function of the graph, seed and these options; threads and the machine do not matter. With
    the same graph, seed and other options, the sample of a smaller `per_shape` is part of it (weights of balanced
    samples change with `per_shape`). Raises InputError for a graph or options that are impossible, and for more
    occurrences than can be enumerated.
    """
    shape_ids = sorted(SHAPES if shapes is None else set(shapes))
    if unknown := [shape for shape in shape_ids if shape not in SHAPES]:
        raise InputError(f"no shape has the id {unknown[0]}", f"shapes are numbered 1 to {max(SHAPES)}")
    if per_shape < 0:
        raise InputError(f"per_shape is {per_shape}", "it is the number of graphlets to draw of each shape")
    if max_per_node is not None and (max_per_node < 1 or node_type is not None):
        raise InputError("max_per_node is below 1, or given together with node_type", "give one of them")
    if not isinstance(graph, OrderedGraph):
        graph = order_graph(*csr_of_graph(graph), Workers(threads, progress))
    types = np.zeros(graph.num_nodes, np.int64) if node_type is None else np.asarray(node_type)
    if types.shape != (graph.num_nodes,) or types.dtype.kind not in "iu":
        cure = "number the types, in the order of the nodes: pandas.factorize(types)[0]"
        raise InputError(f"node_type is not one whole number for each of {graph.num_nodes:,} nodes", cure)
    balanced = max_per_node is not None or node_type is not None
    size = per_shape * (balance.POOL_FACTOR if balanced else 1)
    errors = dict.fromkeys(SHAPES, 0.0)
    if backend == "graph-tool":
        totals, occurrences = graph_tool.sample(graph, dict.fromkeys(shape_ids, size), seed)
        text = (
            f"{sum(totals.values()):,} occurrences, each kept with its shape's ratio by graph-tool (RAND-ESU)"
        )
        plan = Plan("graph-tool", text, 0.0)
    else:
        announce = announce or (lambda plan: None)
        totals, errors, occurrences, plan = _draw(graph, shape_ids, size, seed, method, announce)
    shape, nodes, position = occurrences.arranged(graph.original)
    weight = np.ones(len(shape))
    if balanced:
        if max_per_node is not None:
            chosen = balance.cap_nodes(shape, nodes, position, per_shape, max_per_node)
            restriction = f"no node stands in more than {max_per_node:,}"
        else:
            chosen = balance.spread_types(shape, nodes, position, per_shape, types)
            restriction = "each shape is spread over the types of its nodes"
        plan = replace(
            plan, text=f"{plan.text}; {len(chosen.rows):,} of these {len(shape):,} are kept: {restriction}"
        )
        shape, nodes, weight, position = shape[chosen.rows], nodes[chosen.rows], chosen.weight, chosen.round
    return GraphletSample(totals, errors, shape, nodes, weight, position, plan)


def _draw(
    graph: OrderedGraph, shapes: Iterable[int], size: int, seed: int, method: Method, announce: Announce
) -> _Drawn:
    """Count what can be counted in reasonable time, choose the method, and draw."""
    lists = list_triangles(graph)
    costs = Costs.of(graph, lists)
    counts = copy_counts(graph, lists, costs.affordable)
    exact = induced_counts(counts.copies)
    complete = len(exact) == len(SHAPES)
    # Request no more occurrences than exist: the search for more would run until its limit.
    sizes = {s: min(size, exact.get(s, size)) for s in shapes if exact.get(s, 1) > 0}
    counted = costs.counting()
    if method == "enumerate" or (
        method == "auto" and complete and enumeration_seconds(exact) <= SHORT_SECONDS
    ):
        return _enumerate(graph, lists, exact, sizes, counted, seed, announce)
    ground = Ground(graph, lists, counts, costs.affordable)
    hits, guess = HitCounts(), {shape: float(total) for shape, total in exact.items()}
    if not complete:  # a pilot estimates the unknown totals
        hits = pilot(ground, seed, [shape for shape in SHAPES if shape not in exact])
        estimates, errors = hits.estimate()
        guess = {shape: guess.get(shape, estimates[shape] or errors[shape]) for shape in SHAPES}
    copies = {s: root_copies(ground, s) for s in ground.structures()}
    reference = assign(guess, sizes, copies, costs)
    if method == "auto" and complete and enumeration_seconds(exact) <= costs.drawing(reference):
        return _enumerate(graph, lists, exact, sizes, counted, seed, announce)
    assignments = resize(reference, guess, sizes)
    plan = explain_drawing(guess, len(SHAPES) - len(exact), counted, costs.drawing(assignments))
    announce(plan)
    longest = resize(reference, guess, {shape: max(size, REFERENCE_SIZE) for shape in sizes})
    limits = draw_limits(longest, exact)
    occurrences = draw_samples(ground, assignments, sizes, limits, seed, hits)
    estimates, errors = hits.estimate()
    drawn = np.bincount(occurrences.shape, minlength=max(SHAPES) + 1)
    totals = {s: exact.get(s, max(round(estimates[s]), int(drawn[s]))) for s in SHAPES}
    return totals, {s: 0.0 if s in exact else errors[s] for s in SHAPES}, occurrences, plan


def _enumerate(
    graph: OrderedGraph,
    lists: TriangleLists,
    exact: dict[int, int],
    sizes: Mapping[int, int],
    counted: float,
    seed: int,
    announce: Announce,
) -> _Drawn:
    if sum(exact.values()) > MAX_TOTAL:
        raise InputError(
            f"{sum(exact.values()):,} occurrences cannot be enumerated", "set the method to auto"
        )
    totals = exact
    if len(exact) < len(SHAPES):
        totals = count_by_enumeration(graph, lists)
    plan = explain_enumeration(totals, counted)
    announce(plan)
    occurrences = enumerate_sample(graph, lists, totals, sizes, seed)
    return totals, dict.fromkeys(SHAPES, 0.0), occurrences, plan


def statistics_csv(sample: GraphletSample) -> str:
    """stats/graphlets.csv: how many graphlets of each shape there are and how many were drawn (Table 1).

    `total` is exact where `standard_error` is 0; `ratio` = sampled / total, empty where there is none.
    """
    rows: list[Sequence[object]] = [COLUMNS]
    sampled = sample.sampled()
    for number, shape in SHAPES.items():
        total, drawn = sample.totals[number], sampled[number]
        ratio = f"{drawn / total:.6g}" if total else ""
        error = f"{sample.errors[number]:.6g}"
        rows.append([number, shape.name, shape.k, len(shape.edges), total, error, ratio, drawn])
    return "".join(csv_lines(rows))


def shapes_png(sample: GraphletSample) -> bytes:
    """A figure of the 29 shapes with their totals and sample sizes (after the paper's Figure 5), as PNG.

    The same sample gives the same bytes (for one version of matplotlib, which the extra `report` installs).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    rows = -(-len(SHAPES) // SHAPES_IN_A_ROW)
    figure = Figure(figsize=(WIDTH * SHAPES_IN_A_ROW, HEIGHT * rows))
    FigureCanvasAgg(figure)
    # One axes object and two collections for all shapes: 29 of each take five times as long.
    plane = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH * SHAPES_IN_A_ROW), ylim=(HEIGHT * rows, 0))
    plane.set_axis_off()
    sampled = sample.sampled()
    lines, points, line_colours, colours = [], [], [], []
    for number, shape in enumerate(SHAPES.values()):
        row, column = divmod(number, SHAPES_IN_A_ROW)
        x, y = (column + 0.5) * WIDTH, row * HEIGHT
        total, error = sample.totals[shape.id], sample.errors[shape.id]
        at = few_nodes(shape.edges) * (RADIUS, -RADIUS) + (x, y + 1.1)  # in the figure, y grows downwards
        points.append(at)
        lines += list(at[np.array(shape.edges)])
        colour = _NODE if total else _EMPTY
        line_colours += [colour] * len(shape.edges)
        colours += [colour] * shape.k
        plane.text(x, y + 0.2, f"{shape.id}  {shape.name}", fontsize=9, color=_INK, ha="center")
        amount = f"{total:,}" if total < 10**12 else f"{total:.3g}"
        caption = f"{amount}{f' ± {error:.1g}' if error else ''}\n{sampled[shape.id]:,} drawn"
        plane.text(x, y + 1.92, caption, fontsize=8, color=_INK, ha="center", va="top")
    plane.add_collection(LineCollection(lines, colors=line_colours, linewidths=1.6, zorder=1))
    xs, ys = np.concatenate(points).T
    plane.scatter(xs, ys, s=70, c=colours, edgecolors="white", linewidths=1.0, zorder=2)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()
