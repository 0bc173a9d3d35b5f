import math
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import ExtensionError, GraphFormatError
from kgqa_hpc.kg.assemble import Assembly
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import GraphConfig, SourceSettings, graph_config, graph_files, load_graph
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.kg.sources.csv import constant


def test_the_hpo_source_needs_no_file(monkeypatch, make_graph):
    graph = make_graph(2, [(0, 1, 0)])
    monkeypatch.setattr("kgqa_hpc.kg.sources.hpo.read_hpo", lambda: graph)
    assert load_graph(graph_config({})) is graph


@pytest.mark.parametrize("name", SOURCES.names())
def test_every_source_says_what_it_is_and_joins_the_common_keys(name):
    source = SOURCES.get(name)
    assert source.name == name
    assert source.description.endswith(".")
    assert isinstance(source.licence, str)
    assert issubclass(source.Settings, SourceSettings)
    own = set(source.Settings.__annotations__)
    common = set(GraphConfig.model_fields) - {"exclude_edge_types", "unknown_nodes", "duplicate_nodes"}
    assert not own & common
    assert set(source.Settings.paths) <= own
    assert all(field.description for field in source.Settings.model_fields.values())


def test_a_section_is_dumped_with_the_keys_of_its_source_and_reads_back_the_same():
    graph = {"source": "graphml", "path": "g.xml"}
    config = parse_config({"engine": {"kind": "scripted"}, "graph": graph}, "c")
    assert config.plain()["graph"]["path"] == "g.xml"
    assert parse_config(config.plain(), "c").graph == config.graph


def test_only_keys_that_hold_paths_are_resolved(tmp_path):
    section = {"source": "csv", "nodes": ["a.csv", "b.csv"], "edges": "e.csv", "exclude_edge_types": ["r"]}
    found = graph_config({**section, "hydrate": "names.yaml"}, tmp_path)
    assert found.nodes == [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    assert found.edges == str(tmp_path / "e.csv")
    assert found.hydrate == str(tmp_path / "names.yaml")
    assert found.exclude_edge_types == ["r"]
    assert graph_config(section).edges == "e.csv"


ERROR = {"unnamed_nodes": "error"}


@pytest.mark.parametrize(
    ("parts", "keys", "problem"),
    [
        ({"node_ids": ["a", "b", "a"]}, {}, "graph source raw .*: 1 node ids stand twice, e.g. 'a'"),
        ({"names": ["A", "", "C"]}, ERROR, "1 nodes have no name, e.g. 'b'"),
        ({"names": ["A", None, "  "]}, ERROR, "2 nodes have no name, e.g. 'b'"),
        ({"node_ids": ["a", 7, "c"]}, {}, "graph source raw .*: node_ids.1. is 7, no text"),
        ({"node_ids": ["a", " ", "c"]}, {}, "1 node ids are empty"),
        ({"names": ["A", math.nan, "C"]}, {}, "names.1. is nan, no text"),
        ({"names": ["A", "B", "\ud800"]}, {}, r"names.2. is '\\ud800', no text"),
        ({"node_types": (None,)}, {}, "node_types.0. is None, no text"),
        ({"node_types": ("x", "x")}, {}, "1 node types stand twice, e.g. 'x'"),
        ({"edge_types": (5,)}, {}, "edge_types.0. is 5, no text"),
        ({"node_properties": {1: pa.array([1, 2, 3])}}, {}, "node_properties.0. is 1, no text"),
        ({"node_properties": {"p": pa.array([1, 2, 3], pa.int32())}}, {}, "property 'p' is int32"),
        ({"node_properties": {"p": [1, 2, 3]}}, {}, "property 'p' is list"),
        ({"node_properties": {"p": pa.array([1.0, math.nan, None])}}, {}, "property 'p' holds nan or inf"),
        ({"attributes": None}, {}, "attributes cannot be stored"),
        ({"attributes": {"x": object()}}, {}, "attributes cannot be stored"),
        ({"node_type": [0.0, 0.9, 0.0]}, {}, "raw .* failed: ValueError: node_type holds float64"),
    ],
)
def test_a_graph_made_without_assembly_is_held_against_its_rules(raw, parts, keys, problem):
    with pytest.raises((GraphFormatError, ExtensionError), match=problem):
        raw(parts, **keys)


def test_names_of_a_graph_made_without_assembly_are_normalised_as_there(raw):
    graph = raw({"names": ["Ko\u0308ln", None, " "], "node_properties": {"p": pa.array([1.5, None, 2.0])}})
    assert graph.names.tolist() == ["K\xf6ln", "", ""]


@pytest.fixture
def raw(monkeypatch):
    """raw(parts, **keys of graph): the graph of three nodes that a source makes without Assembly, with these parts."""

    def load(parts, **keys):
        class Raw:
            name, licence, description, Settings = "raw", "CC0", "As it is.", SourceSettings

            def read(self, settings):
                no_edges = np.zeros(0, np.int32)
                nodes = {"node_ids": [*"abc"], "names": [*"ABC"], "node_type": [0] * 3, "node_types": ("x",)}
                edges = dict.fromkeys(("edge_source", "edge_target", "edge_type"), no_edges)
                return KnowledgeGraph(**{**nodes, **edges, "edge_types": (), **parts})

        point = EntryPoint("raw", f"{__name__}:Raw", "kgqa_hpc.sources")
        monkeypatch.setitem(SOURCES._loaded, "raw", Raw)
        monkeypatch.setattr(SOURCES, "_foreign", {"raw": point}, raising=False)
        return load_graph(graph_config({"source": "raw", **keys}))

    return load


def test_every_file_of_a_graph_is_remembered_however_many_have_one_name(tmp_path):
    files = [tmp_path / folder / "n.csv" for folder in "abcd"]
    for file in files:
        file.parent.mkdir()
        file.write_text("x")
    config = graph_config({"source": "csv", "nodes": [str(file) for file in files], "edges": str(files[0])})
    assert sorted(set(graph_files(config).values())) == files


TEXT = (Path(__file__).parents[2] / "docs" / "guide" / "sources.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", TEXT, re.M | re.S)]
GRAPHS = [block["graph"] for block in BLOCKS if "graph" in block]


