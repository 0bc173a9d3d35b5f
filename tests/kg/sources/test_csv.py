from __future__ import annotations

import csv
import gzip
import io
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError, InputError
from kgqa_hpc.kg.assemble import Policy
from kgqa_hpc.kg.sources.csv import Csv, CsvSettings, read_csv
from kgqa_hpc.text.plain_text import normalized

NODES = "id,name,type\nG1,BRCA1,gene\nD1,breast cancer,disease\n"
EDGES = "source_id,target_id,type\nG1,D1,associates\n"

TEXT = st.text(
    st.one_of(st.sampled_from(' ,"\n\t;#é'), st.characters(exclude_categories=["Cs", "Cc", "Cn"])),
    max_size=12,
)
IDS = TEXT.filter(lambda text: text.strip() != "")


@st.composite
def _tables(draw):
    ids = draw(st.lists(IDS, min_size=1, max_size=8, unique=True))
    nodes = [(i, draw(TEXT), draw(TEXT)) for i in ids]
    edges = draw(
        st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids), TEXT), min_size=1, max_size=8)
    )
    return nodes, edges


def _csv(header, rows, line_end, bom, zipped):
    text = io.StringIO()
    # Python leaves a lone quote-free "\r" unquoted; RFC 4180 wants it quoted, so everything is.
    csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    data = text.getvalue().encode("utf-8-sig" if bom else "utf-8")
    return gzip.compress(data) if zipped else data


@settings(max_examples=60)
@given(_tables(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@example(([("NA", "nan", ""), ("007", "1e5", "null")], [("NA", "007", "None")]), "\r\n", True, True)
def test_any_table_comes_back_as_it_was_written(tables, line_end, bom, zipped):
    nodes, edges = tables
    with TemporaryDirectory() as folder:
        node_file, edge_file = Path(folder) / "nodes", Path(folder) / "edges"
        node_file.write_bytes(_csv(("id", "name", "type"), nodes, line_end, bom, zipped))
        edge_file.write_bytes(_csv(("source_id", "target_id", "type"), edges, line_end, bom, zipped))
        graph = read_csv(node_file, edge_file)
    names = [unicodedata.normalize("NFC", name) if name.strip() else "" for _, name, _ in nodes]
    assert graph.node_ids.tolist() == [i for i, _, _ in nodes]
    assert graph.names.tolist() == names
    assert [graph.node_types[code] for code in graph.node_type] == [kind for _, _, kind in nodes]
    assert [graph.edge_types[code] for code in graph.edge_type] == [kind for _, _, kind in edges]
    ends = zip(graph.node_ids[graph.edge_source], graph.node_ids[graph.edge_target], strict=True)
    assert list(ends) == [(source, target) for source, target, _ in edges]


def _error(write, nodes=NODES, edges=EDGES, **policy):
    with pytest.raises(GraphFormatError) as caught:
        read_csv(write("nodes.csv", nodes), write("edges.csv.gz", edges), Policy(**policy))
    return str(caught.value)


def test_columns_may_stand_in_any_order_among_others(write):
    nodes = write("n.csv", 'note,type,id,note,name\n"x\ny",gene,G1,,BRCA1\n,gene,G2,,BRCA2\n')
    edges = write("e.csv", "type,target_id,weight,source_id\nr,G2,0.5,G1\n")
    graph = read_csv(nodes, edges)
    assert graph.names.tolist() == ["BRCA1", "BRCA2"]
    assert (graph.edge_source.tolist(), graph.edge_target.tolist()) == ([0], [1])


def test_types_are_coded_in_the_order_of_their_first_appearance(write):
    edges = "source_id,target_id,type\nG1,D1,b\nD1,G1,a\nG1,G1,b\n"
    graph = read_csv(write("n.csv", NODES), write("e.csv", edges))
    assert graph.edge_types == ("b", "a")
    assert graph.edge_type.tolist() == [0, 1, 0]


def test_names_become_nfc_and_ids_stay_as_found(write):
    nodes = "id,name,type\ne\u0301,Ange\u0301lique,x\n\u00e9,b,x\n"
    graph = read_csv(write("n.csv", nodes), write("e.csv", "source_id,target_id,type\ne\u0301,\u00e9,r\n"))
    assert graph.node_ids.tolist() == ["e\u0301", "\u00e9"]
    assert graph.names[0] == "Ang\u00e9lique"


def test_an_unknown_target_is_named_with_its_line_in_a_zipped_file(write):
    rows = "".join(f"G1,D1,r{i}\n" for i in range(1202))
    edges = gzip.compress(f"source_id,target_id,type\n{rows}G1,HP:0009999,r\nX,D1,r\n".encode())
    assert _error(write, edges=edges).splitlines() == [
        "edges.csv.gz line 1,204: target 'HP:0009999' is not in nodes.csv (and 1 more such edge)",
        "       add it there, or run with --unknown-nodes drop (configuration: graph.unknown_nodes: drop)",
    ]


def test_lines_are_counted_as_an_editor_does_behind_quoted_line_ends_and_blank_lines(write):
    nodes = 'id,name,type\r\n\r\nG1,"a\r\nb\nc",gene\r\n\r\nG1,x,gene\r\n'
    assert "nodes.csv line 7: node id 'G1' already stands in line 3" in _error(write, nodes=nodes)


def test_an_endless_id_does_not_flood_the_message(write):
    endless = "x\ny" * 9_999
    message = _error(write, edges=f'source_id,target_id,type\nG1,"{endless}",r\n')
    assert "line 2: target 'x\\ny" in message
    assert len(message) < 400


def test_an_id_that_only_differs_by_spaces_is_told(write):
    edges = "source_id,target_id,type\n G1,D1,r\n"
    message = _error(write, edges=edges)
    assert "line 2: source ' G1' is not in nodes.csv" in message
    assert "without the spaces" in message


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("id,label,type\nG1,x,y\n", "nodes.csv line 1: column 'name' is missing"),
        ("\nid,nam,type\nG1,x,y\n", "nodes.csv line 2: column 'name' is missing, did you mean nam?"),
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
        (b"id,name,type\nG1,caf\xe9,y\n", "nodes.csv line 2: byte 0xE9 is not UTF-8"),
        (b"id,nam\xe9,type\nG1,x,y\n", "nodes.csv line 1: byte 0xE9 is not UTF-8"),
        ("id,name,type\nG1,x,y\n".encode("utf-16"), "nodes.csv: is UTF-16"),
        ("", "nodes.csv: is empty"),
        ("\ufeff\n\n", "nodes.csv: is empty"),
        (
            gzip.compress(NODES.encode() * 100, mtime=0)[:-9],
            "nodes.csv: the gzip data is damaged or cut short",
        ),
        (gzip.compress(NODES.encode(), mtime=0)[:-8] + b"12345678", "nodes.csv: the gzip data is damaged"),
    ],
)
def test_a_bad_node_file_is_refused_with_its_line(write, nodes, message):
    assert message in _error(write, nodes=nodes)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("source_id,target,type\nG1,D1,r\n", "line 1: column 'target_id' is missing, did you mean target?"),
        ("source_id,target_id,type\nG1,D1,r\nG1,,r\n", "line 3: the edge's target is empty"),
        ("source_id,target_id,type\n\t,D1,r\n", "line 2: the edge's source is empty"),
        ("source_id,target_id,type\nG1,D1\n", "line 2: expected 3 fields, found 2"),
        ("source_id,target_id,type\nX,Y,r\n", "line 2: source 'X' is not in nodes.csv"),
    ],
)
def test_a_bad_edge_file_is_refused_with_its_line(write, edges, message):
    assert f"edges.csv.gz {message}" in _error(write, edges=edges)


