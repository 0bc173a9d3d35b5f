from __future__ import annotations

import gzip

import pytest

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError
from kgqa_hpc.kg.assemble import Policy
from kgqa_hpc.kg.sources.triples import Triples, TriplesSettings, read_triples


def test_nodes_are_the_ends_in_order_of_appearance_named_by_their_ids(write, edges_of):
    graph = read_triples(write("t.tsv", "b\tr\ta\nc\ts\tb\na\tr\ta\n"))
    assert graph.node_ids.tolist() == ["b", "a", "c"]
    assert graph.names.tolist() == ["b", "a", "c"]
    assert graph.node_types == ("entity",)
    assert edges_of(graph) == [("b", "r", "a"), ("c", "s", "b"), ("a", "r", "a")]


@pytest.mark.parametrize(
    "header", ["head\trelation\ttail", "#Subject\tPredicate\tObject", "source_id\ttype\ttarget_id"]
)
def test_a_first_line_that_names_the_columns_is_skipped(write, header, edges_of):
    graph = read_triples(write("t.tsv.gz", gzip.compress(f"{header}\r\na\tr\tb\r\n".encode())))
    assert edges_of(graph) == [("a", "r", "b")]


def test_a_first_line_that_only_looks_alike_is_a_triple(write):
    assert read_triples(write("t.tsv", "head\tpart_of\tbody\n")).node_ids.tolist() == ["head", "body"]


def test_quotes_and_commas_are_letters(write, edges_of):
    graph = read_triples(write("t.tsv", '"a\tr,"\t5" pipe\n'))
    assert edges_of(graph) == [('"a', 'r,"', '5" pipe')]


def test_a_node_file_declares_names_and_types(write):
    nodes = write("n.csv", "id,name,type\na,Alpha,letter\nb,Beta,letter\nz,Zeta,letter\n")
    triples = write("t.tsv", "a\tr\tb\na\tr\tc\n")
    with pytest.raises(GraphFormatError, match=r"t\.tsv line 2: target 'c' is not in n\.csv"):
        read_triples(triples, nodes)
    graph = read_triples(triples, nodes, Policy(unknown_nodes="drop"))
    assert graph.names.tolist() == ["Alpha", "Beta", "Zeta"]
    assert graph.num_edges == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tr\tb\na r b\n", "t.tsv line 2: expected 3 fields, found 1"),
        ("a\tr\tb\n\na\tr\tb\t0.5\n", "t.tsv line 3: expected 3 fields, found 4"),
        ("a\tr\t\n", "t.tsv line 1: the edge's target is empty"),
        ("head\tr\ttail\n\tr\tb\n", "t.tsv line 2: the edge's source is empty"),
        (b"a\tr\tb\na\tr\t\xff\n", "t.tsv line 2: byte 0xFF is not UTF-8"),
        (b"\xff\xfea\x00", "t.tsv: is UTF-16"),
        ("", "t.tsv: is empty"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(write, text, message):
    with pytest.raises(GraphFormatError) as caught:
        read_triples(write("t.tsv", text))
    assert message in str(caught.value)


def test_a_header_alone_is_an_empty_graph(write):
    with pytest.raises(EmptyGraphError):
        read_triples(write("t.tsv", "head\trelation\ttail\n"))


@pytest.mark.parametrize("text", ['a,r,"b, c"\n', "head;rel;tail\na;r;b, c\n", "a|r|b, c\n", "a\tr\tb, c\n"])
def test_the_separator_is_read_off_the_first_line(write, text, edges_of):
    assert edges_of(read_triples(write("t.txt", text)))[-1] == ("a", "r", "b, c")


def test_a_delimiter_that_is_said_is_not_guessed(write, edges_of):
    path = str(write("t.txt", "a,x,y/r/b\n"))
    graph = Triples().read(TriplesSettings(source="triples", path=path, delimiter="/"))
    assert edges_of(graph) == [("a,x,y", "r", "b")]
