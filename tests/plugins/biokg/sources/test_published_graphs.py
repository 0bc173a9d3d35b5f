# ruff: noqa: E501 - rows of files are one line here too
"""What the published graphs do that a stranger would not expect, on the smallest files that show it."""

from __future__ import annotations

import bz2
import gzip
import json

import pytest

from kgqa_hpc.kg.settings import graph_config

OREGANO = {
    "OREGANO_V2.1.tsv": "COMPOUND:1\thas_code\tB01\nCOMPOUND:1\thas_target\tPROTEIN:2\n"
    "COMPOUND:1\thas_target\tPROTEIN:2\nEFFECT:1\tr\tCOMPOUND:1\n",
    "COMPOUND.tsv": "ID_OREGANO:9\tDRUGBANK\tWIKIPEDIA\tWIKIPEDIA \nCOMPOUND:1\tDB1\tOld\t Dornase_alfa \n"
    "COMPOUND:9\tDB9\tnot in the graph\t\n",
    "EFFECT.tsv": "ID_OREGANO:1\tNAME_DRUGBANK\nEFFECT:1\tbleeding\n",
}


@pytest.fixture
def oregano(tmp_path):
    for name, text in OREGANO.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_oregano_types_are_prefixes_codes_have_none_and_names_come_from_the_tables(load, nodes_of, oregano):
    graph = load("oregano", path=oregano)
    assert nodes_of(graph) == [
        ("COMPOUND:1", "Dornase alfa", "compound"),
        ("B01", "", "code"),
        ("PROTEIN:2", "", "protein"),
        ("EFFECT:1", "bleeding", "effect"),
    ]
    assert graph.num_edges == 4  # repeated rows stay as they stand
    assert graph.attributes["licence"] == "CC BY 4.0"


def test_oregano_leaves_codes_out_of_the_reduced_graph_without_being_told(oregano):

    assert graph_config({"source": "oregano", "path": str(oregano)}).exclude_edge_types == ["has_code"]


def test_oregano_without_a_single_code_can_still_leave_them_out(load, oregano):
    (oregano / "OREGANO_V2.1.tsv").write_text("COMPOUND:1\tr\tEFFECT:1\n", encoding="utf-8")
    assert "has_code" in load("oregano", path=oregano).edge_types


PRIMEKG = (
    "relation,display_relation,x_index,x_id,x_type,x_name,x_source,y_index,y_id,y_type,y_name,y_source\n"
    'drug_protein,target,0,7,drug,NA,DrugBank,1,7,gene/protein,"A, ""B""",NCBI\n'
    'drug_protein,target,1,7,gene/protein,"A, ""B""",NCBI,0,7,drug,NA,DrugBank\n'
    "drug_protein,enzyme,0,7,drug,NA,DrugBank,1,7,gene/protein,x,NCBI\n"
)


def test_primekg_nodes_are_numbers_for_ids_of_sources_repeat(load, nodes_of, write):
    graph = load("primekg", path=write("kg.csv", PRIMEKG))
    assert nodes_of(graph) == [("0", "NA", "drug"), ("1", 'A, "B"', "gene/protein")]
    assert graph.node_properties["source"].to_pylist() == ["DrugBank", "NCBI"]
    assert graph.num_edges == 3


def test_primekg_mirrored_edges_can_be_dropped_and_told_apart_in_words(load, edges_of, write):
    path = write("kg.csv", PRIMEKG)
    graph = load("primekg", path=path, mirrored="drop", edge_type="display_relation")
    assert edges_of(graph) == [("0", "target", "1"), ("0", "enzyme", "1")]


HETNET = {
    "metanode_kinds": ["Gene"],
    "nodes": [
        {"kind": "Gene", "identifier": 9, "name": 'a "b"', "data": {}},
        {"kind": "Disease", "identifier": "9", "name": "d", "data": {}},
    ],
    "edges": [
        {"source_id": ["Gene", 9], "target_id": ["Disease", "9"], "kind": "associates", "direction": "both"}
    ],
    "kind_to_abbrev": {"Gene": "G"},
}


@pytest.mark.parametrize("pack", [lambda data: data, bz2.compress, gzip.compress], ids=["plain", "bz2", "gz"])
@pytest.mark.parametrize("indent", [None, 1])
def test_hetionet_identifiers_are_unique_within_their_kind_only(
    load, nodes_of, edges_of, write, pack, indent
):
    path = write("h.json", pack(json.dumps(HETNET, indent=indent).encode()))
    graph = load("hetionet", path=path)
    assert nodes_of(graph) == [("Gene::9", 'a "b"', "Gene"), ("Disease::9", "d", "Disease")]
    assert edges_of(graph) == [("Gene::9", "associates", "Disease::9")]