def test_unknown_nodes_drop_leaves_such_edges_out_and_counts_them(write):
    edges = "source_id,target_id,type\nG1,X,only here\nG1,D1,r\nY,Z,r\n"
    graph = read_csv(write("n.csv", NODES), write("e.csv", edges), Policy(unknown_nodes="drop"))
    assert graph.num_edges == 1
    assert graph.edge_types == ("r",)
    assert graph.attributes["dropped_edges_with_unknown_nodes"] == 2


def test_duplicate_nodes_first_keeps_the_first_of_each_and_counts_the_rest(write):
    nodes = NODES + "G1,other,other\nG2,x,gene\nG1,third,gene\n"
    graph = read_csv(write("n.csv", nodes), write("e.csv", EDGES), Policy(duplicate_nodes="first"))
    assert graph.node_ids.tolist() == ["G1", "D1", "G2"]
    assert graph.names[0] == "BRCA1"
    assert graph.node_types == ("gene", "disease")
    assert graph.attributes["dropped_duplicate_nodes"] == 2


def test_unnamed_nodes_are_kept_for_the_reduction_to_drop_or_refused(write):
    nodes = NODES + "G2,,gene\nG3, \u00a0,gene\n"
    graph = read_csv(write("n.csv", nodes), write("e.csv", EDGES))
    assert graph.names.tolist() == ["BRCA1", "breast cancer", "", ""]
    message = _error(write, nodes=nodes, unnamed_nodes="error")
    assert "nodes.csv line 4: node 'G2' has no name (and 1 more such node)" in message
    assert "graph.unnamed_nodes: drop" in message


def test_a_quote_inside_an_unquoted_field_is_a_letter(write):
    nodes = NODES + 'G2,5" pipe,gene\n'
    assert read_csv(write("n.csv", nodes), write("e.csv", EDGES)).names[2] == '5" pipe'


