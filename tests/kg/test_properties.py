import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.kg.assemble import Assembly
from kgqa_hpc.kg.file import export_graph
from kgqa_hpc.kg.graph import type_name, typed
from kgqa_hpc.kg.settings import GraphConfig


def _typed(cells):
    column = typed(pa.array(cells, pa.large_string()))
    return type_name(column), column.to_pylist()


def plain(properties):
    return {name: column.to_pylist() for name, column in properties.items()}


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "", "-20", "0"], "integer", [1, None, -20, 0]),
        (["1", "2.5", "1e3", ""], "decimal", [1.0, 2.5, 1000.0, None]),
        (["true", "FALSE", ""], "boolean", [True, False, None]),
        (["1", "true"], "text", ["1", "true"]),
        (["007", "8"], "text", ["007", "8"]),  # a leading zero is no JSON number
        (["+1"], "text", ["+1"]),
        ([" 1"], "text", [" 1"]),
        (["1."], "text", ["1."]),
        (["nan"], "text", ["nan"]),
        (["9223372036854775808", "1"], "text", ["9223372036854775808", "1"]),  # no digit is lost
        (["1e999"], "text", ["1e999"]),
        (["2"] * 64 + ["x"], "text", ["2"] * 64 + ["x"]),
    ],
)
def test_a_column_has_the_type_that_all_its_cells_have(cells, kind, values):
    assert _typed(cells) == (kind, values)


@given(st.lists(st.text(max_size=6) | st.integers().map(str) | st.floats().map(json.dumps)))
def test_any_cells_are_typed_and_texts_come_back(cells):
    kind, values = _typed(cells)
    for cell, value in zip(cells, values, strict=True):
        assert (value is None) == (cell == "")
        if value is not None and kind == "text":
            assert value == cell
        elif value is not None and kind != "boolean":
            assert math.isclose(value, json.loads(cell))


def test_batches_that_lack_a_property_have_nothing_there():
    assembly = Assembly(GraphConfig(duplicate_nodes="first"))
    batches = (["a", "a"], {"a": ["1", ""], "empty": ["", ""]}), (["b"], {"c": ["z"], "b": ["x"]})
    for ids, properties in batches:
        texts = [pa.array(values) for values in (ids, ids, ids)]
        columns = {name: pa.array(cells) for name, cells in properties.items()}
        assembly.nodes("n", *texts, lambda row: row, columns)
    assembly.edges("e", pa.array(["a"]), pa.array(["b"]), pa.array(["r"]), lambda row: row)
    columns = plain(assembly.finish({}).node_properties)
    assert list(columns.items()) == [("a", [1, None]), ("c", [None, "z"]), ("b", [None, "x"])]


def test_further_csv_columns_are_properties_of_the_kept_rows(read):
    nodes = "id,name,type,year,note,note\na,A,x,1975,,p\nb,B,x,,n,q\na,C,x,2000,,r\n"
    edges = "source_id,target_id,type,weight\na,b,r,0.5\na,z,r,7\nb,a,r,\n"
    graph = read("csv", nodes, edges, unknown_nodes="drop", duplicate_nodes="first")
    assert plain(graph.node_properties) == {"year": [1975, None], "note": [None, "n"]}
    assert plain(graph.edge_properties) == {"weight": [0.5, None]}
    part = graph.with_edges(np.array([True, False])).subgraph(np.array([False, True]))
    assert part.node_properties["year"].to_pylist() == [None]
    assert len(part.edge_properties["weight"]) == 0


def test_the_opposite_of_a_symmetric_edge_is_added_once_with_its_properties(read, edges_of):
    edges = "source_id,target_id,type,w\na,b,near,1\nb,a,near,2\nc,a,near,3\nc,c,near,4\na,c,far,5\n"
    graph = read("csv", None, edges, symmetric_edge_types=["near"])
    assert edges_of(graph)[5:] == [("a", "near", "c")]
    assert graph.edge_properties["w"].to_pylist() == [1, 2, 3, 4, 5, 3]


def test_graphml_data_that_name_nothing_are_properties(read):
    text = """<graphml><key id="y" for="node" attr.name="year"/><key id="w" for="edge" attr.name="weight">
    <default>2</default></key><graph><node id="a"><data key="y">1975</data></node><node id="b"/>
    <edge source="a" target="b"><data key="w">0.5</data></edge><edge source="b" target="a"/></graph>
    </graphml>"""
    graph = read("graphml", text)
    assert plain(graph.node_properties) == {"year": [1975, None]}
    assert plain(graph.edge_properties) == {"weight": [0.5, 2.0]}


def test_graphml_data_outranked_by_another_as_name_or_type_are_properties(read, nodes_of, edges_of):
    text = """<graphml><graph><node id="a"><data key="label">L</data><data key="name">N</data>
    <data key="category">c</data><data key="type">t</data></node>
    <node id="b"><data key="label">only</data><data key="kind">k</data></node>
    <edge source="a" target="b"><data key="label">l</data><data key="type">:r:s</data></edge></graph></graphml>"""
    graph = read("graphml", text)
    assert nodes_of(graph) == [("a", "N", "t"), ("b", "only", "k")]
    assert edges_of(graph) == [("a", ":r:s", "b")]
    assert plain(graph.node_properties) == {"label": ["L", None], "category": ["c", None]}
    assert plain(graph.edge_properties) == {"label": ["l"]}


@pytest.mark.parametrize("form", ["csv", "graphml"])
def test_properties_with_the_names_of_our_columns_and_line_ends_come_back_from_an_exported_graph(
    form, load, write, tmp_path
):
    nodes = write("n.csv", 'id,label,type,name\na,"A\r\na",t,x\nb,"B\rb",t,y\n')
    edges = write("e.csv", "source_id,target_id,type,kind\na,b,r,z\n")
    columns = {"edge_columns": {"type": "kind"}, "columns": {"name": "label"}}
    graph = load("csv", nodes=nodes, edges=edges, **columns)
    files = [str(file) for file in export_graph(graph, (), tmp_path / f"out.{form}")]
    files = {"path": files[0]} if form == "graphml" else {"nodes": files[0], "edges": files[1]}
    again = load(form, **files)
    assert again.names.tolist() == graph.names.tolist() == ["A\r\na", "B\rb"]
    assert again.edge_types == graph.edge_types == ("z",)
    assert [column.to_pylist() for column in again.node_properties.values()] == [["x", "y"]]
    assert [column.to_pylist() for column in again.edge_properties.values()] == [["r"]]
