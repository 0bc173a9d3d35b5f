"""How often each of the 29 shapes occurs in a graph: exact counts by the backend of choice."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kgqa_hpc.graphlets import graph_tool
from kgqa_hpc.graphlets.closed_form import closed_form_counts
from kgqa_hpc.graphlets.order import order_graph
from kgqa_hpc.graphlets.threads import Progress

Backend = Literal["native", "graph-tool"]


def count_graphlets(
    indptr: np.ndarray,
    indices: np.ndarray,
    *,
    backend: Backend = "native",
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[int, int]:
    """Induced occurrences of each shape: {1: …, …, 29: …}, exact Python integers.

    `indptr` (n+1,) and `indices` (2m,) are the CSR arrays of a graph; loops and parallel edges are ignored
    and edges taken as undirected. Backend `native` uses closed forms (graphlets.closed_form); `graph-tool`
    enumerates with Wernicke's ESU and takes thousands of times longer (graphlets.graph_tool). `threads`
    defaults to the usable cores and never changes the result. Raises InputError when the arrays are no CSR
    graph.
    """
    graph = order_graph(np.asarray(indptr), np.asarray(indices), threads=threads)
    if backend == "graph-tool":
        return graph_tool.count(graph, threads=threads)
    return closed_form_counts(graph, threads=threads, progress=progress)
