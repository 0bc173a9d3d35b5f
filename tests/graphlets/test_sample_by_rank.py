"""Bulk ESU: every occurrence has exactly one rank, and no way of cutting the work shows in the result."""

from dataclasses import replace

import numpy as np
import pytest

from kgqa_hpc.graphlets import sample_by_rank
from kgqa_hpc.graphlets.count import count_graphlets
from kgqa_hpc.graphlets.ordered_graph import list_triangles, order_graph
from kgqa_hpc.graphlets.sample_by_rank import count_by_enumeration, enumerate_sample
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.threads import Workers
from tests.graphlets.conftest import graph_of, occurrences


def counted_and_sampled(graph, sizes, seed, threads=None):
    graph = replace(graph, workers=Workers(threads))
    lists = list_triangles(graph)
    totals = count_by_enumeration(graph, lists)
    return totals, enumerate_sample(graph, lists, totals, sizes, seed)


@pytest.mark.parametrize("largest", [3, 4, 5])
def test_shapes_up_to_a_size_can_be_sampled_alone(small_graphs, largest):
    csr = small_graphs["medium"]
    sizes = {shape: 10**9 for shape in SHAPES if SHAPES[shape].k <= largest}
    totals, found = counted_and_sampled(order_graph(*csr), sizes, seed=1)
    expected = {shape: len(sets) for shape, sets in occurrences(csr).items()}
    assert totals == expected
    assert len(found.shape) == sum(expected[shape] for shape in sizes)


@pytest.mark.parametrize(("block", "window"), [(10**9, 1), (500, 10), (100, 1), (20, 50), (1, 10**6)])
def test_blocks_windows_and_threads_do_not_change_the_sample(small_graphs, monkeypatch, block, window):
    sizes, graphs = dict.fromkeys(SHAPES, 5), [order_graph(*csr) for csr in small_graphs.values()]
    all_expected = [counted_and_sampled(graph, sizes, seed=3, threads=1) for graph in graphs]
    monkeypatch.setattr(sample_by_rank, "BLOCK_PREFIXES", block)
    monkeypatch.setattr(sample_by_rank, "WINDOW_PREFIXES", window)
    for graph, (expected_totals, expected) in zip(graphs, all_expected, strict=True):
        for threads in (1, 4):
            totals, found = counted_and_sampled(graph, sizes, seed=3, threads=threads)
            assert totals == expected_totals
            for name in ("shape", "nodes", "codes", "position"):
                assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()


@pytest.mark.parametrize("density", [0.02, 0.1, 0.4, 0.9])
def test_counts_equal_the_closed_forms_at_any_density_and_however_cut(monkeypatch, density):
    for seed in range(5):
        source, target = np.nonzero(np.triu(np.random.default_rng(seed).random((60, 60)) < density, 1))
        csr = graph_of(60, set(zip(source.tolist(), target.tolist(), strict=True)))
        graph, expected = order_graph(*csr, Workers(2)), count_graphlets(csr)
        for prefixes in (10**9, 1000, 10):
            monkeypatch.setattr(sample_by_rank, "BLOCK_PREFIXES", prefixes)
            assert count_by_enumeration(graph, list_triangles(graph)) == expected


def test_wrong_totals_are_found_out(small_graphs):
    graph = order_graph(*small_graphs["medium"])
    lists = list_triangles(graph)
    totals = count_by_enumeration(graph, lists)
    with pytest.raises(RuntimeError, match=r"shape 7: .* enumerated, .* counted"):
        enumerate_sample(graph, lists, {**totals, 7: totals[7] + 1}, dict.fromkeys(SHAPES, 5), seed=1)
