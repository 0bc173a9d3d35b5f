"""What `properties` names of JSON documents and RDF graphs stands in typed columns of kg.h5, and nothing else."""

from __future__ import annotations

import json

import pytest

from kgqa_hpc.kg.file import read_graph, write_graph

HETNET = {
    "nodes": [
        {
            "kind": "Gene",
            "identifier": 9,
            "name": "a",
            "data": {"chromosome": "1", "length": 10, "url": "http://a"},
        },
        {"kind": "Disease", "identifier": "9", "name": "d", "data": {"length": -3}},
        {"kind": "Disease", "identifier": "8", "name": "e"},
    ],
    "edges": [
        {
            "source_id": ["Gene", 9],
            "target_id": ["Disease", "9"],
            "kind": "associates",
            "direction": "both",
            "data": {"unbiased": False, "pubmed_ids": [12, 13], "score": 0.5},
        },
        {
            "source_id": ["Gene", 9],
            "target_id": ["Disease", "8"],
            "kind": "associates",
            "data": {"unbiased": True},
        },
    ],
}


def kept(graph, tmp_path):
    """The properties, after a way through the file."""
    write_graph(tmp_path / "kg.h5", graph, {})
    stored = read_graph(tmp_path / "kg.h5")
    return tuple(
        {name: (str(column.type), column.to_pylist()) for name, column in columns.items()}
        for columns in (stored.node_properties, stored.edge_properties)
    )


def test_data_of_a_hetnet_is_typed_and_what_is_not_there_is_null(load, write, tmp_path):
    path = write("h.json", json.dumps(HETNET))
    wanted = ["chromosome", "length", "unbiased", "pubmed_ids", "score", "direction", "no such"]
    nodes, edges = kept(load("hetionet", path=path, properties=wanted), tmp_path)
    assert nodes == {"chromosome": ("int64", [1, None, None]), "length": ("int64", [10, -3, None])}
    assert edges == {
        "unbiased": ("bool", [False, True]),
        "pubmed_ids": ("large_string", ["12|13", None]),
        "score": ("double", [0.5, None]),
        "direction": ("large_string", ["both", None]),
    }
    assert kept(load("hetionet", path=path), tmp_path) == ({}, {})


def test_members_of_kgx_lines_are_kept(load, write, tmp_path):
    nodes = [
        {
            "id": "A:1",
            "category": ["b:Gene"],
            "name": "x",
            "taxon": "9606",
            "xref": ["B:1", "C:2"],
            "more": {"k": 1},
        }
    ]
    nodes += [{"id": "A:2", "category": "b:Gene", "name": "y", "taxon": None}]
    edges = [{"subject": "A:1", "predicate": "b:r", "object": "A:2", "score": 1e-3, "negated": False}]
    files = {
        name: write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        for name, rows in (("nodes", nodes), ("edges", edges))
    }
    found = kept(load("kgx", **files, properties=["taxon", "xref", "more", "score"]), tmp_path)
    assert found == (
        {
            "taxon": ("int64", [9606, None]),
            "xref": ("large_string", ["B:1|C:2", None]),
            "more": ("large_string", ['{"k": 1}', None]),
        },
        {"score": ("double", [0.001])},
    )


TURTLE = """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix x: <http://x.org/> .
x:a rdfs:label "a" ; x:count 12 ; x:definition "eins"@de , "one"@en , "uno"@it ; x:alias "A" , "B" , "A" ; x:r x:b .
x:b rdfs:label "b" ; x:count 13 ; x:obsolete true .
"""


@pytest.mark.parametrize("reading", ["entities", "plain"])
def test_literals_of_rdf_are_typed_in_the_wanted_language_each_once(load, write, tmp_path, reading):
    wanted = ["http://x.org/count", "definition", "alias", "obsolete"]
    graph = load("rdf", path=write("g.ttl", TURTLE), properties=wanted, reading=reading)
    assert kept(graph, tmp_path)[0] == {
        "http://x.org/count": ("int64", [12, 13]),
        "definition": ("large_string", ["one", None]),
        "alias": ("large_string", ["A|B", None]),
        "obsolete": ("bool", [None, True]),
    }
