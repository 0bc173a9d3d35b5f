"""Samples of twelve formats, counted by other programs: every figure must be ours too.

The samples are beside the project on machines that have them; elsewhere these tests are skipped.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from kgqa_hpc.errors import EmptyGraphError

SAMPLES = Path(__file__).parents[4] / "shared" / "data" / "graphs"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs the samples beside the project")

LENIENT = {"duplicate_nodes": "first", "unknown_nodes": "drop"}
PLAIN = {"reading": "plain"}


def _pair(source, folder, nodes, edges, **more):
    return f"{nodes} + {edges}", source, folder, {"nodes": nodes, "edges": edges, **more}


def _one(source, folder, path, **more):
    return path, source, folder, {"path": path, **more}


CASES = [
    ("as it stands", "oregano", "oregano", {"path": "."}),
    _one("primekg", "primekg", "kg.csv"),
    _one("hetionet", "hetionet", "hetionet-slice.json"),
    _one("hetionet", "hetionet", "hetionet-slice.json.bz2"),
    _pair("hetionet", "hetionet", "hetionet-slice-nodes.tsv", "hetionet-slice-edges.sif.gz"),
    *(
        _pair("kgx", "kgx", f"{stem}_nodes.{end}", f"{stem}_edges.{end}", **LENIENT)
        for stem, end in (
            ("graph", "tsv"), ("graph_multi_category", "tsv"), ("chebi_kgx_tsv", "tsv"), ("test", "tsv"),
            ("cm", "csv"), ("valid", "jsonl"),
        )
    ),
    _pair("kgx", "monarch", "monarch-kg_nodes.tsv", "monarch-kg_edges.tsv"),
    *(_one("neo4j", "neo4j", name) for name in ("import", "idspaces", "biocypher", "apoc", "kgw")),
    ("kgw", "kgw", "neo4j", {"nodes": "kgw/kg_nodes.csv", "edges": "kgw/kg_edges.csv"}),
    _pair("neo4j", "ckg", "Phenotype.tsv", "Phenotype_has_parent.tsv"),
    _pair("kgw", "ckg", "neo4j_nodes.csv", "neo4j_edges.csv"),
    _pair("neo4j", "ckg", "neo4j_nodes.csv", "neo4j_edges.csv"),
    _one("neo4j", "spoke", "spoke.jsonl"),
    _one("neo4j", "spoke", "spoke.csv"),
    _one("nano-graphrag", "nano_graphrag", "graph_chunk_entity_relation.graphml"),
    _one("nano-graphrag", "nano_graphrag", "lightrag_graph_chunk_entity_relation.graphml"),
    _one("drkg", "drkg", "drkg.tsv"),
    *(_one("obo", "obo", f"{name}.obo", **LENIENT) for name in ("symp_slice", "cio", "go", "hp")),
    *(
        _one("rdf", "rdf", name, **PLAIN)
        for name in (
            "hetionet_slice.ttl", "hetionet_slice.nt.gz", "goslim_slice.nt", "hpoa_test.ttl", "oban-test.nt",
            "test3.nt", "biogrid_test.ttl",
        )
    ),
    *(_one("rdf", "rdf", name) for name in ("hetionet_slice.ttl", "hetionet_slice.nt.gz")),
]  # fmt: skip


def _expected(folder: str, case: str) -> dict:
    rows = json.loads((SAMPLES / folder / "expected.json").read_text(encoding="utf-8"))
    return next(row for row in rows if row["case"] == case)


def _rows(graph) -> list[tuple[int, int, int]]:
    """Source, target and type of each edge."""
    columns = graph.edge_source, graph.edge_target, graph.edge_type
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _figures(graph) -> dict:
    rows = _rows(graph)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "distinct_edges": len(set(rows)),
        "self_loops": sum(source == target for source, target, _ in rows),
        "dangling": graph.attributes.get("dropped_edges_with_unknown_nodes", 0),
        "duplicate_nodes": graph.attributes.get("dropped_duplicate_nodes", 0),
        "unnamed": sum(not name for name in graph.names),
        "node_types": dict(Counter(graph.node_types[code] for code in graph.node_type.tolist())),
        "edge_types": dict(Counter(graph.edge_types[code] for _, _, code in rows)),
    }


@pytest.mark.parametrize(("case", "source", "folder", "settings"), CASES, ids=lambda v: str(v)[:40])
def test_a_sample_has_the_figures_others_counted(load, case, source, folder, settings):
    paths = {key: SAMPLES / folder / settings[key] for key in ("path", "nodes", "edges") if key in settings}
    figures, expected = _figures(load(source, **{**settings, **paths})), _expected(folder, case)
    assert figures == {key: expected.get(key, figures[key]) for key in figures}


def test_an_ontology_of_one_term_is_an_empty_graph(load):
    with pytest.raises(EmptyGraphError):
        load("obo", path=SAMPLES / "obo" / "header_comment.obo")


def test_oregano_without_codes_has_the_published_way_of_counting(load):
    graph = load("oregano", path=SAMPLES / "oregano")
    expected = _expected("oregano", "as published")
    rows = [row for row in _rows(graph) if graph.edge_types[row[2]] != "has_code"]
    assert len(rows) == expected["edges"]
    assert len(set(rows)) == expected["distinct_edges"]
    assert len({row[:2] for row in rows}) == expected["distinct_directed_pairs"]
    assert len({frozenset(row[:2]) for row in rows}) == expected["distinct_undirected_pairs"]


def test_primekg_without_mirrored_rows_has_each_edge_once(load):
    graph = load("primekg", path=SAMPLES / "primekg" / "kg.csv", mirrored="drop")
    assert graph.num_edges == _expected("primekg", "kg.csv")["undirected_edges"]


def test_the_entities_of_an_ontology_in_rdf_are_named_and_typed(load):
    graph = load("rdf", path=SAMPLES / "rdf" / "goslim_slice.nt", unknown_nodes="drop")
    assert all(not node.startswith("_:") for node in graph.node_ids)
    kinds = {graph.edge_types[code] for code in graph.edge_type.tolist()}
    assert "http://www.w3.org/2000/01/rdf-schema#subClassOf" in kinds
    assert "http://purl.obolibrary.org/obo/BFO_0000050" in kinds  # part of, from restrictions
    assert not any("owl#" in kind for kind in kinds)


def test_associations_in_rdf_are_edges_between_what_they_associate(load, edges_of):
    graph = load("rdf", path=SAMPLES / "rdf" / "oban-test.nt", curies=True)
    assert graph.num_edges == 7
    sources = {source for source, _, _ in edges_of(graph)}
    assert "https://www.genenames.org/data/gene-symbol-report/#!/hgnc_id/HGNC:8007" in sources
