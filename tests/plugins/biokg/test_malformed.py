# ruff: noqa: E501 - a case is one line
"""Every malformed row of every format is named by its file and line; damage and bombs are one clear error."""

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.plugins.biokg import rdf
from kgqa_hpc.text.streams import XML_ENTITY_BYTES
from tests.kg.conftest import load_source

PRIMEKG = (
    "relation,display_relation,x_index,x_id,x_type,x_name,x_source,y_index,y_id,y_type,y_name,y_source\n"
)
ROW = "r,d,0,7,drug,a,S,1,7,gene,b,S\n"
KGX = {"edges": ("e.tsv", "subject\tpredicate\tobject\nA:1\tr\tA:1\n")}
KGW = {"edges": ("e.csv", "source_id,target_id,type\n0,0,r\n")}
APOC_NODE = json.dumps({"type": "node", "id": "0", "labels": ["A"], "properties": {}}) + "\n"
TORN = ["{}", '{"nodes": []', "[", "", '{"nodes": [{}]', "nul", '{"nodes": ' + "[" * 99_999]

CASES = [
    ("oregano", {"path": ("OREGANO_V2.1.tsv", "A:1\tr\tB:1\nA:1 r B:1\n")}, "OREGANO_V2.1.tsv line 2: expected 3 fields"),
    ("oregano", {"path": ("COMPOUND.tsv", "x\ty\n")}, "has 0 files named OREGANO"),
    ("primekg", {"path": ("kg.csv", PRIMEKG + ROW + "r,d,0\n")}, "kg.csv line 3: expected 12 fields, found 3"),
    ("primekg", {"path": ("kg.csv", PRIMEKG + ROW + "r,d,,7,drug,a,S,1,7,gene,b,S\n")}, "kg.csv line 3: the"),
    ("primekg", {"path": ("kg.csv", "relation,x_id\n")}, "kg.csv line 1: column 'x_index' is missing"),
    ("hetionet", {"path": ("h.json", '{"nodes": [\n{"kind": "G",\n')}, "h.json line 2: not the expected JSON"),
    ("hetionet", {"path": ("h.json", '{"nodes": [\n\n{"kind": "G"}\n]}')}, "h.json line 3: not a node of a hetnet"),
    ("hetionet", {"path": ("h.json", '{"nodes": [\n{"kind": 3, "identifier": 1, "name": "a"}\n]}')}, "h.json line 2: expected a text, found 3"),
    ("hetionet", {"path": ("h.json", '{"nodes": [\n{"kind": null, "identifier": 1, "name": "a"}\n]}')}, "h.json line 2: expected a text, found None"),
    ("hetionet", {"path": ("h.json", '{"nodes": [\n{"kind": "G", "identifier": 1, "name": "\\ud800"}\n]}')}, "h.json line 2: expected a text, found "),
    ("hetionet", {"path": ("h.json", '{"nodes": 3}')}, "h.json line 1: not the expected JSON: expected '['"),
    ("hetionet", {"path": ("h.json", b'{"nodes": [\n"\xff"]}')}, "h.json line 2: byte 0xFF is not UTF-8"),
    ("hetionet", {"nodes": ("n.tsv", "x")}, "needs path (JSON), or nodes and edges"),
    ("kgx", {"nodes": ("n.tsv", "id\tcategory\na\tb\tc\n"), **KGX}, "n.tsv line 2: expected 2 fields, found 3"),
    ("kgx", {"nodes": ("n.tsv", "id\tcategory\n\tb\n"), **KGX}, "n.tsv line 2: the node's id is empty"),
    ("kgx", {"nodes": ("n.jsonl", '{"id": "A:1"}\n{"id": 3}\n'), **KGX}, "n.jsonl line 2: 'id' is missing or no text"),
    ("kgx", {"nodes": ("n.jsonl", '{"id": "A:1"}\n{"id"\n'), **KGX}, "n.jsonl line 2: not JSON"),
    ("kgx", {"nodes": ("n.json", '{"id": "A:1"}\n{"id": "A:2"}\n'), **KGX}, "n.json line 2: text after the end of the document"),
    ("kgx", {"nodes": ("n.jsonl", '{"id": "B:1"}\n'), **KGX}, "e.tsv line 2: source 'A:1' is not in n.jsonl"),
    ("kgw", {"nodes": ("n.csv", 'id,type,properties\n0,A,{}\n1,A,"{x"\n'), **KGW}, "n.csv line 3: properties are not JSON"),
    ("neo4j", {"path": ("a.csv", "a,b\n")}, "a.csv line 1: no header of a Neo4j export"),
    ("neo4j", {"path": ("a.jsonl", APOC_NODE + '{"type": "node"}\n')}, "a.jsonl line 2: not a node as APOC writes it"),
    ("neo4j", {"path": ("a.jsonl", APOC_NODE + '{"type": "node", "id": 5}\n')}, "a.jsonl line 2: expected a text, found 5"),
    ("neo4j", {"path": ("a.jsonl", APOC_NODE + '{"type": "node", "id": "5", "properties": [1]}\n')}, "a.jsonl line 2: not a node as APOC writes it"),
    ("neo4j", {"path": ("a.csv", "_id,_labels,name,_start,_end,_type\n0,:A,a,,,\n,,,0,9,R\n")}, "a.csv line 3: target '9' is not in a.csv"),
    ("neo4j", {"path": ("a.csv", f":ID,{'x' * 200_000},:LABEL\n1,a,b\n")}, "no header of a Neo4j export"),
    ("nano-graphrag", {"path": ("g.graphml", "<graphml>\n<graph>\n<node/></graph></graphml>")}, "line 3: the node has no"),
    ("drkg", {"path": ("d.tsv", "A::1\tr\tB::1\nA::1\tr\n")}, "d.tsv line 2: expected 3 fields, found 2"),
    ("obo", {"path": ("o.obo", "format-version: 1.2\n\n[Term]\nname: x\n")}, "o.obo line 3: the term has no id"),
    ("obo", {"path": ("o.obo", "[Term]\nid: A:1\nis_a: A:2\n")}, "o.obo line 3: target 'A:2' is not in o.obo"),
    ("obo", {"path": ("o.obo", "[Term]\nid: A:1\nrelationship: p\n")}, "o.obo line 3: a relationship without a term"),
    ("obo", {"path": ("o.obo", "[Term]\nnonsense\n")}, "o.obo line 2: not `tag: value`"),
    ("rdf", {"path": ("t.nt", "<http://a> <http://b> <http://c> .\n<http://a> x\n")}, "t.nt line 2: "),
    ("rdf", {"path": ("t.doc", "x")}, "t.doc: no RDF format ends in '.doc'"),
    ("rdf", {"path": ("a.nt", f'<urn:a> <urn:b> "{"x" * (17 << 20)}" .\n')}, "a literal or name of more than 16 MiB"),
    *(("hetionet", {"path": ("h.json", text)}, "h.json") for text in TORN),
]  # fmt: skip


