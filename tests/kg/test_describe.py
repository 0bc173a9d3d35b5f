import json
from collections import Counter

import numpy as np
import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.describe import Profiles, dump_profiles, one_line, place_of, profile, read_profiles
from kgqa_hpc.kg.graph import components
from kgqa_hpc.kg.kernels import k_core
from kgqa_hpc.kg.reduce import reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from tests.command import kgqa

CONFIG = "graph: {source: csv, nodes: n.csv, edges: e.csv, min_degree: 1}\nengine: {kind: scripted}\n"
NODES = "id,name,type,year\na,Alpha,x,1\nb,Beta,y,\nc,beta,y,\nd,,y,\n"
EDGES = "source_id,target_id,type\na,b,r\na,b,r\nb,a,s\na,a,r\nc,d,r\nb,c,s\n"


@pytest.fixture
def run(tmp_path, write):
    write("n.csv", NODES)
    write("e.csv", EDGES)
    kgqa("init", write("c.yaml", CONFIG), tmp_path / "run")
    kgqa("import", tmp_path / "run")
    return tmp_path / "run"


def _json(*words):
    return json.loads(kgqa("kg", *words, "--json").stdout)


def test_stats_count_types_relations_and_what_stands_twice(run):
    found = _json("stats", run)
    assert (found["nodes"], found["edges"]) == (4, 6)
    assert found["node_types"] == {"y": 3, "x": 1}
    assert found["edge_types"] == {"r": 4, "s": 2}
    assert (found["distinct_edges"], found["directed_pairs"], found["simple_edges"]) == (5, 5, 3)
    assert (found["self_loops"], found["unnamed"], found["distinct_names"]) == (1, 1, 3)
    assert {"source": "x", "type": "r", "target": "y", "edges": 2} in found["relations"]
    assert found["components"] == {"number": 1, "largest": 4}
    assert found["reduced"]["nodes"] == 3
    assert found["reduction"]["unnamed_nodes"] == 1


def test_a_reduction_that_leaves_nothing_does_not_hide_the_graph(run, monkeypatch):
    def nothing(*_):
        raise InputError("exclude_edge_types: the graph has no edge type 'is_b'", "its edge types: r, s")

    monkeypatch.setattr("kgqa_hpc.kg.reduce.reduce_to", nothing)
    found = _json("stats", run)
    assert found["nodes"] == 4
    assert "no edge type 'is_b'" in found["reduction_error"]


def test_show_finds_a_node_by_id_or_name_and_tells_directions(run):
    found = _json("show", run, "ALPHA")
    assert (found["id"], found["name"], found["properties"]) == ("a", "Alpha", {"year": 1})
    edges = [(edge["direction"], edge["type"], edge["node"]["id"]) for edge in found["edges"]]
    assert edges[:3] == [("out", "r", "b"), ("out", "r", "b"), ("in", "s", "b")]
    text = kgqa("kg", "show", run, "a").stdout
    assert "Alpha" in text
    assert "-[r]-> Beta" in text


def test_a_name_that_two_nodes_have_is_refused_with_their_ids(run, make_graph):
    graph = make_graph(2, [(0, 1, 0)], ["same", "Same"])
    with pytest.raises(InputError, match="2 nodes are named 'same'") as caught:
        place_of(graph, "same")
    assert "n0, n1" in caught.value.cure
    with pytest.raises(InputError, match="no node has the id or the name 'other'"):
        place_of(graph, "other")


def test_find_ignores_case_and_can_be_held_to_a_type(run):
    assert [node["id"] for node in _json("find", run, "BET")["nodes"]] == ["b", "c"]
    assert _json("find", run, "a", "--type", "x")["total"] == 1
    assert _json("find", run, "zzz") == {"total": 0, "nodes": []}
    assert kgqa("kg", "find", run, "e", "-n", 1).stdout.count("\n") == 2


def test_figures_are_drawn_where_asked(run, tmp_path):
    pytest.importorskip("matplotlib")
    kgqa("kg", "stats", run, "--figures", tmp_path / "f")
    figures = sorted(path.stem for path in (tmp_path / "f").glob("*.png"))
    assert figures == ["degrees", "name_lengths", "node_types"]


