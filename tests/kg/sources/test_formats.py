"""Graphs as csv, triples and graphml: their nodes and edges as the files say, whatever a text holds."""

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

from kgqa_hpc.text.plain_text import normalized
from tests.kg.conftest import load_source

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
LATIN = '<?xml version="1.0" encoding="ISO-8859-1"?><graphml><graph><node id="é"/>'
LATIN += '<edge source="é" target="é"/>'


def entities(*ids):
    return [(node, node, "entity") for node in ids]


ASSOCIATED = [("G1", "associates", "D1")]
HEADS = ("head\trelation\ttail", "#Subject\tPredicate\tObject", "source_id\ttype\ttarget_id")
SIGNS = ('a,r,"b, c"\n', "head;rel;tail\na;r;b, c\n", "a|r|b, c\n", "a\tr\tb, c\n")
# source, contents of its files, keys, nodes, edges
CASES = [
    ("csv", [NODES, gzip.compress(EDGES.encode(), mtime=0)], {}, PAIR, ASSOCIATED),
    *(("csv", [NODES.replace(",", sign), EDGES.replace(",", sign)], {}, PAIR, ASSOCIATED) for sign in ";\t|"),
    # columns in any order, among others
    ("csv", ['note,type,id,note,name\n"x\ny",gene,G1,,BRCA1\n', "type,target_id,weight,source_id\nr,G1,5,G1\n"],
     {}, [("G1", "BRCA1", "gene")], [("G1", "r", "G1")]),
    # names become NFC, ids stay as found; a quote inside an unquoted field is a letter
    ("csv", ['id,name,type\ne\u0301,Ange\u0301lique,x\n\u00e9,5" pipe,x\n', f"{HEAD}e\u0301,\u00e9,r\n"], {},
     [("e\u0301", "Ang\u00e9lique", "x"), ("\u00e9", '5" pipe', "x")], [("e\u0301", "r", "\u00e9")]),
    # one column may serve as id and as name
    ("csv", ["symbol,kind\nBRCA1,gene\n", f"{HEAD}BRCA1,BRCA1,r\n"],
     {"columns": {"id": "symbol", "name": "symbol", "type": "kind"}},
     [("BRCA1", "BRCA1", "gene")], [("BRCA1", "r", "BRCA1")]),
    # several gzip members are one file
    ("csv", [gzip.compress(b"id,name,type\nG1,a,x\n", mtime=0) + gzip.compress(b"D1,b,x\n", mtime=0), EDGES],
     {}, [("G1", "a", "x"), ("D1", "b", "x")], ASSOCIATED),
    ("csv", [None, OWN], {"edge_columns": OWN_EDGES}, entities("G1", "D1"), [("G1", "r", "D1")]),
    ("csv", [None, "source_id/target_id/type\na,b/c;d/r\n"], {"delimiter": "/"},
     entities("a,b", "c;d"), [("a,b", "r", "c;d")]),
    ("triples", ["b\tr\ta\nc\ts\tb\na\tr\ta\n"], {},
     entities("b", "a", "c"), [("b", "r", "a"), ("c", "s", "b"), ("a", "r", "a")]),
    *(("triples", [gzip.compress(f"{head}\r\na\tr\tb\r\n".encode(), mtime=0)], {},
       entities("a", "b"), [("a", "r", "b")]) for head in HEADS),
    ("triples", ["head\tpart_of\tbody\n"], {}, entities("head", "body"), [("head", "part_of", "body")]),
    ("triples", ['"a\tr,"\t5" pipe\n'], {}, entities('"a', '5" pipe'), [('"a', 'r,"', '5" pipe')]),
    ("triples", ["a,x,y/r/b\n"], {"delimiter": "/"}, entities("a,x,y", "b"), [("a,x,y", "r", "b")]),
    *(("triples", [text], {}, entities("a", "b, c"), [("a", "r", "b, c")]) for text in SIGNS),
    ("triples", ["G1\tr\tD1\n", NODES], {}, PAIR, [("G1", "r", "D1")]),
    ("graphml", [NETWORKX], {}, [("G1", "BRCA1 & co", "gene"), ("D1", "cancer", "disease")],
     [("G1", "associates", "D1"), ("D1", "", "G1")]),
    ("graphml", [NEO4J], {}, [("n0", "BRCA1", "Gene"), ("n1", "cancer", "Disease")],
     [("n0", "ASSOCIATES", "n1"), ("n1", "CAUSED_BY", "n0")]),
    ("graphml", [gzip.compress(LIGHTRAG.encode(), mtime=0)], {},
     [("ALICE", "ALICE", "person"), ("BOB", "BOB", "person")], [("ALICE", "related_to", "BOB")]),
    ("graphml", [SEVERAL_KEYS], {}, [("a", "best", "thing"), ("b", "second", "person")], [("a", "thing", "b")]),
    ("graphml", [NESTED], {}, [("a", "outer", "entity"), ("b", "inner", "entity")], [("a", "related_to", "b")]),
    ("graphml", [f"{LATIN}</graph></graphml>".encode("latin-1")], {}, entities("é"),
     [("é", "related_to", "é")]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "contents", "keys", "nodes", "edges"), CASES)
def test_nodes_and_edges_come_as_files_say(read, nodes_of, edges_of, source, contents, keys, nodes, edges):
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
    edges = draw(st.lists(st.tuples(ends, ends, TEXT), min_size=1, max_size=8))
    return [(i, draw(TEXT), draw(TEXT)) for i in ids], edges


def _csv(header, rows, line_end, bom, zipped) -> bytes:
    text = io.StringIO()
    # Python leaves a lone quote-free "\r" unquoted; RFC 4180 wants it quoted, so everything is.
    csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    data = text.getvalue().encode("utf-8-sig" if bom else "utf-8")
    return gzip.compress(data, mtime=0) if zipped else data


@settings(max_examples=60)
@given(_tables(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@example(([("NA", "nan", ""), ("007", "1e5", "null")], [("NA", "007", "None")]), "\r\n", True, True)
def test_any_table_comes_back_as_it_was_written(nodes_of, edges_of, tables, line_end, bom, zipped):
    nodes, edges = tables
    with TemporaryDirectory() as folder:
        node_file, edge_file = Path(folder) / "nodes", Path(folder) / "edges"
        node_file.write_bytes(_csv(("id", "name", "type"), nodes, line_end, bom, zipped))
        edge_file.write_bytes(_csv(("source_id", "target_id", "type"), edges, line_end, bom, zipped))
        graph = load_source("csv", nodes=node_file, edges=edge_file)
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
    graph = load_source("graphml", path=path)
    assert [(node, kind) for node, _, kind in nodes_of(graph)] == [(i, i) for i in ids]


def test_a_name_with_a_long_run_of_accents_is_normalised_in_pieces_as_linear_time_needs(read):
    name = "a" + "\u0301\u0316" * 5_000
    found = read("csv", f"id,name,type\nG1,{name},gene\nD1,breast cancer,disease\n", EDGES).names[0]
    assert found == normalized("NFC", name) != unicodedata.normalize("NFC", name)


def test_undirected_edges_of_graphml_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, text in enumerate((LIGHTRAG, NEO4J)):
        (tmp_path / f"{number}.graphml").write_text(text)
        load_source("graphml", path=tmp_path / f"{number}.graphml")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: 0.graphml: undirected edges point as they are written")