@pytest.mark.parametrize(("source", "files", "message"), CASES, ids=lambda value: str(value)[:30])
def test_a_malformed_row_is_named_by_file_and_line(load, write, source, files, message):
    settings = {key: write(*content) for key, content in files.items()}
    if source == "oregano":
        settings = {"path": settings["path"].parent}
    with pytest.raises(InputError) as caught:
        load(source, **settings)
    assert message in str(caught.value)
    assert "\n" not in caught.value.message


def test_a_document_larger_than_its_window_is_read_item_by_item(load, write):
    nodes = [{"kind": "G", "identifier": i, "name": "x" * 900} for i in range(3000)]
    edges = [{"source_id": ["G", 0], "target_id": ["G", i], "kind": "r"} for i in range(3000)]
    text = json.dumps({"x": "y" * 2_000_000, "nodes": nodes, "edges": edges})
    graph = load("hetionet", path=write("h.json", text))
    assert (graph.num_nodes, graph.num_edges) == (3000, 3000)


def labelled(label, *entities):
    """RDF/XML of two nodes and an edge; the first node has the label."""
    node = f'<rdf:Description rdf:about="urn:a"><rdfs:label>{label}</rdfs:label></rdf:Description>'
    edge = '<rdf:Description rdf:about="urn:a"><rdfs:seeAlso rdf:resource="urn:b"/></rdf:Description>'
    root = f'<rdf:RDF xmlns:rdf="{rdf.KNOWN["rdf"]}" xmlns:rdfs="{rdf.KNOWN["rdfs"]}">'
    return f"<?xml version='1.0'?><!DOCTYPE rdf:RDF [{chr(10).join(entities)}]>{root}{node}{edge}</rdf:RDF>"


