# ruff: noqa: E501 - rows of files are one line here too
"""What the graphs of GraphRAG tools do that a stranger would not expect."""

from __future__ import annotations

GRAPHRAG = """<graphml><key id="d0" for="node" attr.name="entity_type"/><key id="d1" for="node" attr.name="description"/>
<key id="d2" for="edge" attr.name="weight"/><key id="d3" for="edge" attr.name="keywords"/><graph edgedefault="undirected">
<node id="&quot;IMATINIB&quot;"><data key="d0">"DRUG"</data><data key="d1">a&lt;SEP&gt;b</data></node>
<node id="&quot;DASWER``"><data key="d0">DRUG</data></node><node id="x"><data key="d0">"UNKNOWN"</data></node>
<edge source="&quot;IMATINIB&quot;" target="x"><data key="d2">2.0</data>%s</edge></graph></graphml>"""


def test_graphrag_quotes_are_taken_off_names_and_types_but_not_off_ids(load, nodes_of, edges_of, write):
    graph = load("nano-graphrag", path=write("g.graphml", GRAPHRAG % ""))
    assert nodes_of(graph) == [
        ('"IMATINIB"', "IMATINIB", "DRUG"), ('"DASWER``', "DASWER", "DRUG"), ("x", "x", "UNKNOWN"),
    ]  # fmt: skip
    assert graph.node_types == ("DRUG", "UNKNOWN")
    assert graph.edge_types == ("",)
    assert graph.node_properties["description"].to_pylist() == ["a<SEP>b", None, None]
    assert graph.edge_properties["weight"].to_pylist() == [2.0]


def test_an_apostrophe_at_the_end_of_a_name_stays(load, write):
    text = (GRAPHRAG % "").replace("DASWER``", "5'-3'&quot;")
    assert "5'-3'" in load("nano-graphrag", path=write("g.graphml", text)).names.tolist()


def test_graphrag_keywords_are_types_and_the_lack_of_one_can_be_named(load, write):
    path = write("g.graphml", GRAPHRAG % '<data key="d3">inhibits</data>')
    assert load("nano-graphrag", path=path).edge_types == ("inhibits",)
    path = write("h.graphml", GRAPHRAG % "")
    assert load("nano-graphrag", path=path, edge_type="related_to").edge_types == ("related_to",)