def test_hetionet_tables_are_unquoted_and_abbreviations_can_be_spelt_out(load, nodes_of, edges_of, write):
    nodes = write("n.tsv", "id\tname\tkind\nGene::1\t\"x\tGene\nB::2\t'y'\tBiological Process\n")
    edges = write("e.sif.gz", gzip.compress(b"source\tmetaedge\ttarget\nGene::1\tGpBP\tB::2\n"))
    meta = write("m.tsv", "metaedge\tabbreviation\nGene - participates - Biological Process\tGpBP\n")
    graph = load("hetionet", nodes=nodes, edges=edges, metaedges=meta)
    assert nodes_of(graph) == [("Gene::1", '"x', "Gene"), ("B::2", "'y'", "Biological Process")]
    assert edges_of(graph) == [("Gene::1", "participates", "B::2")]
    assert edges_of(load("hetionet", nodes=nodes, edges=edges))[0][1] == "GpBP"


KGX_NODES = (
    'id\tcategory\tname\tdescription\nA:1\tb:Thing|b:Gene\ta\t"quoted"\nA:2\tb:Gene\nA:1\tb:X\tagain\n'
)


KGX_EDGES = "negated\tid\tsubject\tpredicate\tobject\n\te1\tA:1\tb:r\tA:2\ntrue\te2\tA:2\tb:r\tA:1\n\te3\tA:2\tb:r\tA:2\n"


def test_kgx_rows_may_lack_their_last_fields_repeat_an_id_and_deny_a_statement(
    load, nodes_of, edges_of, write
):
    graph = load(
        "kgx", nodes=write("n.tsv", KGX_NODES), edges=write("e.tsv", KGX_EDGES), properties=["description"]
    )
    assert nodes_of(graph) == [("A:1", "a", "b:Thing|b:Gene"), ("A:2", "", "b:Gene")]
    assert edges_of(graph) == [("A:1", "b:r", "A:2"), ("A:2", "b:r", "A:2")]
    assert graph.attributes["dropped_negated_edges"] == 1
    assert graph.attributes["dropped_duplicate_nodes"] == 1
    assert graph.node_properties["description"].to_pylist() == ['"quoted"', None]  # TSV has no quoting


@pytest.mark.parametrize(("which", "kind"), [("first", "b:Thing"), ("last", "b:Gene")])
def test_kgx_of_several_categories_one_can_be_the_type(load, write, which, kind):
    graph = load("kgx", nodes=write("n.tsv", KGX_NODES), edges=write("e.tsv", KGX_EDGES), category=which)
    assert graph.node(0).type == kind


def test_kgx_a_lone_carriage_return_in_a_ragged_block_is_text(load, write):
    nodes = write("n.tsv", "id\tcategory\tname\nA:1\tc\tone\rline\nA:2\tc\n")
    edges = write("e.tsv", "subject\tpredicate\tobject\nA:1\tr\tA:2\n")
    assert load("kgx", nodes=nodes, edges=edges).names.tolist() == ["one\rline", ""]


def test_kgx_json_lines_join_their_categories_and_may_lack_names(load, nodes_of, write):
    nodes = write("n.jsonl", '{"id":"A:1","category":["x","y"]}\n\n{"id":"A:2","name":null}\n')
    edges = write("e.jsonl", '{"subject":"A:1","predicate":"r","object":"A:2","negated":"False"}\n')
    graph = load("kgx", nodes=nodes, edges=edges)
    assert nodes_of(graph) == [("A:1", "", "x|y"), ("A:2", "", "biolink:NamedThing")]


def test_kgx_one_json_document_holds_both(load, write):
    text = {"nodes": [{"id": "A:1"}], "edges": [{"subject": "A:1", "predicate": "r", "object": "A:1"}]}
    path = write("g.json", json.dumps(text))
    assert load("kgx", nodes=path, edges=path).num_edges == 1


def test_kgx_edges_without_a_table_of_nodes_name_things(load, nodes_of, write):
    graph = load("kgx", edges=write("e.tsv", "subject\tpredicate\tobject\nA:1\tr\tA:2\n"))
    assert nodes_of(graph)[0] == ("A:1", "", "biolink:NamedThing")


def test_kgw_names_stand_in_json_and_lines_may_end_as_on_windows(load, nodes_of, write):
    nodes = write(
        "n.csv", '"id","type","properties"\r\n"0","Gene","{""symbol"":""S"",""name"":""n,\\u00e9""}"\r\n'
    )
    edges = write("e.csv", '"source_id","target_id","type","properties"\r\n"0","0","r","{}"\r\n')
    assert nodes_of(load("kgw", nodes=nodes, edges=edges)) == [("0", "n,é", "Gene")]
