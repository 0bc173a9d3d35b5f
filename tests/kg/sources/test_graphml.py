from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError
from kgqa_hpc.kg.assemble import Policy
from kgqa_hpc.kg.sources.graphml import read_graphml

NAMESPACE = 'xmlns="http://graphml.graphdrawing.org/xmlns"'

NETWORKX = f"""<?xml version='1.0' encoding='utf-8'?>
<graphml {NAMESPACE}>
  <key id="d2" for="edge" attr.name="relation" attr.type="string"/>
  <key id="d1" for="node" attr.name="kind" attr.type="string"/>
  <key id="d0" for="node" attr.name="name" attr.type="string"/>
  <graph edgedefault="directed">
    <node id="G1"><data key="d0">BRCA1 &amp; co</data><data key="d1">gene</data></node>
    <node id="D1"><data key="d0">cancer</data><data key="d1">disease</data></node>
    <edge source="G1" target="D1"><data key="d2">associates</data></edge>
    <edge source="D1" target="G1"/>
  </graph>
</graphml>
"""
# As Neo4j's apoc.export.graphml writes: labels as an attribute and as data, keys not declared for them.
NEO4J = f"""<?xml version="1.0" encoding="UTF-8"?>
<graphml {NAMESPACE}>
<key id="name" for="node" attr.name="name"/>
<graph id="G" edgedefault="directed">
<node id="n0" labels=":Gene:Entity"><data key="labels">:Gene:Entity</data><data key="name">BRCA1</data></node>
<node id="n1" labels=":Disease"><data key="name">cancer</data></node>
<edge id="e0" source="n0" target="n1" label="ASSOCIATES"><data key="label">ASSOCIATES</data></edge>
<edge id="e1" source="n1" target="n0" label="CAUSED_BY"></edge>
</graph>
</graphml>
"""
# As LightRAG writes: the id is the name, entity_type the type.
LIGHTRAG = f"""<graphml {NAMESPACE}>
<key id="d0" for="node" attr.name="entity_type"/><key id="d1" for="node" attr.name="description"/>
<graph edgedefault="undirected">
<node id="ALICE"><data key="d0">person</data><data key="d1">about</data></node>
<node id="BOB"><data key="d0">person</data></node><edge source="ALICE" target="BOB"/></graph></graphml>
"""


def test_names_and_types_are_found_by_the_names_of_their_keys(write, nodes_of, edges_of):
    graph = read_graphml(write("g.graphml", NETWORKX))
    assert nodes_of(graph) == [("G1", "BRCA1 & co", "gene"), ("D1", "cancer", "disease")]
    assert edges_of(graph) == [("G1", "associates", "D1"), ("D1", "", "G1")]


def test_neo4js_labels_are_types(write, nodes_of, edges_of):
    graph = read_graphml(write("g.graphml", NEO4J))
    assert nodes_of(graph) == [("n0", "BRCA1", "Gene"), ("n1", "cancer", "Disease")]
    assert edges_of(graph) == [("n0", "ASSOCIATES", "n1"), ("n1", "CAUSED_BY", "n0")]


def test_without_any_name_ids_are_names_and_without_edge_type_edges_are_related(write, nodes_of, edges_of):
    graph = read_graphml(write("g.graphml.gz", gzip.compress(LIGHTRAG.encode())))
    assert nodes_of(graph) == [("ALICE", "ALICE", "person"), ("BOB", "BOB", "person")]
    assert edges_of(graph) == [("ALICE", "related_to", "BOB")]


def test_the_best_of_several_names_counts_and_defaults_fill_the_gaps(write, nodes_of, edges_of):
    text = f"""<g:graphml {NAMESPACE.replace("xmlns", "xmlns:g", 1)}>
    <g:key id="k1" for="node" attr.name="label"/><g:key id="k2" for="node" attr.name="Name"/>
    <g:key id="k3" for="all" attr.name="type"><g:default>thing</g:default></g:key><g:graph>
    <g:node id="a"><g:data key="k2">best</g:data><g:data key="k1">second</g:data></g:node>
    <g:node id="b"><g:data key="k1">second</g:data><g:data key="k3">person</g:data></g:node>
    <g:edge source="a" target="b"/></g:graph></g:graphml>"""
    graph = read_graphml(write("g.graphml", text))
    assert nodes_of(graph) == [("a", "best", "thing"), ("b", "second", "person")]
    assert edges_of(graph) == [("a", "thing", "b")]


