"""Graphs as csv, triples and graphml: what is read, and what is refused with file and line."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError, InputError
from kgqa_hpc.kg.sources.csv import read_csv
from kgqa_hpc.kg.sources.graphml import read_graphml
from kgqa_hpc.text.plain_text import normalized

NODES = "id,name,type\nG1,BRCA1,gene\nD1,breast cancer,disease\n"
HEAD = "source_id,target_id,type\n"
EDGES = f"{HEAD}G1,D1,associates\n"
PAIR = [("G1", "BRCA1", "gene"), ("D1", "breast cancer", "disease")]
OWN_EDGES = {"source": "from", "target": "to", "type": "rel"}
OWN = "from;to;rel;year\nG1;D1;r;1999\n"

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
<graphml {NAMESPACE}><key id="name" for="node" attr.name="name"/><graph id="G" edgedefault="directed">
<node id="n0" labels=":Gene:Entity"><data key="labels">:Gene:Entity</data><data key="name">BRCA1</data></node>
<node id="n1" labels=":Disease"><data key="name">cancer</data></node>
<edge id="e0" source="n0" target="n1" label="ASSOCIATES"><data key="label">ASSOCIATES</data></edge>
<edge id="e1" source="n1" target="n0" label="CAUSED_BY"></edge></graph></graphml>
"""
# As LightRAG writes: the id is the name, entity_type the type.
LIGHTRAG = f"""<graphml {NAMESPACE}>
<key id="d0" for="node" attr.name="entity_type"/><key id="d1" for="node" attr.name="description"/>
<graph edgedefault="undirected"><node id="ALICE"><data key="d0">person</data><data key="d1">about</data></node>
<node id="BOB"><data key="d0">person</data></node><edge source="ALICE" target="BOB"/></graph></graphml>
"""
SEVERAL_KEYS = f"""<g:graphml {NAMESPACE.replace("xmlns", "xmlns:g", 1)}>
<g:key id="k1" for="node" attr.name="label"/><g:key id="k2" for="node" attr.name="Name"/>
<g:key id="k3" for="all" attr.name="type"><g:default>thing</g:default></g:key><g:graph>
<g:node id="a"><g:data key="k2">best</g:data><g:data key="k1">second</g:data></g:node>
<g:node id="b"><g:data key="k1">second</g:data><g:data key="k3">person</g:data></g:node>
<g:edge source="a" target="b"/></g:graph></g:graphml>"""
NESTED = f"""<graphml {NAMESPACE} xmlns:y="urn:y"><key id="d0" for="node" attr.name="name"/>
<key id="d9" for="node" yfiles.type="nodegraphics"/><graph><data key="d0">not a node's</data>
<node id="a"><data key="d9"><y:Shape><y:node id="x">ink</y:node></y:Shape></data>
<data key="d0">outer</data><graph><node id="b"><data key="d0">inner</data></node></graph></node>
<edge source="a" target="b"/></graph></graphml>"""
LATIN = (
    '<?xml version="1.0" encoding="ISO-8859-1"?><graphml><graph><node id="é"/><edge source="é" target="é"/>'
)
BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph><node id="&b;"/></graph></graphml>"""
FILES = {
    "csv": {"nodes": "nodes.csv", "edges": "edges.csv.gz"},
    "triples": {"path": "t.tsv", "nodes": "nodes.csv"},
    "graphml": {"path": "g.graphml"},
}


@pytest.fixture
def read(write, load):
    """read(source, contents of its files …, further keys) -> the graph"""

    def graph(source, *contents, **keys):
        names = zip(FILES[source].items(), contents, strict=False)
        paths = {key: write(name, content) for (key, name), content in names if content is not None}
        return load(source, **paths, **keys)

    return graph


def entities(*ids):
    return [(node, node, "entity") for node in ids]


@pytest.mark.parametrize(
    ("source", "contents", "keys", "nodes", "edges"),
    [
        ("csv", [NODES, gzip.compress(EDGES.encode())], {}, PAIR, [("G1", "associates", "D1")]),
        *(
            (
                "csv",
                [NODES.replace(",", sign), EDGES.replace(",", sign)],
                {},
                PAIR,
                [("G1", "associates", "D1")],
            )
            for sign in ";\t|"
        ),
        (  # columns in any order, among others
            "csv",
            [
                'note,type,id,note,name\n"x\ny",gene,G1,,BRCA1\n',
                "type,target_id,weight,source_id\nr,G1,5,G1\n",
            ],
            *({}, [("G1", "BRCA1", "gene")], [("G1", "r", "G1")]),
        ),
        (  # names become NFC, ids stay as found; a quote inside an unquoted field is a letter
            "csv",
            ['id,name,type\ne\u0301,Ange\u0301lique,x\n\u00e9,5" pipe,x\n', f"{HEAD}e\u0301,\u00e9,r\n"],
            {},
            [("e\u0301", "Ang\u00e9lique", "x"), ("\u00e9", '5" pipe', "x")],
            [("e\u0301", "r", "\u00e9")],
        ),
        (  # several gzip members are one file
            "csv",
            [gzip.compress(b"id,name,type\nG1,a,x\n") + gzip.compress(b"D1,b,x\n"), EDGES],
            *({}, [("G1", "a", "x"), ("D1", "b", "x")], [("G1", "associates", "D1")]),
        ),
        ("csv", [None, OWN], {"edge_columns": OWN_EDGES}, entities("G1", "D1"), [("G1", "r", "D1")]),
        (
            "csv",
            [None, "source_id/target_id/type\na,b/c;d/r\n"],
            *({"delimiter": "/"}, entities("a,b", "c;d"), [("a,b", "r", "c;d")]),
        ),
        (
            "triples",
            ["b\tr\ta\nc\ts\tb\na\tr\ta\n"],
            *({}, entities("b", "a", "c"), [("b", "r", "a"), ("c", "s", "b"), ("a", "r", "a")]),
        ),
        *(
            (
                "triples",
                [gzip.compress(f"{head}\r\na\tr\tb\r\n".encode())],
                {},
                entities("a", "b"),
                [("a", "r", "b")],
            )
            for head in ("head\trelation\ttail", "#Subject\tPredicate\tObject", "source_id\ttype\ttarget_id")
        ),
        ("triples", ["head\tpart_of\tbody\n"], {}, entities("head", "body"), [("head", "part_of", "body")]),
        ("triples", ['"a\tr,"\t5" pipe\n'], {}, entities('"a', '5" pipe'), [('"a', 'r,"', '5" pipe')]),
        ("triples", ["a,x,y/r/b\n"], {"delimiter": "/"}, entities("a,x,y", "b"), [("a,x,y", "r", "b")]),
        *(
            ("triples", [text], {}, entities("a", "b, c"), [("a", "r", "b, c")])
            for text in ('a,r,"b, c"\n', "head;rel;tail\na;r;b, c\n", "a|r|b, c\n", "a\tr\tb, c\n")
        ),
        ("triples", ["G1\tr\tD1\n", NODES], {}, PAIR, [("G1", "r", "D1")]),
        (
            "graphml",
            [NETWORKX],
            {},
            [("G1", "BRCA1 & co", "gene"), ("D1", "cancer", "disease")],
            [("G1", "associates", "D1"), ("D1", "", "G1")],
        ),
        (
            "graphml",
            [NEO4J],
            {},
            [("n0", "BRCA1", "Gene"), ("n1", "cancer", "Disease")],
            [("n0", "ASSOCIATES", "n1"), ("n1", "CAUSED_BY", "n0")],
        ),
        (
            "graphml",
            [gzip.compress(LIGHTRAG.encode())],
            *({}, [("ALICE", "ALICE", "person"), ("BOB", "BOB", "person")], [("ALICE", "related_to", "BOB")]),
        ),
        (
            "graphml",
            [SEVERAL_KEYS],
            *({}, [("a", "best", "thing"), ("b", "second", "person")], [("a", "thing", "b")]),
        ),
        (
            "graphml",
            [NESTED],
            {},
            [("a", "outer", "entity"), ("b", "inner", "entity")],
            [("a", "related_to", "b")],
        ),
        (
            "graphml",
            [f"{LATIN}</graph></graphml>".encode("latin-1")],
            {},
            entities("é"),
            [("é", "related_to", "é")],
        ),
    ],
)
def test_nodes_and_edges_come_as_the_files_say(
    read, nodes_of, edges_of, source, contents, keys, nodes, edges
):
    graph = read(source, *contents, **keys)
    assert nodes_of(graph) == nodes
    assert edges_of(graph) == edges


def test_columns_may_have_other_names_and_all_others_stay_properties(read, nodes_of):
    nodes = "category\tcui\tlabel\tid\ngene\tG1\tBRCA1\t7\ndisease\tD1\tcancer\t8\n"
    columns = {"id": "cui", "name": "label", "type": "category"}
    graph = read("csv", nodes, OWN, columns=columns, edge_columns=OWN_EDGES)
    assert nodes_of(graph) == [("G1", "BRCA1", "gene"), ("D1", "cancer", "disease")]
    assert graph.node_properties["id"].to_pylist() == [7, 8]
    assert graph.edge_properties["year"].to_pylist() == [1999]


def test_types_are_coded_in_the_order_of_their_first_appearance(read):
    graph = read("csv", NODES, f"{HEAD}G1,D1,b\nD1,G1,a\nG1,G1,b\n")
    assert (graph.edge_types, graph.edge_type.tolist()) == (("b", "a"), [0, 1, 0])


TEXT = st.text(
    st.one_of(st.sampled_from(' ,"\n\t;#é'), st.characters(exclude_categories=["Cs", "Cc", "Cn"])),
    max_size=12,
)
IDS = TEXT.filter(lambda text: text.strip() != "")


@st.composite
def _tables(draw):
    ids = draw(st.lists(IDS, min_size=1, max_size=8, unique=True))
    ends = st.sampled_from(ids)
    return [(i, draw(TEXT), draw(TEXT)) for i in ids], draw(
        st.lists(st.tuples(ends, ends, TEXT), min_size=1, max_size=8)
    )


def _csv(header, rows, line_end, bom, zipped) -> bytes:
    text = io.StringIO()
    # Python leaves a lone quote-free "\r" unquoted; RFC 4180 wants it quoted, so everything is.
    csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    data = text.getvalue().encode("utf-8-sig" if bom else "utf-8")
    return gzip.compress(data) if zipped else data


@settings(max_examples=60)
@given(_tables(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@example(([("NA", "nan", ""), ("007", "1e5", "null")], [("NA", "007", "None")]), "\r\n", True, True)
def test_any_table_comes_back_as_it_was_written(nodes_of, edges_of, tables, line_end, bom, zipped):
    nodes, edges = tables
    with TemporaryDirectory() as folder:
        node_file, edge_file = Path(folder) / "nodes", Path(folder) / "edges"
        node_file.write_bytes(_csv(("id", "name", "type"), nodes, line_end, bom, zipped))
        edge_file.write_bytes(_csv(("source_id", "target_id", "type"), edges, line_end, bom, zipped))
        graph = read_csv(node_file, edge_file)
    nfc = [(i, unicodedata.normalize("NFC", name) if name.strip() else "", kind) for i, name, kind in nodes]
    assert nodes_of(graph) == nfc
    assert edges_of(graph) == [(source, kind, target) for source, target, kind in edges]


@settings(max_examples=40)
@given(st.lists(TEXT.filter(str.isprintable).map("n{}".format), min_size=1, max_size=6, unique=True))
def test_any_text_of_graphml_comes_back_as_it_was_written(tmp_path_factory, nodes_of, ids):
    nodes = "".join(f'<node id={quoteattr(i)}><data key="type">{escape(i)}</data></node>' for i in ids)
    edge = f"<edge source={quoteattr(ids[0])} target={quoteattr(ids[-1])}/>"
    path = tmp_path_factory.mktemp("any") / "g.graphml"
    path.write_text(f"<graphml><graph>{nodes}{edge}</graph></graphml>", encoding="utf-8")
    assert [(node, kind) for node, _, kind in nodes_of(read_graphml(path))] == [(i, i) for i in ids]


BAD_NODES = [
    ("id,label,type\nG1,x,y\n", "nodes.csv line 1: column 'name' is missing"),
    ("\nid,nam,type\nG1,x,y\n", "nodes.csv line 2: column 'name' is missing, did you mean nam?"),
    ("cui,name\nG1,x\n", "graph.columns: {id: …, name: …, type: …}"),
    ("id,name,type,id\nG1,x,y,z\n", "nodes.csv line 1: column 'id' stands twice"),
    ("id:name:type\nG1:x:y\n", "or set graph.delimiter"),
    ("id,name,type\nG1,x,y\nG2,x\n", "nodes.csv line 3: expected 3 fields, found 2"),
    ("id,name,type\nG1,x,y\n\nG2,x, y,z\n", "nodes.csv line 4: expected 3 fields, found 4"),
    ('id,name,type\nG1,"x\ny",z,a\nG2,b,c\n', "nodes.csv lines 2 to 3: expected 3 fields, found 4"),
    ('id,name,type\nG1,"x,y\nG2,x,y\n', "nodes.csv line 2: a quote opened here is never closed"),
    ('id,name,type\nG1,x,y\nG2,x,"y\nG3\n', "nodes.csv line 3: a quote opened here is never closed"),
    ("id,name,type\nG1,x,y\n,x,y\n", "nodes.csv line 3: the node's id is empty"),
    ("id,name,type\nG1,x,y\n  ,x,y\n", "nodes.csv line 3: the node's id is empty"),
    ("id,name,type\nG1,x,y\nG2,x,y\nG1,z,y\n", "nodes.csv line 4: node id 'G1' already stands in line 2"),
    (  # lines are counted as an editor does, behind quoted line ends and blank lines
        'id,name,type\r\n\r\nG1,"a\r\nb\nc",gene\r\n\r\nG1,x,gene\r\n',
        "nodes.csv line 7: node id 'G1' already stands in line 3",
    ),
    (b"id,name,type\nG1,caf\xe9,y\n", "nodes.csv line 2: byte 0xE9 is not UTF-8"),
    (b"id,nam\xe9,type\nG1,x,y\n", "nodes.csv line 1: byte 0xE9 is not UTF-8"),
    ("id,name,type\nG1,x,y\n".encode("utf-16"), "nodes.csv: is UTF-16"),
    ("", "nodes.csv: is empty"),
    ("\ufeff\n\n", "nodes.csv: is empty"),
    (gzip.compress(NODES.encode() * 100, mtime=0)[:-9], "nodes.csv: the gzip data is damaged or cut short"),
    (gzip.compress(NODES.encode(), mtime=0)[:-8] + b"12345678", "nodes.csv: the gzip data is damaged"),
]
BAD_EDGES = [
    ("source_id,target,type\nG1,D1,r\n", "line 1: column 'target_id' is missing, did you mean target?"),
    (OWN, "line 1: column 'source_id' is missing"),
    (OWN, "the first line must name the columns; it reads from,to,rel,year"),
    (OWN, "graph.edge_columns: {source: …, target: …, type: …}"),
    (f"{HEAD}G1,D1,r\nG1,,r\n", "edges.csv.gz line 3: the edge's target is empty"),
    (f"{HEAD}\t,D1,r\n", "edges.csv.gz line 2: the edge's source is empty"),
    (f"{HEAD}G1,D1\n", "edges.csv.gz line 2: expected 3 fields, found 2"),
    (f"{HEAD}X,Y,r\n", "edges.csv.gz line 2: source 'X' is not in nodes.csv"),
    (f"{HEAD} G1,D1,r\n", "line 2: source ' G1' is not in nodes.csv"),
    (f"{HEAD} G1,D1,r\n", "without the spaces"),
    (HEAD + 'G1,"{}",r\n'.format("x\ny" * 9_999), "line 2: target 'x\\ny"),
    (
        gzip.compress((HEAD + "G1,D1,r\n" * 1202 + "G1,HP:0009999,r\nX,D1,r\n").encode()),
        "edges.csv.gz line 1,204: target 'HP:0009999' is not in nodes.csv (and 1 more such edge)\n"
        "       add it there, or run with --unknown-nodes drop (configuration: graph.unknown_nodes: drop)",
    ),
]
BAD_TRIPLES = [
    ("a\tr\tb\na r b\n", "t.tsv line 2: expected 3 fields, found 1"),
    ("a\tr\tb\n\na\tr\tb\t0.5\n", "t.tsv line 3: expected 3 fields, found 4"),
    ("a\tr\t\n", "t.tsv line 1: the edge's target is empty"),
    ("head\tr\ttail\n\tr\tb\n", "t.tsv line 2: the edge's source is empty"),
    (b"a\tr\tb\na\tr\t\xff\n", "t.tsv line 2: byte 0xFF is not UTF-8"),
    (b"\xff\xfea\x00", "t.tsv: is UTF-16"),
    ("", "t.tsv: is empty"),
]
BAD_GRAPHML = [
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
]


@pytest.mark.parametrize(
    ("source", "contents", "message"),
    [
        *(("csv", [content, EDGES], message) for content, message in BAD_NODES),
        *(("csv", [NODES, content], message) for content, message in BAD_EDGES),
        *(("triples", [content], message) for content, message in BAD_TRIPLES),
        ("triples", ["G1\tr\tD1\nG1\tr\tc\n", NODES], "t.tsv line 2: target 'c' is not in nodes.csv"),
        *(("graphml", [content], message) for content, message in BAD_GRAPHML),
    ],
)
def test_a_bad_file_is_refused_with_its_line(read, source, contents, message):
    with pytest.raises(GraphFormatError) as caught:
        read(source, *contents)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("source", "contents"),
    [
        (
            "csv",
            [NODES + "G1,other,other\nG2,x,gene\nG1,third,gene\n", f"{HEAD}G1,X,only here\nG1,D1,r\nY,Z,r\n"],
        ),
        (
            "graphml",
            [
                "<graphml><graph><node id='G1'/><node id='D1'/><node id='G2'/><node id='G1'/><node id='D1'/>"
                "<edge source='G1' target='X'/><edge source='G1' target='D1'/><edge source='Y' target='D1'/>"
                "</graph></graphml>"
            ],
        ),
    ],
)
def test_duplicate_and_unknown_nodes_may_be_left_out_and_are_counted(read, source, contents):
    graph = read(source, *contents, unknown_nodes="drop", duplicate_nodes="first")
    assert graph.node_ids.tolist() == ["G1", "D1", "G2"]
    assert "other" not in (*graph.names, *graph.node_types)
    assert (graph.num_edges, len(graph.edge_types)) == (1, 1)
    assert graph.attributes["dropped_duplicate_nodes"] == 2
    assert graph.attributes["dropped_edges_with_unknown_nodes"] == 2


def test_unnamed_nodes_are_kept_for_the_reduction_to_drop_or_refused(read):
    nodes = NODES + "G2,,gene\nG3, \u00a0,gene\n"
    assert read("csv", nodes, EDGES).names.tolist() == ["BRCA1", "breast cancer", "", ""]
    message = (
        r"nodes\.csv line 4: node 'G2' has no name \(and 1 more such node\)\n.*graph.unnamed_nodes: drop"
    )
    with pytest.raises(GraphFormatError, match=message):
        read("csv", nodes, EDGES, unnamed_nodes="error")
    unnamed = NETWORKX.replace('<data key="d0">cancer</data>', "")
    with pytest.raises(GraphFormatError, match=r"line 8: node 'D1' has no name"):
        read("graphml", unnamed, unnamed_nodes="error")


def test_a_record_longer_than_pythons_field_limit_is_read_and_located(read):
    nodes = f'id,name,type\nG1,"{"x" * 200_000}\n",gene\nD1,b,gene\nD1,b,gene\n'
    before = csv.field_size_limit(131_072)  # Python's own; other tests of this process may have changed it
    try:
        with pytest.raises(
            GraphFormatError, match=r"nodes.csv line 5: node id 'D1' already stands in line 4"
        ):
            read("csv", nodes, EDGES)
        assert csv.field_size_limit() == 131_072
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize(
    ("source", "contents", "message"),
    [
        *(
            ("csv", [head, HEAD], r"nodes\.csv has no node")
            for head in ("id,name,type", "id,name,type\n", 'id,"name",type\r\n\r\n')
        ),
        ("csv", [NODES, HEAD], r"edges\.csv\.gz has no edge"),
        ("triples", ["head\trelation\ttail\n"], None),
        ("graphml", ["<graphml/>"], None),
    ],
)
def test_a_file_without_nodes_or_edges_is_an_empty_graph(read, source, contents, message):
    with pytest.raises(EmptyGraphError, match=message):
        read(source, *contents)


def test_a_missing_file_is_named_with_its_whole_path(write, tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path}/none.csv: no such file"):
        read_csv(tmp_path / "none.csv", write("e.csv", EDGES))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_csv(tmp_path, write("e.csv", EDGES))


def test_a_name_with_a_long_run_of_accents_is_normalised_in_pieces_as_linear_time_needs(read):
    name = "a" + "\u0301\u0316" * 5_000
    found = read("csv", f"id,name,type\nG1,{name},gene\nD1,breast cancer,disease\n", EDGES).names[0]
    assert found == normalized("NFC", name) != unicodedata.normalize("NFC", name)
