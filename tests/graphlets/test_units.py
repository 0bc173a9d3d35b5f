"""Work is cut so that every second vertex is done once, and no thread is left alone with a hub."""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets.ordered_graph import order_graph
from kgqa_hpc.graphlets.sample_by_rank import count_by_enumeration
from kgqa_hpc.graphlets.units import Scratches, cut_units


def test_a_hub_is_split_among_blocks(graph_of):
    graph = order_graph(*graph_of(60, {(0, leaf) for leaf in range(1, 60)}))
    units = cut_units(graph, blocks=16)
    assert (units.roots == 0).sum() > 8
    assert count_by_enumeration(graph, blocks=16)[11] == 59 * 58 * 57 * 56 // 24


def test_units_cover_every_second_vertex_once(small_graphs):
    for csr in small_graphs.values():
        graph = order_graph(*csr)
        units = cut_units(graph, blocks=11)
        source = np.repeat(np.arange(graph.num_nodes), graph.degree)
        later = np.bincount(source[graph.indices > source], minlength=graph.num_nodes)
        covered = [set() for _ in later]
        for root, first, last in zip(units.roots, units.firsts, units.lasts, strict=True):
            assert not covered[root] & set(range(first, last))
            covered[root] |= set(range(first, last))
        assert [len(c) for c in covered] == later.tolist()
        assert units.bounds[0] == 0
        assert units.bounds[-1] == len(units.roots)


def test_arrays_that_went_beyond_a_root_start_afresh_for_it(small_graphs):
    graph = order_graph(*small_graphs["medium"])
    scratches = Scratches(graph)
    with scratches.lent(0) as first, scratches.lent(0) as other:
        assert other[1] is not first[1]
        first[0][0], first[1][:], first[4][:, 0] = 7, -1, -1
    for root, fresh in ((7, False), (6, True)):
        with scratches.lent(root) as once, scratches.lent(root) as again:
            kept = next(arrays for arrays in (once, again) if arrays[1] is first[1])
            assert (kept[1] == graph.indptr[:-1]).all() == fresh
            assert (kept[4][:, 0] == graph.degree).all() == fresh
            assert (kept[0][0] == -1) == fresh
