"""Small graphs, and the 29 shapes counted by brute force: every subset of nodes, compared with every template."""

import itertools

import numpy as np
import pytest

from kgqa_hpc.graphlets.shapes import SHAPES

Csr = tuple[np.ndarray, np.ndarray]
Edges = set[tuple[int, int]]


def csr_of(n, edges):
    pairs = np.array(sorted(edges | {(b, a) for a, b in edges}), np.int64).reshape(-1, 2)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=n))])
    return indptr.astype(np.int64), pairs[:, 1].astype(np.int32)


def edges_of(csr):
    indptr, indices = csr
    source = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return {(int(a), int(b)) for a, b in zip(source, indices, strict=True) if a < b}


def random_edges(n, p, seed):
    rng = np.random.default_rng(seed)
    return {pair for pair in itertools.combinations(range(n), 2) if rng.random() < p}


def brute_force(csr):
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
def star_of():
    """star_of(leaves) -> (indptr, indices); vertex 0 is the centre."""

    def star(leaves):
        indptr = np.concatenate([[0], np.arange(leaves, 2 * leaves + 1)])
        return indptr, np.concatenate([np.arange(1, leaves + 1), np.zeros(leaves, np.int64)]).astype(np.int32)

    return star


@pytest.fixture(scope="session")
def clique_of():
    """clique_of(n) -> (indptr, indices)."""

    def clique(n):
        others = np.nonzero(~np.eye(n, dtype=bool))[1]
        return np.arange(n + 1) * (n - 1), others.astype(np.int32)

    return clique


@pytest.fixture(scope="session")
def graph_of():
    """graph_of(n, edges) -> (indptr, indices)."""
    return csr_of


@pytest.fixture(scope="session")
def occurrences():
    """occurrences(csr) -> node sets of every shape, by brute force."""
    return brute_force


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
        "sparse": csr_of(16, random_edges(16, 0.15, 1)),
        "medium": csr_of(14, random_edges(14, 0.35, 2)),
        "dense": csr_of(12, random_edges(12, 0.7, 4)),
        "star": csr_of(13, star),
        "hub": csr_of(13, hub),
        "bipartite": csr_of(12, bipartite),
        "clique with pendants": csr_of(11, clique | {(0, 7), (0, 8), (3, 9), (9, 10)}),
        "wheel": csr_of(7, wheel),
        "tree": csr_of(15, {((child - 1) // 2, child) for child in range(1, 15)}),
    }
