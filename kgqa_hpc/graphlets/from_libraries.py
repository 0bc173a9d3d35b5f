"""Counting and sampling in a notebook: graphs of networkx, igraph and scipy, without files or a run.

`kgqa_hpc.count` and `kgqa_hpc.sample` are the functions of this module. None of the libraries is imported; a
graph is recognised by its methods.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets.count import Backend, count_graphlets
from kgqa_hpc.graphlets.sample import GraphletSample, sample_graphlets

Csr = tuple[np.ndarray, np.ndarray]


def count(graph: Any, *, backend: Backend = "native", threads: int | None = None) -> dict[int, int]:
    """Induced occurrences of each of the 29 shapes in a graph: {1: …, …, 29: …}, exact.

    `graph`: a networkx or igraph graph, a square scipy sparse matrix (or array), or a graph of this package.
    Directions, parallel edges, weights and loops are ignored. Raises InputError for anything else.
    """
    return count_graphlets(*csr_of_graph(graph), backend=backend, threads=threads)


def sample(
    graph: Any,
    per_shape: int,
    seed: int,
    *,
    shapes: list[int] | None = None,
    max_per_node: int | None = None,
    node_type: npt.ArrayLike | None = None,
    threads: int | None = None,
) -> GraphletSample:
    """Count all shapes and draw `per_shape` occurrences of each uniformly without replacement.

    `graph` as in `count`. The `nodes` of the sample are positions in the order of the graph's own nodes
    (networkx: `list(graph)[position]`). The same seed gives the same sample, and the sample of a larger
    `per_shape` contains that of a smaller one. `shapes`, `max_per_node` (cap how often a node is drawn) and
    `node_type` (a code per node, to spread each shape over the types) as in
    graphlets.sample.sample_graphlets. Raises InputError.
    """
    if per_shape < 0:
        raise InputError(f"per_shape is {per_shape}", "it is the number of graphlets to draw of each shape")
    if max_per_node is not None and (max_per_node < 1 or node_type is not None):
        raise InputError("max_per_node is below 1, or given together with node_type", "choose one of them")
    types = None if node_type is None else np.asarray(node_type)
    options: dict[str, Any] = {"shapes": shapes, "max_per_node": max_per_node, "node_type": types}
    return sample_graphlets(*csr_of_graph(graph), per_shape=per_shape, seed=seed, threads=threads, **options)


def csr_of_graph(graph: Any) -> Csr:
    """indptr int64 (n+1,) and indices int32 (2m,) of a graph of any of the libraries."""
    if hasattr(graph, "csr"):  # kg.graph.KnowledgeGraph
        indptr, indices = graph.csr()
        return indptr, indices
    if hasattr(graph, "tocoo"):  # scipy.sparse
        matrix = graph.tocoo()
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"the matrix has the shape {matrix.shape}", "an adjacency matrix is square")
        there = np.asarray(matrix.data) != 0
        return simple_csr(matrix.shape[0], np.asarray(matrix.row)[there], np.asarray(matrix.col)[there])
    if hasattr(graph, "get_edgelist"):  # igraph
        pairs = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
        return simple_csr(graph.vcount(), pairs[:, 0], pairs[:, 1])
    if hasattr(graph, "number_of_nodes"):  # networkx
        number = {node: i for i, node in enumerate(graph)}
        ends = (number[node] for edge in graph.edges() for node in edge[:2])
        pairs = np.fromiter(ends, np.int64).reshape(-1, 2)
        return simple_csr(len(number), pairs[:, 0], pairs[:, 1])
    raise InputError(
        f"{type(graph).__name__} is not a graph that can be counted",
        "give one of networkx or igraph, or a square scipy sparse matrix",
    )


def simple_csr(nodes: int, source: npt.ArrayLike, target: npt.ArrayLike) -> Csr:
    """Sorted rows of the simple undirected graph of these edges: indptr int64 (nodes + 1,), indices int32."""
    a, b = np.asarray(source, np.int64), np.asarray(target, np.int64)
    once = (np.minimum(a, b) << 32 | np.maximum(a, b))[a != b]
    once.sort()
    once = once[np.diff(once, prepend=-1) != 0]
    both = np.concatenate([once, (once & 0xFFFFFFFF) << 32 | once >> 32])
    both.sort()
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(both >> 32, minlength=nodes), out=indptr[1:])
    return indptr, (both & 0xFFFFFFFF).astype(np.int32)
