"""Small graphs, and the 29 shapes counted by brute force: every subset of nodes, compared with every template."""

import itertools

import numpy as np
import pytest

from kgqa_hpc.graphlets.count import PASSES, copy_counts
from kgqa_hpc.graphlets.ordered_graph import list_triangles, order_graph
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.graphlets.structures import Ground

Edges = set[tuple[int, int]]


def graph_of(n, edges):
    """indptr and indices of the edges, each given once."""
    pairs = np.array(sorted(edges | {(b, a) for a, b in edges}), np.int64).reshape(-1, 2)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=n))])
    return indptr.astype(np.int64), pairs[:, 1].astype(np.int32)


def ground_of(csr):
    """What streams of draws know of a graph after all passes over it."""
    graph = order_graph(*csr)
    lists = list_triangles(graph)
    return Ground(graph, lists, copy_counts(graph, lists), frozenset(PASSES))


def star_of(leaves):
    return graph_of(leaves + 1, {(0, leaf) for leaf in range(1, leaves + 1)})


def clique_of(n):
    return graph_of(n, set(itertools.combinations(range(n), 2)))


def edges_of(csr):
    indptr, indices = csr
    source = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return {(int(a), int(b)) for a, b in zip(source, indices, strict=True) if a < b}


def random_edges(n, p, seed):
    rng = np.random.default_rng(seed)
    return {pair for pair in itertools.combinations(range(n), 2) if rng.random() < p}


def occurrences(csr):
    """The node sets of all occurrences of every shape."""
    n = len(csr[0]) - 1
    edges = edges_of(csr)
    templates: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
    for shape in SHAPES.values():
        for place in itertools.permutations(range(shape.k)):
            key = frozenset((min(place[a], place[b]), max(place[a], place[b])) for a, b in shape.edges)
            templates[shape.k, key] = shape.id
    found: dict[int, set[frozenset[int]]] = {shape: set() for shape in SHAPES}
    for k in (3, 4, 5):
        for nodes in itertools.combinations(range(n), k):
            inside = ((i, j) for i, j in itertools.combinations(range(k), 2) if (nodes[i], nodes[j]) in edges)
            shape_id = templates.get((k, frozenset(inside)))
            if shape_id:
                found[shape_id].add(frozenset(nodes))
    return found


@pytest.fixture(scope="session")
def small_graphs():
    """Sparse, dense, hubby and structured graphs that together hold all 29 shapes."""
    star = {(0, leaf) for leaf in range(1, 13)}
    hub = star | random_edges(13, 0.25, 3)
    hub |= {(0, leaf) for leaf in range(1, 13)}
    bipartite = {(a, 5 + b) for a in range(5) for b in range(7) if (a * b) % 3 != 1}
    clique = set(itertools.combinations(range(7), 2))
    wheel = {(0, rim) for rim in range(1, 7)} | {(min(r, r % 6 + 1), max(r, r % 6 + 1)) for r in range(1, 7)}
    return {
        "sparse": graph_of(16, random_edges(16, 0.15, 1)),
        "medium": graph_of(14, random_edges(14, 0.35, 2)),
        "dense": graph_of(12, random_edges(12, 0.7, 4)),
        "star": graph_of(13, star),
        "hub": graph_of(13, hub),
        "bipartite": graph_of(12, bipartite),
        "clique with pendants": graph_of(11, clique | {(0, 7), (0, 8), (3, 9), (9, 10)}),
        "wheel": graph_of(7, wheel),
        "tree": graph_of(15, {((child - 1) // 2, child) for child in range(1, 15)}),
    }