def test_foreign_text_goes_to_a_terminal_without_control_characters():
    assert one_line("a\x1b[31mb\nc") == "a [31mb c"
    assert one_line("x" * 999, 10) == "x" * 9 + "…"


def test_components_and_cores_agree_with_networkx(make_graph):
    networkx = pytest.importorskip("networkx")
    for seed in range(20):
        random = np.random.default_rng(seed)
        pairs = random.integers(0, 12, (random.integers(1, 25), 2))
        graph = make_graph(12, [(s, t, 0) for s, t in pairs])
        oracle = networkx.Graph([(s, t) for s, t in pairs.tolist() if s != t])
        oracle.add_nodes_from(range(12))
        sizes = np.bincount(components(*graph.csr()))
        assert sorted(sizes) == sorted(map(len, networkx.connected_components(oracle))), seed
        for k in (1, 2, 3):
            core = np.flatnonzero(k_core(*graph.csr(), k)).tolist()
            assert core == sorted(networkx.k_core(oracle, k)), (seed, k)


def test_each_option_of_the_reduction_is_counted_under_its_own_reason(make_graph):
    triangle = [(0, 1, 0), (1, 2, 0), (2, 0, 0), (2, 3, 1), (3, 4, 0), (5, 6, 0)]
    graph = make_graph(8, triangle)
    wanted = GraphConfig(min_degree=1, max_degree=9, k_core=1, largest_component=True)
    found = reduce_to(graph, wanted)
    assert found.graph.node_ids.tolist() == ["n0", "n1", "n2", "n3", "n4"]
    keys = ("nodes_below_min_degree", "nodes_outside_k_core", "nodes_outside_largest_component")
    assert [found.counts.get(key, 0) for key in keys] == [1, 0, 2]
    core = reduce_to(graph, GraphConfig(min_degree=0, k_core=2))
    assert core.nodes.tolist() == [0, 1, 2]
    assert core.counts["nodes_outside_k_core"] == 5
    typed = reduce_to(graph, GraphConfig(min_degree=0, exclude_node_types=["disease"]))
    assert typed.counts["excluded_nodes"] == {"disease": 4}
    assert typed.graph.node_ids.tolist() == ["n0", "n2", "n4", "n6"]
    typed = reduce_to(graph, GraphConfig(min_degree=0, node_types=["gene"]))
    assert typed.counts["excluded_nodes"] == {"disease": 4}
    with pytest.raises(InputError, match=r"exclude_node_types: .* no node type 'gen', did you mean"):
        reduce_to(graph, GraphConfig(exclude_node_types=["gen"]))


def test_degrees_types_and_names_are_counted(make_graph):
    names = ["", "", *("x" * size for size in (10, 20, 30, 151, 950))]
    graph = make_graph(7, [(0, 1, 0), (1, 0, 0), (1, 2, 1), (3, 3, 2), (4, 5, 0)], names)
    found = profile(graph)
    assert (found.nodes, found.edges) == (7, 5)
    assert found.degrees == Counter(graph.degrees().tolist()) == {0: 2, 1: 4, 2: 1}
    assert list(found.node_types.items()) == [("gene", 4), ("disease", 3)]
    gene, disease = found.names["gene"], found.names["disease"]
    assert (gene.named, gene.longest, gene.above) == (3, 950, 1)
    assert gene.quantiles == tuple(np.percentile([10, 30, 950], [5, 25, 50, 75, 95]).round(1))
    assert (disease.named, disease.longest, disease.above) == (2, 151, 1)


def test_they_are_read_back_as_written_and_nothing_else_is(make_graph, tmp_path):
    one = Profiles(profile(make_graph(3, [(0, 1, 0)])), None)
    path = tmp_path / "graph.json"
    assert read_profiles(path) is None
    path.write_bytes(dump_profiles(one))
    assert read_profiles(path) == one
    path.write_text('{"graph": {"nodes": "<b>"}}')
    with pytest.raises(InputError, match=r"graph\.json: is not what kgqa sample wrote"):
        read_profiles(path)