def test_several_gzip_members_are_one_file(write):
    nodes = gzip.compress(b"id,name,type\nG1,a,x\n") + gzip.compress(b"D1,b,x\n")
    assert read_csv(write("n.csv.gz", nodes), write("e.csv", EDGES)).num_nodes == 2


def test_a_record_longer_than_pythons_field_limit_is_read_and_located(write):
    long = "x" * 200_000
    nodes = f'id,name,type\nG1,"{long}\n",gene\nD1,b,gene\nD1,b,gene\n'
    before = csv.field_size_limit(131_072)  # Python's own; other tests of this process may have changed it
    try:
        assert "nodes.csv line 5: node id 'D1' already stands in line 4" in _error(write, nodes=nodes)
        assert csv.field_size_limit() == 131_072
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("header", ["id,name,type", "id,name,type\n", 'id,"name",type\r\n\r\n'])
def test_a_header_without_rows_is_an_empty_graph(write, header):
    with pytest.raises(EmptyGraphError, match=r"nodes\.csv has no node"):
        read_csv(write("nodes.csv", header), write("e.csv", "source_id,target_id,type\n"))


def test_nodes_without_edges_are_an_empty_graph(write):
    with pytest.raises(EmptyGraphError, match=r"e\.csv has no edge"):
        read_csv(write("nodes.csv", NODES), write("e.csv", "source_id,target_id,type\n"))


def test_a_missing_file_is_named_with_its_whole_path(write, tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path}/none.csv: no such file"):
        read_csv(tmp_path / "none.csv", write("e.csv", EDGES))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_csv(tmp_path, write("e.csv", EDGES))


def test_a_name_with_a_long_run_of_accents_is_normalised_in_pieces_as_linear_time_needs(write):
    name = "a" + "\u0301\u0316" * 5_000
    nodes = write("n.csv", f"id,name,type\nG1,{name},gene\nD1,breast cancer,disease\n")
    found = read_csv(nodes, write("e.csv", EDGES)).names[0]
    assert found == normalized("NFC", name) != unicodedata.normalize("NFC", name)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_read_off_the_first_line(write, separator, edges_of):
    nodes, edges = NODES.replace(",", separator), EDGES.replace(",", separator)
    graph = read_csv(write("n.csv", nodes), write("e.csv.gz", gzip.compress(edges.encode())))
    assert graph.names.tolist() == ["BRCA1", "breast cancer"]
    assert edges_of(graph) == [("G1", "associates", "D1")]


def _own(write, nodes=None, edges="from;to;rel;year\nG1;D1;r;1999\n", **keys):
    files = {"edges": str(write("e.csv", edges))} | ({"nodes": str(write("n.csv", nodes))} if nodes else {})
    return Csv().read(CsvSettings.model_validate({"source": "csv", **files, **keys}))


OWN_EDGES = {"source": "from", "target": "to", "type": "rel"}


def test_columns_may_have_other_names_and_all_others_stay_properties(write):
    graph = _own(
        write,
        "category\tcui\tlabel\tid\ngene\tG1\tBRCA1\t7\ndisease\tD1\tcancer\t8\n",
        columns={"id": "cui", "name": "label", "type": "category"},
        edge_columns=OWN_EDGES,
    )
    assert graph.node_ids.tolist() == ["G1", "D1"]
    assert graph.node_types == ("gene", "disease")
    assert graph.node_properties["id"].to_pylist() == [7, 8]
    assert graph.edge_properties["year"].to_pylist() == [1999]


def test_edges_alone_make_a_graph_whose_nodes_are_named_by_their_ids(write, edges_of):
    graph = _own(write, edge_columns=OWN_EDGES)
    assert graph.names.tolist() == ["G1", "D1"]
    assert graph.node_types == ("entity",)
    assert edges_of(graph) == [("G1", "r", "D1")]


def test_a_missing_column_is_told_with_the_keys_that_name_it(write):
    with pytest.raises(GraphFormatError) as caught:
        _own(write)
    assert "e.csv line 1: column 'source_id' is missing" in caught.value.message
    assert caught.value.cure is not None
    assert "the first line must name the columns; it reads from,to,rel,year" in caught.value.cure
    assert "graph.edge_columns: {source: …, target: …, type: …}" in caught.value.cure
    with pytest.raises(GraphFormatError) as caught:
        _own(write, "cui,name\nG1,x\n", edge_columns=OWN_EDGES)
    assert "graph.columns: {id: …, name: …, type: …}" in str(caught.value)


def test_a_delimiter_that_is_said_is_not_guessed(write):
    graph = _own(write, edges="source_id/target_id/type\na,b/c;d/r\n", delimiter="/")
    assert graph.node_ids.tolist() == ["a,b", "c;d"]
