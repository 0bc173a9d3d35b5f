from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.relations import Relation

NODES = 7
NUMBERS = st.integers(0, NODES - 1)
EDGES = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2)), max_size=40)


def _neighbours_by_brute_force(nodes, edges):
    pairs = {(a, b) for s, t, _ in edges for a, b in ((s, t), (t, s)) if s != t}
    return [sorted(b for a, b in pairs if a == node) for node in range(nodes)]


def _relations_by_brute_force(graph, nodes):
    columns = (graph.edge_source, graph.edge_target, graph.edge_type)
    rows = set(zip(*(column.tolist() for column in columns), strict=True))
    found = []
    for i, j in combinations(range(len(nodes)), 2):
        a, b = nodes[i], nodes[j]
        here = [Relation(i, j, graph.edge_types[t]) for s, o, t in rows if (s, o) == (a, b) and a != b]
        here += [Relation(j, i, graph.edge_types[t]) for s, o, t in rows if (s, o) == (b, a) and a != b]
        low = i if a < b else j
        found += sorted(here, key=lambda r: (graph.edge_types.index(r.type), r.source != low))
    return tuple(found)


@given(EDGES)
def test_csr_holds_exactly_the_simple_undirected_neighbours(make_graph, edges):
    graph = make_graph(NODES, edges)
    indptr, indices = graph.csr()
    rows = [indices[a:b].tolist() for a, b in pairwise(indptr.tolist())]
    assert rows == _neighbours_by_brute_force(NODES, edges)
    assert graph.degrees().tolist() == list(map(len, rows))
    assert graph.num_edges == len(edges)  # with self-loops and parallel edges
    assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)


def test_csr_is_built_once_cannot_be_changed_and_is_built_again_when_it_was_released(make_graph):
    graph = make_graph(3, [(0, 1, 0), (2, 1, 0)])
    before = graph.csr()
    assert graph.csr()[1] is before[1]
    with pytest.raises(ValueError, match="read-only"):
        graph.csr()[1][0] = 0
    graph.release_csr()
    graph.release_csr()  # nothing is kept now, which is no mistake
    after = graph.csr()
    assert after[1] is not before[1]
    assert [rows.tolist() for rows in after] == [rows.tolist() for rows in before]


@given(EDGES, st.lists(st.lists(st.integers(-1, NODES - 1), min_size=5, max_size=5), min_size=1, max_size=6))
def test_relations_are_the_typed_edges_between_the_nodes_one_by_one_and_in_bulk(make_graph, edges, rows):
    graph = make_graph(NODES, edges)
    expected = [_relations_by_brute_force(graph, row) for row in rows]
    assert [graph.relations_between(row) for row in rows] == expected
    assert list(graph.relations_for(np.array(rows, dtype=np.int32))) == expected


def test_bulk_relations_continue_over_the_chunks(make_graph, monkeypatch):
    monkeypatch.setattr("kgqa_hpc.kg.graph._ROWS", 3)
    graph = make_graph(4, [(0, 1, 0), (2, 1, 1), (3, 0, 2)])
    rows = np.array([[i % 4, (i + 1) % 4, -1] for i in range(10)], dtype=np.int32)
    assert list(graph.relations_for(rows)) == [graph.relations_between(row) for row in rows]


def test_arrays_are_read_only_and_the_callers_stay_writable(make_graph):
    source = np.array([0], dtype=np.int32)
    graph = make_graph(2, [(0, 1, 0)])
    copy = KnowledgeGraph(**{**graph.__dict__, "edge_source": source})
    with pytest.raises(ValueError, match="read-only"):
        copy.edge_source[0] = 1
    source[0] = 1


WRONG = {"edge_target": [2], "edge_source": [-1], "edge_type": [3], "node_type": [0, 2], "names": ["one"]}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_together_are_refused(make_graph, name):
    array = np.array(WRONG[name], dtype=object if name == "names" else np.int32)
    with pytest.raises(ValueError, match=name):
        replace(make_graph(2, [(0, 1, 0)]), **{name: array})