def test_nested_graphs_are_flattened_and_foreign_content_ignored(write, nodes_of):
    text = f"""<graphml {NAMESPACE} xmlns:y="urn:y"><key id="d0" for="node" attr.name="name"/>
    <key id="d9" for="node" yfiles.type="nodegraphics"/><graph><data key="d0">not a node's</data>
    <node id="a"><data key="d9"><y:Shape><y:node id="x">ink</y:node></y:Shape></data>
    <data key="d0">outer</data><graph><node id="b"><data key="d0">inner</data></node></graph></node>
    <edge source="a" target="b"/></graph></graphml>"""
    assert nodes_of(read_graphml(write("g.graphml", text))) == [
        ("a", "outer", "entity"),
        ("b", "inner", "entity"),
    ]


@settings(max_examples=40)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=8).map(
            lambda text: f"n{text}"
        ),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
def test_any_text_comes_back_as_it_was_written(tmp_path_factory, ids):
    from xml.sax.saxutils import escape, quoteattr

    nodes = "".join(f'<node id={quoteattr(i)}><data key="type">{escape(i)}</data></node>' for i in ids)
    edge = f"<edge source={quoteattr(ids[0])} target={quoteattr(ids[-1])}/>"
    path = tmp_path_factory.mktemp("any") / "g.graphml"
    path.write_text(f"<graphml><graph>{nodes}{edge}</graph></graphml>", encoding="utf-8")
    graph = read_graphml(path)
    assert graph.node_ids.tolist() == ids
    assert [graph.node_types[code] for code in graph.node_type] == ids


def test_a_declared_encoding_is_respected(write):
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><graphml><graph><node id="é"/>'
    text += '<edge source="é" target="é"/></graph></graphml>'
    assert read_graphml(write("g.graphml", text.encode("latin-1"))).node_ids.tolist() == ["é"]


BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph><node id="&b;"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "g.graphml line 2: a DOCTYPE is not allowed"),
        ("<gexf/>", "g.graphml line 1: the document is 'gexf', not GraphML"),
        ("<graphml>\n<graph>\n<node/></graph></graphml>", "line 3: the node has no attribute 'id'"),
        (
            "<graphml>\n<graph><edge source='a'/>\n</graph></graphml>",
            "line 2: the edge has no attribute 'target'",
        ),
        ("<graphml>\n<graph>\n</graphml>", "line 3: not well-formed XML: mismatched tag"),
        ("<graphml>\n<graph>\n&x;</graph></graphml>", "line 3: not well-formed XML: undefined entity"),
        ("<graphml><graph>", "line 1: not well-formed XML: no element found"),
        (b"<graphml>\n<graph><node id='caf\xe9'/></graph></graphml>", "line 2: byte 0xE9 is not UTF-8"),
        ('<?xml version="1.0" encoding="none"?><graphml/>', "line 1: not well-formed XML: unknown encoding"),
        ("<graphml><graph>\n<hyperedge/></graph></graphml>", "line 2: hyperedges are not supported"),
        (
            "<graphml><graph>\n<node id='a'/>\n<node id='a'/></graph></graphml>",
            "line 3: node id 'a' already stands",
        ),
        ("<graphml><graph>\n<node id='  '/></graph></graphml>", "line 2: the node's id is empty"),
        (
            "<graphml><graph><node id='a'/>\n<edge source='a'\n target='b'/></graph></graphml>",
            "line 2: target 'b' is not in g.graphml",
        ),
        (
            "<graphml><graph><node id='a'><graph/>\n<data key='name'>x</data></node></graph></graphml>",
            "line 2: data of a node after the graph nested in it",
        ),
        ("", "g.graphml: is empty"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(write, text, message):
    with pytest.raises(GraphFormatError) as caught:
        read_graphml(write("g.graphml", text))
    assert message in str(caught.value)


def test_policies_hold_for_graphml_too(write):
    text = "<graphml><graph><node id='a'/><node id='a'/>"
    text += "<edge source='a' target='a'/><edge source='a' target='b'/></graph></graphml>"
    graph = read_graphml(write("g.graphml", text), Policy(unknown_nodes="drop", duplicate_nodes="first"))
    assert (graph.num_nodes, graph.num_edges) == (1, 1)
    unnamed = NETWORKX.replace('<data key="d0">cancer</data>', "")
    with pytest.raises(GraphFormatError, match=r"line 8: node 'D1' has no name"):
        read_graphml(write("u.graphml", unnamed), Policy(unnamed_nodes="error"))


def test_a_document_without_nodes_is_an_empty_graph(write):
    with pytest.raises(EmptyGraphError):
        read_graphml(write("g.graphml", "<graphml/>"))
