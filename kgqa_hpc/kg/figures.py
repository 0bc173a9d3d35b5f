"""Figures of a graph before and after reduction, as in BioGraphletQA's Figures 3, 9 and 10."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.store.atomic import make_folder, write_file

# Longer names are drawn as this long (Figure 9).
_LONGEST = 150


def draw_figures(folder: Path, graph: KnowledgeGraph, reduced: KnowledgeGraph | None) -> list[Path]:
    """Write degrees.png, name_lengths.png and node_types.png; returns their paths.

    Raises InputError when matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("drawing needs matplotlib", "pip install 'kgqa_hpc[report]'") from None
    graphs = {"graph": graph} if reduced is None else {"graph": graph, "reduced": reduced}
    make_folder(folder)
    paths = []
    for name, draw in (("degrees", _degrees), ("name_lengths", _name_lengths), ("node_types", _node_types)):
        figure = Figure(figsize=(8, 5), layout="constrained")
        draw(figure.subplots(), graphs)
        sink = BytesIO()
        figure.savefig(sink, format="png", dpi=120, metadata={"Software": None})
        paths.append(folder / f"{name}.png")
        write_file(paths[-1], sink.getvalue())
    return paths


def _degrees(axes: Any, graphs: dict[str, KnowledgeGraph]) -> None:
    for label, graph in graphs.items():
        values, counts = np.unique(graph.degrees(), return_counts=True)
        axes.plot(values[values > 0], counts[values > 0], ".", label=label)
    axes.set(xscale="log", yscale="log", xlabel="degree", ylabel="nodes", title="Degrees of nodes")
    axes.legend()


def _name_lengths(axes: Any, graphs: dict[str, KnowledgeGraph]) -> None:
    graph = graphs["graph"]
    lengths = np.fromiter((min(len(name), _LONGEST) for name in graph.names), int, graph.num_nodes)
    kinds = np.argsort(-np.bincount(graph.node_type, minlength=len(graph.node_types)))[:12]
    values = [lengths[(graph.node_type == kind) & (lengths > 0)] for kind in kinds]
    there = [(kind, each) for kind, each in zip(kinds, values, strict=True) if len(each)]
    if there:
        low, middle, high = np.array([np.percentile(each, [5, 50, 95]) for _, each in there]).T
        axes.hlines(range(len(there)), low, high)
        axes.plot(middle, range(len(there)), "o")
        axes.set_yticks(range(len(there)), [graph.node_types[kind][:30] for kind, _ in there])
    axes.set(xlabel=f"letters (at most {_LONGEST})", title="Lengths of names: median, 5 to 95 %")


def _node_types(axes: Any, graphs: dict[str, KnowledgeGraph]) -> None:
    names = graphs["graph"].node_types
    order = np.argsort(-np.bincount(graphs["graph"].node_type, minlength=len(names)))[:20]
    width = 0.8 / len(graphs)
    for number, (label, graph) in enumerate(graphs.items()):
        shares = np.bincount(graph.node_type, minlength=len(names)) / max(graph.num_nodes, 1)
        axes.barh(np.arange(len(order)) + number * width, shares[order], width, label=label)
    axes.set_yticks(np.arange(len(order)) + 0.4 - width / 2, [names[kind][:30] for kind in order])
    axes.invert_yaxis()
    axes.set(xlabel="share of nodes", title="Types of nodes")
    axes.legend()
