"""kg.h5 of version 2, as first written, is read for ever."""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.kg.file import read_graph, write_graph
from tests.by_path import load

GOLDEN = Path(__file__).parents[1] / "store" / "golden"


def test_a_graph_of_version_2_has_its_typed_properties():
    made, graph = load(GOLDEN / "make_v2.py"), read_graph(GOLDEN / "v2" / "kg.h5")
    assert dict(graph.node_properties) == made.NODE_PROPERTIES
    assert dict(graph.edge_properties) == made.EDGE_PROPERTIES
    assert graph.names.tolist() == made.graph().names.tolist()


def test_the_golden_graph_comes_back_through_todays_writer(tmp_path):
    graph = read_graph(GOLDEN / "v2" / "kg.h5")
    write_graph(tmp_path / "kg.h5", graph, {})
    assert dict(read_graph(tmp_path / "kg.h5").node_properties) == dict(graph.node_properties)
