from __future__ import annotations

import pytest

from kgqa_hpc.config import GraphConfig
from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg import load
from kgqa_hpc.kg.load import load_graph

NODES = "id,name,type\na,Alpha,x\nb,,x\n"
GRAPHML = "<graphml><graph><node id='a'/><node id='b'/><edge source='a' target='b'/></graph></graphml>"


def test_every_source_of_the_configuration_is_read(write):
    nodes, edges = write("n.csv", NODES), write("e.csv", "source_id,target_id,type\na,b,r\n")
    triples, graphml = write("t.tsv", "a\tr\tb\n"), write("g.graphml", GRAPHML)
    for config in (
        GraphConfig(source="csv", nodes=str(nodes), edges=str(edges)),
        GraphConfig(source="triples", path=str(triples)),
        GraphConfig(source="triples", path=str(triples), nodes=str(nodes)),
        GraphConfig(source="graphml", path=str(graphml)),
    ):
        graph = load_graph(config)
        assert graph.node_ids.tolist() == ["a", "b"]
        assert (graph.edge_source.tolist(), graph.edge_target.tolist()) == ([0], [1])
        assert graph.attributes["source"] == config.source


def test_the_hpo_source_needs_no_file(monkeypatch, make_graph):
    graph = make_graph(2, [(0, 1, 0)])
    monkeypatch.setattr("kgqa_hpc.kg.sources.hpo.read_hpo", lambda: graph)
    assert load_graph(GraphConfig()) is graph


def test_the_configured_policies_reach_the_reader(write):
    nodes, edges = (
        write("n.csv", NODES + "a,again,x\n"),
        write("e.csv", "source_id,target_id,type\na,b,r\na,c,r\n"),
    )
    config = GraphConfig(source="csv", nodes=str(nodes), edges=str(edges))
    with pytest.raises(GraphFormatError, match="already stands"):
        load_graph(config)
    config = config.model_copy(update={"duplicate_nodes": "first"})
    with pytest.raises(GraphFormatError, match="'c' is not in"):
        load_graph(config)
    config = config.model_copy(update={"unknown_nodes": "drop"})
    assert load_graph(config).num_edges == 1
    with pytest.raises(GraphFormatError, match="'b' has no name"):
        load_graph(config.model_copy(update={"unnamed_nodes": "error"}))


def test_every_policy_of_the_configuration_has_its_field_in_the_policy():
    shared = set(load.Policy.__dataclass_fields__)
    assert shared == {name for name in GraphConfig.model_fields if name.endswith("_nodes")}
    for name in shared:
        assert getattr(load.Policy(), name) == GraphConfig.model_fields[name].default
