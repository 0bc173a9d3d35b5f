import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import EmptyGraphError, InputError
from kgqa_hpc.kg.reduce import reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from tests.kg.conftest import load_source

NODES = 9
NUMBERS = st.integers(0, NODES - 1)
EDGES = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2)), max_size=60)


def _slow_reduction(nodes, edges, names, excluded, low, high):
    """The published order in plain sets: unnamed nodes and excluded types, then degrees, once."""
    named = {i for i in range(nodes) if names[i].strip()}
    edges = [(s, t, k) for s, t, k in edges if s in named and t in named and k not in excluded]
    ends = {(a, b) for s, t, _ in edges for a, b in ((s, t), (t, s)) if s != t}
    neighbours = {i: {b for a, b in ends if a == i} for i in named}
    kept = [i for i in sorted(named) if low <= len(neighbours[i]) <= high]
    return kept, [(s, t, k) for s, t, k in edges if s in kept and t in kept]


@given(
    EDGES,
    st.lists(st.sampled_from(["named", "", " "]), min_size=NODES, max_size=NODES),
    st.sets(st.integers(0, 2), max_size=2),
    st.integers(0, 3),
    st.integers(3, 6),
)
def test_named_nodes_of_degrees_counted_once_are_left_as_a_slow_reference_leaves_them(
    make_graph, edges, names, excluded, low, high
):
    names = [f"{name}{9 - number}" if name.strip() else name for number, name in enumerate(names)]
    kept, left = _slow_reduction(NODES, edges, names, excluded, low, high)
    graph = make_graph(NODES, edges, names)
    excluded_names = [graph.edge_types[code] for code in excluded]
    arguments = {"exclude_edge_types": excluded_names, "min_degree": low, "max_degree": high}
    if not any(s != t for s, t, _ in left):
        with pytest.raises(EmptyGraphError):
            reduce_to(graph, GraphConfig(**arguments))
        return
    report = reduce_to(graph, GraphConfig(**arguments))
    reduced = report.graph
    assert report.nodes.tolist() == kept
    assert reduced.node_ids.tolist() == [f"n{i}" for i in kept]
    assert reduced.names.tolist() == [names[i] for i in kept]
    ends = [(kept[s], kept[t]) for s, t in zip(reduced.edge_source, reduced.edge_target, strict=True)]
    assert [(*pair, kind) for pair, kind in zip(ends, reduced.edge_type.tolist(), strict=True)] == left
    counts = report.counts
    dropped = ("unnamed_nodes", "nodes_below_min_degree", "nodes_above_max_degree")
    assert len(kept) + sum(counts[reason] for reason in dropped) == NODES
    assert len(left) + sum(counts["excluded_edges"].values()) + counts["edges_of_dropped_nodes"] == len(edges)


@pytest.mark.parametrize(
    ("names", "limits", "message"),
    [
        (None, {"exclude_edge_types": ["aa"]}, r"no edge type 'aa', did you mean a\?\n +its.*: a, b, c"),
        (None, {}, r"none of 3 named nodes has a degree from 3 to 100 .*1 to 2"),
        (["", " ", ""], {}, "no node with a name"),
    ],
)
def test_a_reduction_that_leaves_nothing_says_why(make_graph, names, limits, message):
    with pytest.raises(InputError, match=message):
        reduce_to(make_graph(3, [(0, 1, 0), (1, 2, 0)], names), GraphConfig(**limits))


def test_the_report_reads_as_one_sentence_and_as_plain_data(make_graph):
    graph = make_graph(4, [(0, 1, 0), (1, 2, 0), (2, 0, 1), (2, 3, 2)], ["a", "b", "c", ""])
    report = reduce_to(graph, GraphConfig(exclude_edge_types=["c"], min_degree=2, max_degree=9))
    assert str(report) == (
        "4 nodes, 4 edges - 1 unnamed nodes - 1 edges of excluded types"
        " - 0 nodes of degree < 2 - 0 of degree > 9 = 3 nodes, 3 simple edges"
    )
    assert report.counts["excluded_edges"] == {"c": 1}
    assert report.counts["simple_edges"] == 3


SHARED = Path(__file__).parents[3] / "shared" / "data" / "kg"
GRAPHS = sorted(path.parent for path in SHARED.glob("*/nodes.csv.gz"))


def _counts(codes, names):
    counts = dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))
    return {name: count for name, count in counts.items() if count}


@pytest.mark.skipif(not GRAPHS, reason="SHARED DATA NOT HERE")
@pytest.mark.parametrize("folder", GRAPHS, ids=lambda path: path.name)
def test_reading_and_reduction_give_the_figures_that_an_independent_program_counted(folder):
    known = json.loads((folder / "stats.json").read_text())
    graph = load_source("csv", nodes=folder / "nodes.csv.gz", edges=folder / "edges.csv.gz")
    degrees = graph.degrees()
    report = reduce_to(graph, GraphConfig())
    reduced = report.graph
    found = {
        "nodes": graph.num_nodes,
        "edge_rows": graph.num_edges,
        "undirected_simple_edges": len(graph.csr()[1]) // 2,
        "self_loops": int((graph.edge_source == graph.edge_target).sum()),
        "isolated": int((degrees == 0).sum()),
        "node_types": _counts(graph.node_type, graph.node_types),
        "edge_types": _counts(graph.edge_type, graph.edge_types),
        "unnamed": report.counts["unnamed_nodes"],
        "dup_names": graph.num_nodes - len(set(graph.names)),
        "max_degree": int(degrees.max()),
        "median_degree": int(np.median(degrees)),
        "deg_lt3": report.counts["nodes_below_min_degree"],
        "deg_gt100": report.counts["nodes_above_max_degree"],
        "reduced_nodes": reduced.num_nodes,
        "reduced_edges": len(reduced.csr()[1]) // 2,
        "reduced_isolated": int((reduced.degrees() == 0).sum()),
        "reduced_node_types": _counts(reduced.node_type, reduced.node_types),
    }
    assert found == {key: known[key] for key in found}
