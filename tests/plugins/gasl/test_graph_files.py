"""The graph a script sees: typed columns of CSV files, a run's kg.h5, and what is wrong with a file."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.plugins.gasl.graph import Graph, from_run, read_tables
from tests.families.conftest import graph_of
from tests.plugins.gasl.conftest import read

NODES, EDGES = "id,name,type\n", "source_id,target_id,type\n"


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (("1", "-20", ""), [1, -20, None]),
        (("1", "2.0", "1e3"), [1.0, 2.0, 1000.0]),
        (("true", "FALSE", ""), [True, False, None]),
        (("01", "2", ""), ["01", "2", None]),  # all other texts: tests/kg/test_properties.py
        (("1e999", "1", ""), ["1e999", "1", None]),
        (("123456789012345678901234567890", "1", ""), [123456789012345678901234567890, 1, None]),
        (("", "", ""), [None, None, None]),
    ],
)
def test_a_column_is_typed_as_a_whole(tmp_path: Path, cells: tuple[str, ...], values: list[Any]) -> None:
    rows = "".join(f"n{k},,t,{cell}\n" for k, cell in enumerate(cells))
    graph = Graph(read(tmp_path, f"id,name,type,x\n{rows}"))
    got = [node["properties"].get("x") for node in graph.nodes]
    assert got == values
    assert [type(value) for value in got] == [type(value) for value in values]


@given(st.lists(st.one_of(st.integers(), st.just(""), st.floats(allow_nan=False, allow_infinity=False))))
@example([2**53 + 1, 0.5])
def test_numbers_come_back_as_written(tmp_path_factory: pytest.TempPathFactory, cells: list[Any]) -> None:
    rows = "".join(f"n{k},,t,{cell}\n" for k, cell in enumerate(cells))
    graph = Graph(read(tmp_path_factory.mktemp("cells"), f"id,name,type,x\n{rows}"))
    if all(cell == "" or abs(cell) <= 1e308 for cell in cells):
        # A column is typed as a whole: with one decimal, all are doubles, and a long whole number loses digits.
        decimal = any(isinstance(cell, float) for cell in cells)
        numbers = [None if cell == "" else float(cell) if decimal else cell for cell in cells]
        assert [node["properties"].get("x") for node in graph.nodes] == numbers


def test_ids_names_and_types_stay_texts_in_any_order_of_columns(tmp_path: Path) -> None:
    nodes, edges = 'type,x,id,name\nt,5,007,"a, b"\nu,,1,\n', "type,target_id,source_id,w\ne,1,007,0.5\n"
    graph = Graph(read(tmp_path, nodes, edges))
    assert list(graph.nodes) == [
        {"id": "007", "name": "a, b", "type": "t", "properties": {"x": 5}},
        {"id": "1", "name": "", "type": "u", "properties": {}},
    ]
    assert list(graph.edges) == [{"source": "007", "target": "1", "type": "e", "properties": {"w": 0.5}}]


def test_a_graph_without_nodes_or_edges_is_one(tmp_path: Path) -> None:
    graph = Graph(read(tmp_path, "id,name,type\n"))
    assert (len(graph.nodes), len(graph.edges)) == (0, 0)


def test_gzip_is_read_and_the_digest_is_that_of_the_text(tmp_path: Path) -> None:
    plain = read(tmp_path, "id,name,type\na,b,c\n")
    packed = tmp_path / "nodes.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "nodes.csv").read_bytes(), mtime=0))
    assert read_tables(packed, tmp_path / "edges.csv").digest == plain.digest
    assert read(tmp_path, "id,name,type\na,b,d\n").digest != plain.digest


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ("id,name\na,b\n", EDGES, "nodes.csv line 1: column 'type' is missing"),
        ("id,name,type,x,x\na,b,c,1,2\n", EDGES, "column 'x' stands twice"),
        (f"{NODES}a,b,c\na,d,e\n", EDGES, "nodes.csv line 3: node id 'a'"),
        (f"{NODES}a,b,c\n", f"{EDGES}a,z,e\n", "edges.csv line 2: 'z'"),
        (f"{NODES}a,b\n", EDGES, "nodes.csv line 2"),
    ],
)
def test_a_fault_of_a_file_is_said_with_its_line(tmp_path: Path, nodes: str, edges: str, said: str) -> None:
    with pytest.raises(GraphFormatError, match=said):
        read(tmp_path, nodes, edges)


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv")


def test_a_run_gives_its_nodes_and_edges_with_plain_values() -> None:
    years = {"year": pa.array([1999, None]), "never": pa.nulls(2, pa.large_string())}
    properties = {"node_properties": years, "edge_properties": {"weight": pa.array([0.5, None])}}
    run = graph_of(["A", ""], ["x", "y"], [(0, "e", 1), (1, "e", 0)], **properties)
    graph = Graph(from_run(run, "digest"))
    nodes, edges = graph.nodes, graph.edges
    assert [node["properties"] for node in nodes] == [{"year": 1999}, {}]
    assert [edge["properties"] for edge in edges] == [{"weight": 0.5}, {}]
    assert nodes[1] == {"id": "N1", "name": "", "type": "y", "properties": {}}
    assert edges[1] == {"source": "N1", "target": "N0", "type": "e", "properties": {}}
