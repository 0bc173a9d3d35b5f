"""Graphs of other libraries: the same counts and samples, whatever stands in them beside the simple graph."""

import subprocess
import sys

import networkx
import numpy as np
import pytest
import scipy.sparse

import kgqa_hpc
from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets.ordered_graph import csr_of_graph
from kgqa_hpc.graphlets.sample import sample_graphlets


def rows_of(csr):
    return [csr[1][a:b].tolist() for a, b in zip(csr[0][:-1], csr[0][1:], strict=True)]


def foreign(kind, n, entries):
    """A directed multigraph with loops in the form of another library."""
    if kind == "networkx":
        graph = networkx.MultiDiGraph()
        graph.add_nodes_from(f"node {v}" for v in range(n))
        graph.add_edges_from((f"node {a}", f"node {b}") for a, b in entries)
        return graph
    if kind == "igraph":
        igraph = pytest.importorskip("igraph", reason="IGRAPH IS NOT INSTALLED (extra: bench)")
        return igraph.Graph(n=n, edges=entries, directed=True)
    source, target = np.array(entries).T
    matrix = scipy.sparse.coo_array((np.ones(len(entries)), (source, target)), shape=(n, n))
    return matrix.tocsr() if kind == "scipy matrix" else matrix


@pytest.mark.parametrize("kind", ["networkx", "igraph", "scipy matrix", "scipy array"])
def test_every_library_gives_the_same_graph(small_graphs, kind):
    """With every edge once or twice, in either direction, and loops."""
    indptr, indices = small_graphs["medium"]
    n = len(indptr) - 1
    source = np.repeat(np.arange(n), np.diff(indptr))
    draw = np.random.default_rng(2)
    keep = (source < indices) | (draw.random(len(source)) < 0.5)
    entries = [*zip(source[keep].tolist(), indices[keep].tolist(), strict=True), *((v, v) for v in range(n))]
    graph = foreign(kind, n, [entries[i] for i in draw.permutation(len(entries))])
    assert rows_of(csr_of_graph(graph)) == rows_of((indptr, indices))
    drawn, plain = kgqa_hpc.sample(graph, 5, 3), sample_graphlets((indptr, indices), 5, 3)
    assert drawn.nodes.tobytes() == plain.nodes.tobytes()
    assert kgqa_hpc.count(graph) == plain.totals


def test_stored_zeros_of_a_matrix_are_no_edges():
    matrix = scipy.sparse.coo_array(([1.0, 0.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert csr_of_graph(matrix)[0].tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("graph", [networkx.Graph(), networkx.empty_graph(3), scipy.sparse.coo_array((2, 2))])
def test_graphs_without_edges_have_no_graphlets(graph):
    assert sum(kgqa_hpc.count(graph).values()) == 0
    assert len(kgqa_hpc.sample(graph, 5, 1)) == 0


TRIANGLE = networkx.complete_graph(3)


@pytest.mark.parametrize(
    ("graph", "per_shape", "options", "message"),
    [
        (3, 5, {}, "int is not a graph"),
        ([[0, 1]], 5, {}, "list is not a graph"),
        (scipy.sparse.coo_array((2, 3)), 5, {}, "is square"),
        (TRIANGLE, -1, {}, "per_shape is -1"),
        (TRIANGLE, 5, {"max_per_node": 0}, "below 1"),
        (TRIANGLE, 5, {"max_per_node": 3, "node_type": [0, 0, 0]}, "together with node_type"),
        (TRIANGLE, 5, {"shapes": [30]}, "no shape has the id 30"),
        (TRIANGLE, 5, {"shapes": [0]}, "no shape has the id 0"),
        (TRIANGLE, 5, {"node_type": [0, 0]}, "one whole number for each of 3 nodes"),
        (TRIANGLE, 5, {"node_type": ["a", "b", "b"]}, "one whole number for each of 3 nodes"),
    ],
)
def test_what_is_no_graph_and_impossible_wishes_are_refused(graph, per_shape, options, message):
    with pytest.raises(InputError, match=message):
        kgqa_hpc.sample(graph, per_shape, 1, **options)


def test_the_package_itself_imports_nothing_heavy():
    code = "import sys, kgqa_hpc; dir(kgqa_hpc); print({'numpy', 'numba'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kgqa_hpc.no_such_name
