"""Files of csv, triples and graphml that are refused with file and line, or read as the policies say."""

import csv
import gc
import gzip
from collections import deque

import pytest

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError, InputError
from kgqa_hpc.kg.delimited import CSV, DelimitedFile
from tests.command import program
from tests.kg.conftest import load_source
from tests.kg.sources.test_formats import EDGES, HEAD, NETWORKX, NODES, OWN

BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph><node id="&b;"/></graph></graphml>"""
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
    # lines are counted as an editor does, behind quoted line ends and blank lines
    ('id,name,type\r\n\r\nG1,"a\r\nb\nc",gene\r\n\r\nG1,x,gene\r\n',
     "nodes.csv line 7: node id 'G1' already stands in line 3"),
    (b"id,name,type\nG1,caf\xe9,y\n", "nodes.csv line 2: byte 0xE9 is not UTF-8"),
    (b"id,nam\xe9,type\nG1,x,y\n", "nodes.csv line 1: byte 0xE9 is not UTF-8"),
    ("id,name,type\nG1,x,y\n".encode("utf-16"), "nodes.csv: is UTF-16"),
    ("", "nodes.csv: is empty"),
    ("\ufeff\n\n", "nodes.csv: is empty"),

    (gzip.compress(NODES.encode(), mtime=0)[:-8] + b"12345678", "nodes.csv: the gzip data is damaged"),
]  # fmt: skip
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
    (gzip.compress((HEAD + "G1,D1,r\n" * 1202 + "G1,HP:0009999,r\nX,D1,r\n").encode(), mtime=0),
     "edges.csv.gz line 1,204: target 'HP:0009999' is not in nodes.csv (and 1 more such edge)\n"
     "       add it there, or run with --unknown-nodes drop (configuration: graph.unknown_nodes: drop)"),
]  # fmt: skip
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
    ("<graphml>\n<graph><edge source='a'/>\n</graph></graphml>",
     "line 2: the edge has no attribute 'target'"),
    ("<graphml>\n<graph>\n</graphml>", "line 3: not well-formed XML: mismatched tag"),
    ("<graphml>\n<graph>\n&x;</graph></graphml>", "line 3: not well-formed XML: undefined entity"),
    ("<graphml><graph>", "line 1: not well-formed XML: no element found"),
    (b"<graphml>\n<graph><node id='caf\xe9'/></graph></graphml>", "line 2: byte 0xE9 is not UTF-8"),
    ('<?xml version="1.0" encoding="none"?><graphml/>', "line 1: not well-formed XML: unknown encoding"),
    ("<graphml><graph>\n<hyperedge/></graph></graphml>", "line 2: hyperedges are not supported"),
    ("<graphml><graph>\n<node id='a'/>\n<node id='a'/></graph></graphml>",
     "line 3: node id 'a' already stands"),
    ("<graphml><graph>\n<node id='  '/></graph></graphml>", "line 2: the node's id is empty"),
    ("<graphml><graph><node id='a'/>\n<edge source='a'\n target='b'/></graph></graphml>",
     "line 2: target 'b' is not in g.graphml"),
    ("<graphml><graph><node id='a'><graph/>\n<data key='name'>x</data></node></graph></graphml>",
     "line 2: data of a node after the graph nested in it"),
    ("", "g.graphml: is empty"),
]  # fmt: skip


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


TWICE_AND_UNKNOWN = {
    "csv": (NODES + "G1,other,other\nG2,x,gene\nG1,third,gene\n", f"{HEAD}G1,X,only here\nG1,D1,r\nY,Z,r\n"),
    "graphml": (
        "<graphml><graph><node id='G1'/><node id='D1'/><node id='G2'/><node id='G1'/><node id='D1'/>"
        "<edge source='G1' target='X'/><edge source='G1' target='D1'/><edge source='Y' target='D1'/>"
        "</graph></graphml>",
    ),
}


@pytest.mark.parametrize("source", TWICE_AND_UNKNOWN)
def test_duplicate_and_unknown_nodes_may_be_left_out_and_are_counted(read, source):
    graph = read(source, *TWICE_AND_UNKNOWN[source], unknown_nodes="drop", duplicate_nodes="first")
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
    message = "nodes.csv line 5: node id 'D1' already stands in line 4"
    before = csv.field_size_limit(131_072)  # Python's own; other tests of this process may have changed it
    try:
        with pytest.raises(GraphFormatError, match=message):
            read("csv", nodes, EDGES)
        assert csv.field_size_limit() == 131_072
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize(
    ("source", "contents", "message"),
    [
        ("csv", ["id,name,type", HEAD], r"nodes\.csv has no node"),
        ("csv", ["id,name,type\n", HEAD], r"nodes\.csv has no node"),
        ("csv", ['id,"name",type\r\n\r\n', HEAD], r"nodes\.csv has no node"),
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
        load_source("csv", nodes=tmp_path / "none.csv", edges=write("e.csv", EDGES))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_source("csv", nodes=tmp_path, edges=write("e.csv", EDGES))
    # Python 3.13, and earlier ones in this mode, print what fails in `close` of a stream that did not open.
    program("count", "--nodes", "none.csv", "--edges", "none.csv", code=2, PYTHONDEVMODE="1")


@pytest.mark.parametrize(
    "text", [b"id,name,type\na,A,x\n", b'id,name,type\na,"\xff",x\n', b'id,name,type\na,"A,x\n']
)
def test_no_thread_of_arrow_holds_a_file_that_was_read_or_refused(text, tmp_path):
    """Such a thread aborts the program if it lets go of the file while the interpreter ends."""
    (tmp_path / "n.csv").write_bytes(text)
    file = DelimitedFile.open(tmp_path / "n.csv", CSV)
    try:
        deque(file.rows(file.first_record.fields, file.first_record.fields, header=True))
        problem = None
    except GraphFormatError as refused:
        problem = refused  # and with it all frames that it passed
    assert (problem is None) == (text.count(b'"') == 0)
    assert [thing for thing in gc.get_objects() if type(thing).__name__ == "_Counting"] == []
