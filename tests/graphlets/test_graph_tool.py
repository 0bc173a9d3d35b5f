"""graph-tool as a witness: the same counts by other means, and the same form of samples."""

import random
import sys

import networkx.algorithms.bipartite
import numpy as np
import pytest

from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.graphlets import graph_tool
from kgqa_hpc.graphlets.count import count_graphlets
from kgqa_hpc.graphlets.sample import sample_graphlets
from kgqa_hpc.graphlets.shapes import SHAPES
from tests.graphlets.conftest import graph_of


@pytest.fixture
def witness():
    if graph_tool.find_interpreter() is None:
        pytest.skip("GRAPH-TOOL IS NOT INSTALLED: NO WITNESS (apt install python3-graph-tool)")


def numbered(graph):
    """Number of nodes and edges of a graph of networkx, its nodes numbered in its order."""
    number = {node: i for i, node in enumerate(graph)}
    return len(number), {(min(number[a], number[b]), max(number[a], number[b])) for a, b in graph.edges}


GRAPHS = {
    "karate club": numbered(networkx.karate_club_graph()),
    "Les Misérables": numbered(networkx.les_miserables_graph()),
    "Davis's southern women": numbered(networkx.davis_southern_women_graph()),
    "random": numbered(networkx.gnp_random_graph(60, 0.12, seed=1)),
    "dense random": numbered(networkx.gnp_random_graph(26, 0.55, seed=2)),
    "small world": numbered(networkx.watts_strogatz_graph(80, 6, 0.2, seed=3)),
    "bipartite": numbered(networkx.bipartite.random_graph(18, 14, 0.35, seed=4)),
}


def orders(n, edges):
    """The graph under three numberings: as it is, reversed, shuffled."""
    shuffled = list(range(n))
    random.Random(5).shuffle(shuffled)
    for number in (list(range(n)), list(range(n))[::-1], shuffled):
        yield {(min(number[a], number[b]), max(number[a], number[b])) for a, b in edges}


@pytest.mark.parametrize("name", GRAPHS)
def test_counts_equal_those_of_graph_tool_in_three_vertex_orders(witness, name):
    """graph-tool sees the three side by side, for it takes long to start."""
    n, edges = GRAPHS[name]
    renamed = list(orders(n, edges))
    beside = {(a + n * i, b + n * i) for i, some in enumerate(renamed) for a, b in some}
    witnessed = count_graphlets(graph_of(3 * n, beside), backend="graph-tool")
    for some in renamed:
        assert {s: 3 * total for s, total in count_graphlets(graph_of(n, some)).items()} == witnessed


def test_samples_have_the_form_of_the_native_ones(witness):
    n, edges = GRAPHS["random"]
    csr = graph_of(n, edges)
    neighbours = [set(csr[1][a:b].tolist()) for a, b in zip(csr[0][:-1], csr[0][1:], strict=True)]
    drawn = sample_graphlets(csr, per_shape=100, seed=1, backend="graph-tool")
    assert drawn.totals == count_graphlets(csr)
    assert drawn.plan.method == "graph-tool"
    native = sample_graphlets(csr, per_shape=10**6, seed=1)
    everything = {(int(s), *row) for s, row in zip(native.shape, native.nodes.tolist(), strict=True)}
    assert {(int(s), *row) for s, row in zip(drawn.shape, drawn.nodes.tolist(), strict=True)} <= everything
    for shape_id, row in zip(drawn.shape, drawn.nodes.tolist(), strict=True):
        assert all(row[b] in neighbours[row[a]] for a, b in SHAPES[int(shape_id)].edges)
    for shape, size in drawn.sampled().items():
        total = drawn.totals[shape]
        if total <= 100:
            assert size == total
        else:  # binomial
            assert abs(size - 100) < 6 * np.sqrt(100 * (1 - 100 / total))


def rows_of(drawn):
    rows = zip(drawn.shape.tolist(), drawn.nodes.tolist(), drawn.position.tolist(), strict=True)
    return {(shape, *nodes): position for shape, nodes, position in rows}


@pytest.mark.slow
def test_samples_are_reproducible_seeded_and_part_of_larger_ones(witness):
    csr = graph_of(*GRAPHS["small world"])

    def drawn(size, seed=1):
        return rows_of(sample_graphlets(csr, per_shape=size, seed=seed, backend="graph-tool"))

    everything = drawn(10**6)
    assert len(everything) == sum(count_graphlets(csr).values())
    for size in (7, 60):
        assert drawn(size) == {row: position for row, position in everything.items() if position < size}
    assert drawn(7, seed=2) != drawn(7)


def test_every_occurrence_arrives_by_a_ratio_with_that_probability(monkeypatch):
    """With a stand-in for RAND-ESU that keeps what it should: numbers of 2,000 occurrences as nodes."""
    total, draw = 2000, np.random.default_rng(1)
    monkeypatch.setattr(graph_tool, "count", lambda graph: {**dict.fromkeys(SHAPES, 0), 9: total})
    monkeypatch.setattr(graph_tool, "_codes", lambda graph, nodes: np.zeros(len(nodes), np.int64))

    def kept(graph, request):
        rows = [np.flatnonzero(draw.random(total) < one["ratio"]) for one in request["draws"]]
        nodes = np.concatenate(rows)
        number = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        return {
            "draw": number,
            "shape": np.full(len(nodes), 9),
            "nodes": np.repeat(nodes[:, None], 5, axis=1),
        }

    monkeypatch.setattr(graph_tool, "_ask", kept)
    positions = [graph_tool.sample(graph_of(2, {(0, 1)}), {9: total}, seed)[1].position for seed in range(40)]
    assert all(len(position) == total for position in positions)
    shares = np.bincount(np.concatenate(positions) // 100, minlength=20) / (40 * total)
    assert np.abs(shares - 0.05).max() < 5 * np.sqrt(0.05 * 0.95 / (40 * total))


def test_a_graph_without_edges_is_no_trouble(witness):
    empty = np.zeros(4, np.int64), np.zeros(0, np.int32)
    drawn = sample_graphlets(empty, per_shape=5, seed=1, backend="graph-tool")
    assert len(drawn) == 0
    assert set(drawn.totals.values()) == {0}


@pytest.mark.parametrize(
    ("interpreter", "error", "message"),
    [(None, InputError, "KGQA_GRAPH_TOOL_PYTHON"), ("/bin/false", KgqaError, "in /bin/false failed")],
)
def test_without_a_working_graph_tool_the_error_is_clear(monkeypatch, interpreter, error, message):
    monkeypatch.setattr(graph_tool, "find_interpreter", lambda: interpreter)
    with pytest.raises(error, match=message):
        count_graphlets(graph_of(*GRAPHS["karate club"]), backend="graph-tool")


def test_an_interpreter_without_graph_tool_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setenv(graph_tool.VARIABLE, str(tmp_path / "no-python"))
    monkeypatch.setattr(graph_tool, "_SYSTEM", str(tmp_path / "none"))
    assert graph_tool.find_interpreter() in (None, sys.executable)