LAUGHS = "".join(f'<!ENTITY a{k + 1} "{f"&a{k};" * 10}">' for k in range(12))


@pytest.mark.parametrize(
    "entity",
    ['<!ENTITY a "x>&b;">', "<!ENTITY a '&#38;b;'>", '<!ENTITY % a "b">', '<!ENTITY a SYSTEM "file:///etc/passwd">',
     f'<!ENTITY a "{"x" * XML_ENTITY_BYTES.default}">', f'<!ENTITY a0 "ha">{LAUGHS}<!ENTITY a "&a12;">'],
)  # fmt: skip
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_no_form_of_an_entity_that_can_grow_gets_past(load, write, monkeypatch, entity, piece):
    stream = rdf.TextStream.read
    monkeypatch.setattr(rdf.TextStream, "read", lambda self, size=-1: stream(self, min(size, piece)))
    with pytest.raises(GraphFormatError, match="an entity that holds others, or has more than"):
        load("rdf", path=write("a.owl", labelled("&a;", '<!ENTITY b "b">', entity)))


def test_short_entities_of_an_ontology_are_expanded(load, write):
    entities = '<!ENTITY owl "http://www.w3.org/2002/07/owl#" >', '<!ENTITY n "name">'
    assert "My name" in load("rdf", path=write("a.owl", labelled("My &n;", *entities))).names


WHOLE = {
    "csv": b'id,name,type\nG1,"BRCA1, ""early""",gene\nD1,"breast\ncancer",disease\nG2,\xc3\xa9,gene\n',
    "triples": b"head\trelation\ttail\nG1\tr\tD1\nG2\tr\t\xc3\xa9\n",
    "graphml": b'<?xml version="1.0"?><graphml><key id="k" for="node" attr.name="name"><default>x</default></key>'
    b'<graph><node id="a"><data key="k">\xc3\xa9</data></node><node id="b"/>'
    b'<edge source="a" target="b"><data key="type">r</data></edge></graph></graphml>',
}
EDGES = b"source_id,target_id,type\nG1,D1,associates\nG2,D1,associates\n"
PIECES = [b"", b'"', b",", b"\n", b"\r", b"\t", b"\x00", b"\xff", b"<", b">", b"&x;", b"\xe9"]


@st.composite
def _damage(draw, whole: bytes) -> bytes:
    data = bytearray(gzip.compress(whole, mtime=0) if draw(st.booleans()) else whole)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.sampled_from(PIECES))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@pytest.mark.parametrize("source", WHOLE)
def test_a_damaged_file_gives_a_graph_or_one_clear_error(source):
    @settings(max_examples=150)
    @given(_damage(WHOLE[source]))
    def check(damaged):
        with TemporaryDirectory() as folder:
            path, edges = Path(folder) / "damaged", Path(folder) / "whole.csv"
            path.write_bytes(damaged)
            edges.write_bytes(EDGES)
            try:
                files = {"nodes": path, "edges": edges} if source == "csv" else {"path": path}
                load_source(source, **files)
            except InputError as problem:
                assert "damaged" in problem.message or "whole.csv" in problem.message
                assert "\n" not in problem.message

    check()