@pytest.mark.plugin("biokg")  # the page shows its sources, too
@pytest.mark.parametrize("section", GRAPHS, ids=lambda section: section["source"])
def test_each_configuration_of_the_page_is_accepted(section):
    assert graph_config(section).source == section["source"]


@pytest.mark.plugin("biokg")
@pytest.mark.parametrize("name", SOURCES.names())
def test_each_source_has_its_section_with_a_configuration(name):
    """Its keys stand in docs/reference/config.md, which is generated."""
    section = re.search(rf"^## {name}: (.*?)(?=^## )", TEXT, re.M | re.S)
    assert section
    assert f"graph: {{source: {name}" in section[1] or f"source: {name}\n" in section[1]


def test_each_common_key_is_documented():
    for key in GraphConfig.model_fields:
        assert f"`{key}`" in TEXT, key


@pytest.mark.plugin("biokg")
def test_the_recipe_of_the_page_is_accepted():
    from kgqa_hpc.plugins.biokg.recipe import Recipe

    (recipe,) = [block for block in BLOCKS if "classes" in block]
    assert Recipe.model_validate(recipe).spaces["pubchem"].date == "2024-12-03"


class Planets:
    name, licence, description = "planets", "CC0 1.0", "Planets and their moons."

    class Settings(SourceSettings):
        moons: int = 2

    def read(self, settings):
        assembly = Assembly(settings)
        for number in range(settings.moons):
            ends = constant("Mars", 1), constant(f"moon {number}", 1)
            assembly.edges("the sky", *ends, constant("has", 1), lambda row: 1)
        return assembly.finish({"source": "planets"}, declare=lambda ids: (ids, constant("body", len(ids))))


def test_a_source_of_ones_own_assembles_a_graph_from_batches(monkeypatch):
    monkeypatch.setattr(SOURCES, "_foreign", {"planets": None}, raising=False)
    monkeypatch.setitem(SOURCES._loaded, "planets", Planets)
    assert load_graph(graph_config({"source": "planets", "moons": 3})).num_nodes == 4
