from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.kg.file import KIND, read_graph, write_graph
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.store.sealed import open_sealed, read_header
from kgqa_hpc.store.table import Table
from tests.by_path import load

GOLDEN = Path(__file__).parents[1] / "store" / "golden"

ARRAYS = ("node_ids", "names", "node_type", "edge_source", "edge_target", "edge_type")
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=9)


def _content(graph):
    arrays = {name: (getattr(graph, name).dtype, getattr(graph, name).tolist()) for name in ARRAYS}
    properties = [
        {name: (column.type, column.to_pylist()) for name, column in columns.items()}
        for columns in (graph.node_properties, graph.edge_properties)
    ]
    return arrays, graph.node_types, graph.edge_types, dict(graph.attributes), properties


@st.composite
def _columns(draw, size):
    texts = st.text(st.characters(exclude_categories=["Cs"]))
    types = [(pa.int64(), st.integers(-(2**63), 2**63 - 1)), (pa.float64(), st.floats(allow_nan=False))]
    kind, values = draw(st.sampled_from([*types, (pa.bool_(), st.booleans()), (pa.large_string(), texts)]))
    return pa.array(draw(st.lists(st.none() | values, min_size=size, max_size=size)), kind)


@settings(max_examples=30)
@given(TEXTS, st.data())
def test_any_graph_comes_back_as_it_was_written(tmp_path_factory, names, data):
    size = len(names)
    edges = data.draw(st.lists(st.tuples(*[st.integers(0, size - 1)] * 2), max_size=9))
    ends = np.array(edges, dtype=np.int32).reshape(-1, 2)
    headings = [name.replace("\0", "?") for name in names]
    graph = KnowledgeGraph(
        node_ids=np.array([f"{i}{name}" for i, name in enumerate(names)], dtype=object),
        names=np.array(names, dtype=object),
        node_type=np.zeros(size, dtype=np.int32),
        node_types=(names[0],),
        edge_source=ends[:, 0],
        edge_target=ends[:, 1],
        edge_type=np.zeros(len(ends), dtype=np.int32),
        edge_types=(names[-1],),
        attributes={"source": names[0], "dropped": size},
        node_properties={headings[0]: data.draw(_columns(size))},
        edge_properties={f"{name}/{i}": data.draw(_columns(len(ends))) for i, name in enumerate(headings)},
    )
    write_graph(path := tmp_path_factory.mktemp("kg") / "kg.h5", graph)
    assert _content(read_graph(path)) == _content(graph)


def test_a_nul_in_the_name_of_a_property_is_replaced(make_graph, tmp_path):
    year = pa.array([1, None], pa.int64())
    write_graph(tmp_path / "kg.h5", replace(make_graph(2, [(0, 1, 0)]), node_properties={"ye\0ar": year}))
    assert read_graph(tmp_path / "kg.h5").node_properties == {"ye\ufffdar": year}


def test_a_graph_big_enough_to_be_compressed_comes_back_and_gives_the_same_bytes_again(make_graph, tmp_path):
    edges = np.random.default_rng(1).integers(0, 3, (20_000, 3))
    edges[:, :2] = np.random.default_rng(2).integers(0, 5_000, (20_000, 2))
    graph = make_graph(5_000, edges)
    write_graph(tmp_path / "one.h5", graph)
    write_graph(tmp_path / "two.h5", read_graph(tmp_path / "one.h5"))
    assert _content(read_graph(tmp_path / "two.h5")) == _content(graph)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    with h5py.File(tmp_path / "one.h5") as file:
        assert file["edges/source"].compression == "gzip"


def test_the_header_alone_tells_size_and_licence(make_graph, tmp_path):
    graph = replace(make_graph(3, [(0, 1, 0)]), attributes={"licence": "CC0", "citation": "x" * 800})
    write_graph(tmp_path / "kg.h5", graph)
    header = read_header(tmp_path / "kg.h5", KIND)
    assert (header["rows"], header["edges"]) == (3, 1)
    assert header["attributes"] == {"licence": "CC0"}  # what is too long stands in the file only
    assert read_graph(tmp_path / "kg.h5").attributes["citation"] == "x" * 800


def test_the_file_is_made_of_the_stores_tables(make_graph, tmp_path):
    write_graph(tmp_path / "kg.h5", make_graph(2, [(0, 1, 2)]))
    with open_sealed(tmp_path / "kg.h5", KIND) as file:
        assert Table(file["nodes"]).text("id") == ["n0", "n1"]
        assert Table(file["nodes"]).find("name", "name 1") == 1
        assert Table(file["edges"]).numbers("type").tolist() == [2]
        assert Table(file["edge_types"]).text("name") == ["a", "b", "c"]


def test_a_flipped_byte_is_found(make_graph, tmp_path):
    path = tmp_path / "kg.h5"
    write_graph(path, make_graph(2, [(0, 1, 2)]))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFile):
        read_graph(path)


def test_a_graph_of_version_2_is_read_for_ever_and_comes_back_through_todays_writer(tmp_path):
    made, graph = load(GOLDEN / "make_v2.py"), read_graph(GOLDEN / "v2" / "kg.h5")
    assert dict(graph.node_properties) == made.NODE_PROPERTIES
    assert dict(graph.edge_properties) == made.EDGE_PROPERTIES
    assert graph.names.tolist() == made.graph().names.tolist()
    write_graph(tmp_path / "kg.h5", graph)
    assert _content(read_graph(tmp_path / "kg.h5")) == _content(graph)
