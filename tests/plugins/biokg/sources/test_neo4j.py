"""What exports of Neo4j do that a stranger would not expect, on the smallest files that show it."""

from __future__ import annotations

import gzip
import json
import zipfile

import pytest

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.settings import graph_config


def test_neo4j_headers_name_the_columns_and_ignore_some(load, nodes_of, write):
    nodes = write("n.csv", "key:ID,name,size:int,old:IGNORE,:LABEL\n1,a,2,zzz,Gene;Thing\n2,b,3,,Gene\n")
    edges = write("r.csv", ":START_ID,w:float,:END_ID,:TYPE\n1,0.5,2,R\n")
    graph = load("neo4j", nodes=nodes, edges=edges, properties=["size", "w", "old"])
    assert nodes_of(graph) == [("1", "a", "Gene;Thing"), ("2", "b", "Gene")]
    assert graph.node_properties["size"].to_pylist() == [2, 3]
    assert list(graph.node_properties) == ["size"]
    assert graph.edge_properties["w"].to_pylist() == [0.5]
    assert load("neo4j", nodes=nodes, edges=edges, labels="first").node(0).type == "Gene"
    assert load("neo4j", nodes=nodes, edges=edges, labels="last").node(0).type == "Thing"


def test_neo4j_one_id_may_stand_in_two_spaces_and_files_share_a_header(load, nodes_of, edges_of, tmp_path):
    files = {
        "Gene-header.csv": "i:ID(Gene){label:Gene, id-type:string};name",  # no line end
        "Gene-part000.csv": "1;'a;b'\n",
        "Gene-part001.csv": "2;'c'\n",
        "Drug-header.csv": "i:ID(Drug);name;:LABEL",
        "Drug.csv.gz": gzip.compress(b"1;'d';Drug\n"),
        "DrugHitsGene-header.csv": ":START_ID(Drug);:END_ID(Gene)",
        "DrugHitsGene-part000.csv": "1;1\n1;2\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    graph = load("neo4j", path=tmp_path)
    assert sorted(nodes_of(graph)) == [
        ("Drug/1", "d", "Drug"), ("Gene/1", "a;b", "Gene"), ("Gene/2", "c", "Gene"),
    ]  # fmt: skip
    assert edges_of(graph) == [("Drug/1", "DrugHitsGene", "Gene/1"), ("Drug/1", "DrugHitsGene", "Gene/2")]


APOC = (
    '"_id","_labels","name","title","_start","_end","_type","w"\n"0",":A:B","one\ntwo","","","","",""\n'
    '"1",":A","","t","","","",""\n,,,,"0","1","R","1"\n'
)


def test_neo4j_apoc_writes_nodes_and_relationships_into_one_table(load, nodes_of, edges_of, write):
    path = write("all.csv", APOC)
    graph = load("neo4j", path=path)
    assert nodes_of(graph) == [("0", "one\ntwo", ":A:B"), ("1", "t", ":A")]
    assert edges_of(graph) == [("0", "R", "1")]
    assert load("neo4j", path=path, labels="last").node_types == ("B", "A")


def test_neo4j_apoc_json_lines_take_null_for_nothing(load, nodes_of, write):
    rows = [
        {"type": "node", "id": "0", "labels": ["A", "B"], "properties": {"name": "Null", "title": "t"}},
        {"type": "relationship", "id": "9", "label": "R", "start": {"id": "0"}, "end": {"id": "0"}},
    ]
    path = write("g.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert nodes_of(load("neo4j", path=path)) == [("0", "t", "A:B")]


def test_ckg_tables_escape_by_a_backslash_and_their_names_say_the_rest(load, nodes_of, edges_of, write):
    nodes = write("Disease.tsv", '"ID"\t"name"\t"x"\n"1"\t"a \\"b\\"\tc"\t"y"\n')
    edges = write("Disease_has_parent.tsv", '"START_ID"\t"END_ID"\n"1"\t"1"\n')
    graph = load("neo4j", nodes=nodes, edges=edges)
    assert nodes_of(graph) == [("1", 'a "b"\tc', "Disease")]
    assert edges_of(graph)[0][1] == "Disease_has_parent"


@pytest.mark.parametrize(
    "setting", [{"delimiter": "é"}, {"quote": "é"}, {"delimiter": "\n"}, {"quote": "ab"}]
)
def test_neo4j_delimiter_and_quote_are_one_sign_that_can_separate(setting):
    with pytest.raises(ConfigError, match="is one ASCII character"):
        graph_config({"source": "neo4j", "path": "x", **setting})


def test_neo4j_delimiter_and_quote_may_be_told(load, nodes_of, write):
    nodes = write("n.csv", "i:ID^name^:LABEL\n1^~a^b~^X\n")
    edges = write("e.csv", ":START_ID^:END_ID^:TYPE\n1^1^R\n")
    graph = load("neo4j", nodes=nodes, edges=edges, delimiter="^", quote="~")
    assert nodes_of(graph) == [("1", "a^b", "X")]


def test_neo4j_a_zipped_file_of_one_member_is_read(load, write, tmp_path):
    with zipfile.ZipFile(tmp_path / "all.csv.zip", "w") as archive:
        archive.writestr("all.csv", APOC)
    assert load("neo4j", path=tmp_path / "all.csv.zip").num_nodes == 2
