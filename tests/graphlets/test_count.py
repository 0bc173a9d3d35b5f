"""Exact counts against brute force, published counts and graphs that break things."""

import csv
import math
from pathlib import Path

import pytest

from kgqa_hpc.graphlets.count import count_graphlets
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.kg.reduce import reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from tests.graphlets.conftest import clique_of, occurrences, star_of
from tests.kg.conftest import load_source

DATA = Path(__file__).parents[3] / "shared" / "data" / "kg"


def test_counts_equal_brute_force(small_graphs):
    seen = dict.fromkeys(SHAPES, 0)
    for name, csr in small_graphs.items():
        expected = {shape: len(sets) for shape, sets in occurrences(csr).items()}
        assert count_graphlets(csr) == expected, name
        seen = {shape: seen[shape] + expected[shape] for shape in SHAPES}
    assert all(seen.values()), "the graphs together should hold every shape"


@pytest.mark.parametrize("name", ["hetionet_mini", "hetionet_disease", "hetionet_open"])
def test_counts_equal_those_of_an_independent_counter(name):
    if not DATA.exists():
        pytest.skip("THE SHARED KNOWLEDGE GRAPHS ARE NOT HERE")
    with (DATA / name / "graphlet_counts_reduced.csv").open() as file:
        expected = {int(row["shape_id"]): int(row["induced_count"]) for row in csv.DictReader(file)}
    graph = load_source("csv", nodes=DATA / name / "nodes.csv.gz", edges=DATA / name / "edges.csv.gz")
    assert count_graphlets(reduce_to(graph, GraphConfig()).graph.csr()) == expected


@pytest.mark.parametrize(
    ("make", "size", "shapes"),
    [(star_of, 200_000, {1: 2, 4: 3, 11: 4}), (clique_of, 200, {2: 3, 8: 4, 29: 5})],
)
def test_stars_and_cliques_are_counted_exactly(make, size, shapes):
    """By binomial coefficients; Python integers carry them, as the star's counts exceed 2**63."""
    counts = count_graphlets(make(size))
    assert counts == dict.fromkeys(SHAPES, 0) | {shape: math.comb(size, k) for shape, k in shapes.items()}


def test_threads_do_not_change_counts(small_graphs):
    for csr in small_graphs.values():
        assert count_graphlets(csr, threads=1) == count_graphlets(csr, threads=5)


def test_progress_is_reported_to_the_end(small_graphs):
    calls = []
    count_graphlets(small_graphs["medium"], progress=lambda *call: calls.append(call))
    finished = {label for done, total, label in calls if done == total}
    assert finished == {"triangles", "edges", "codegrees", "links", "5-cycles"}
