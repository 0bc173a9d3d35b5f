"""The same graph comes out, its vertices by falling degree, and its work is cut so that each part is done once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets import sample_by_rank
from kgqa_hpc.graphlets.ordered_graph import list_triangles, order_graph
from kgqa_hpc.graphlets.sample_by_rank import Scratches, count_by_enumeration, cut_units
from kgqa_hpc.kg.graph import simple_csr
from kgqa_hpc.threads import Workers
from tests.graphlets.conftest import graph_of

pairs = st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=300)


def rows_of(entries):
    """CSR of the entries (row, neighbour) as they come."""
    rows = [[b for a, b in entries if a == row] for row in range(40)]
    indptr = np.cumsum([0, *map(len, rows)])
    return indptr, np.array([b for row in rows for b in row], np.int64)


def expected(both):
    """The same in plain Python: original numbers, and neighbours of each."""
    neighbours = {v: [b for a, b in both if a == v] for v in range(40)}
    original = sorted(neighbours, key=lambda v: (-len(neighbours[v]), v))
    label = {v: i for i, v in enumerate(original)}
    return original, [sorted(label[u] for u in neighbours[v]) for v in original]


def plain(graph):
    rows = [graph.indices[a:b].tolist() for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)]
    return graph.original.tolist(), rows


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_a_graph_with_rows_in_any_order_is_only_renamed(entries):
    both = {(a, b) for a, b in entries if a != b} | {(b, a) for a, b in entries if a != b}
    assert plain(order_graph(*rows_of(list(both)))) == expected(both)


@pytest.mark.parametrize("threads", [1, 4])
def test_many_rows_and_long_ones_are_ordered_by_any_number_of_threads(threads):
    rng = np.random.default_rng(1)
    hub = np.stack([np.zeros(59_999, np.int64), np.arange(1, 60_000)], axis=1)
    csr = simple_csr(60_000, *np.concatenate([hub, rng.integers(1, 60_000, (120_000, 2))]).T)
    graph = order_graph(*csr, Workers(threads))
    assert graph.original[0] == 0
    assert (np.diff(graph.degree) <= 0).all()
    rows = np.repeat(np.arange(graph.num_nodes), graph.degree)
    inside = rows[1:] == rows[:-1]
    assert (np.diff(graph.indices)[inside] > 0).all()
    again = simple_csr(60_000, graph.original[rows], graph.original[graph.indices])
    assert [part.tolist() for part in again] == [part.tolist() for part in csr]


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        *(([0, 1], []), ([0, 2], [0]), ([1, 1], [0]), ([1, 2], [0, 0]), ([0, 2, 1], [0])),
        *(([0, 1], [1]), ([0, 1, 2], [1, 2]), ([0, 1], [-1]), ([0, 1, 2], [-1, 0])),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(indptr, indices):
    with pytest.raises(InputError):
        order_graph(np.array(indptr), np.array(indices, np.int64))


def test_a_hub_is_split_among_blocks(monkeypatch):
    monkeypatch.setattr(sample_by_rank, "BLOCK_PREFIXES", 100)
    graph = order_graph(*graph_of(60, {(0, leaf) for leaf in range(1, 60)}))
    assert (cut_units(graph).roots == 0).sum() > 8
    assert count_by_enumeration(graph, list_triangles(graph))[11] == 59 * 58 * 57 * 56 // 24


def test_units_cover_every_second_vertex_once(small_graphs, monkeypatch):
    monkeypatch.setattr(sample_by_rank, "BLOCK_PREFIXES", 100)
    for csr in small_graphs.values():
        graph = order_graph(*csr)
        units = cut_units(graph)
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
