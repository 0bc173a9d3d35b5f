# ruff: noqa: E501 - rows of files are one line here too
"""What each format does that a stranger would not expect, on the smallest files that show it."""

from __future__ import annotations

import bz2
import gzip
import json
import zipfile

import pytest
from pydantic import ValidationError

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
    from kgqa_hpc.kg.settings import graph_config

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
    with pytest.raises(ValidationError, match="is one ASCII character"):
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


GRAPHRAG = """<graphml><key id="d0" for="node" attr.name="entity_type"/><key id="d1" for="node" attr.name="description"/>
<key id="d2" for="edge" attr.name="weight"/><key id="d3" for="edge" attr.name="keywords"/><graph edgedefault="undirected">
<node id="&quot;IMATINIB&quot;"><data key="d0">"DRUG"</data><data key="d1">a&lt;SEP&gt;b</data></node>
<node id="&quot;DASWER``"><data key="d0">DRUG</data></node><node id="x"><data key="d0">"UNKNOWN"</data></node>
<edge source="&quot;IMATINIB&quot;" target="x"><data key="d2">2.0</data>%s</edge></graph></graphml>"""


def test_graphrag_quotes_are_taken_off_names_and_types_but_not_off_ids(load, nodes_of, edges_of, write):
    graph = load("nano-graphrag", path=write("g.graphml", GRAPHRAG % ""))
    assert nodes_of(graph) == [
        ('"IMATINIB"', "IMATINIB", "DRUG"), ('"DASWER``', "DASWER", "DRUG"), ("x", "x", "UNKNOWN"),
    ]  # fmt: skip
    assert graph.node_types == ("DRUG", "UNKNOWN")
    assert graph.edge_types == ("",)
    assert graph.node_properties["description"].to_pylist() == ["a<SEP>b", None, None]
    assert graph.edge_properties["weight"].to_pylist() == [2.0]


def test_graphrag_keywords_are_types_and_the_lack_of_one_can_be_named(load, write):
    path = write("g.graphml", GRAPHRAG % '<data key="d3">inhibits</data>')
    assert load("nano-graphrag", path=path).edge_types == ("inhibits",)
    path = write("h.graphml", GRAPHRAG % "")
    assert load("nano-graphrag", path=path, edge_type="related_to").edge_types == ("related_to",)


def test_drkg_types_end_at_the_first_colons_and_nobody_has_a_name(load, nodes_of, edges_of, write):
    text = "Gene::1\tbioarx::X:Gene:Gene\tGene::1\nSide Effect::C::2\tA::B C::D:E\tGene::\n"
    path = write("drkg.tsv", text)
    graph = load("drkg", path=path)
    assert nodes_of(graph) == [
        ("Gene::1", "", "Gene"),
        ("Side Effect::C::2", "", "Side Effect"),
        ("Gene::", "", "Gene"),
    ]
    assert edges_of(graph)[1] == ("Side Effect::C::2", "A::B C::D:E", "Gene::")
    assert load("drkg", path=path, name_by_id=True).names.tolist() == ["1", "C::2", ""]


OBO = """\ufeffformat-version: 1.2\r
default-namespace: made\r
import: other.obo\r
comment: [not a stanza\r
\r
[Term]\r
id: A:1\r
name: a\\, \\"b\\" \\! c ! comment\r
is_a: A:2 {is_inferred="true"} ! parent\r
relationship: part_of A:2 {x="y"} ! z\r
relationship: part_of A:2 {x="z"}\r
xref: A:9\r
disjoint_from: A:9\r
\r
[Term]\r
id: A:2\r
name: two\r
namespace: own\r
\r
[Term]\r
id: A:3\r
name: obsolete three\r
is_obsolete: true\r
is_a: A:9\r
\r
[Typedef]\r
id: is_a\r
name: is a\r
"""


def test_obo_escapes_modifiers_and_comments_are_no_part_of_a_value(load, nodes_of, edges_of, write):
    graph = load("obo", path=write("o.obo", OBO))
    assert nodes_of(graph) == [("A:1", 'a, "b" ! c', "made"), ("A:2", "two", "own")]
    assert edges_of(graph) == [("A:1", "is_a", "A:2"), ("A:1", "part_of", "A:2"), ("A:1", "part_of", "A:2")]
    assert graph.attributes["obsolete_terms"] == 1
    assert graph.attributes["imports_not_read"] == "other.obo"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pronto")
def test_obo_agrees_with_pronto_on_a_whole_file(load, nodes_of, edges_of, write):
    pronto = pytest.importorskip("pronto")
    whole = OBO.replace("import: other.obo\r\n", "").replace("A:9", "A:2")  # it wants every term to be there
    path = write("o.obo", whole.replace("\ufeff", "").replace("\r", ""))
    terms = [term for term in pronto.Ontology(str(path)).terms() if not term.obsolete]
    assert sorted((term.id, term.name.strip()) for term in terms) == [
        node[:2] for node in nodes_of(load("obo", path=path))
    ]
    parents = {(t.id, p.id) for t in terms for p in t.superclasses(distance=1, with_self=False)}
    assert parents == {(s, o) for s, kind, o in edges_of(load("obo", path=path)) if kind == "is_a"}


TURTLE = """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix obo: <http://purl.obolibrary.org/obo/> . @prefix x: <http://x.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix oban: <http://purl.org/oban/> .
obo:HP_1 a owl:Class ; rdfs:label "Fieber"@de, "fever"@en, "feb" ; x:count "12"^^xsd:integer ; rdfs:subClassOf obo:HP_2 ,
  [ a owl:Restriction ; owl:onProperty obo:BFO_50 ; owl:someValuesFrom obo:HP_3 ] .
obo:HP_2 a owl:Class ; rdfs:label "untagged", "anders"@de . obo:HP_3 a owl:Class ; rdfs:label "b"@fr, "a"@it .
obo:HP_4 a owl:Class ; owl:deprecated true ; rdfs:subClassOf obo:HP_2 .
obo:BFO_50 a owl:ObjectProperty ; rdfs:label "part of" .
[] a owl:Axiom ; owl:annotatedSource obo:HP_1 ; owl:annotatedTarget obo:HP_2 .
x:assoc a oban:association ; oban:association_has_subject obo:HP_1 ; oban:association_has_predicate x:p ;
  oban:association_has_object obo:HP_3 .
"""


def test_rdf_gives_entities_in_the_wanted_language_and_edges_that_mean_something(
    load, nodes_of, edges_of, write
):
    graph = load("rdf", path=write("o.ttl", TURTLE), curies=True)
    assert [(node, name) for node, name, _ in nodes_of(graph)] == [
        ("HP:1", "fever"),
        ("HP:2", "untagged"),
        ("HP:3", "a"),
    ]
    assert edges_of(graph) == [
        ("HP:1", "rdfs:subClassOf", "HP:2"), ("HP:1", "BFO:50", "HP:3"), ("HP:1", "x:p", "HP:3"),
    ]  # fmt: skip
    assert graph.attributes["dropped_deprecated_terms"] == 1
    german = load("rdf", path=write("o.ttl", TURTLE), language="de")
    assert german.names.tolist() == ["Fieber", "anders", "a"]


def test_rdf_the_last_part_of_an_iri_can_stand_for_a_name(load, write):
    path = write("t.nt", "<http://x/#!/hgnc_id/HGNC:8007> <http://x/r> <http://x/obo#b> .\n")
    assert load("rdf", path=path).names.tolist() == ["", ""]
    assert load("rdf", path=path, name_by_id=True).names.tolist() == ["HGNC:8007", "b"]


def test_rdf_a_triple_that_stands_twice_is_one_edge(load, write):
    line = "<http://x/a> <http://x/r> <http://x/b> .\n"
    graph = load("rdf", path=write("t.nt", line * 3))
    assert (graph.num_nodes, graph.num_edges) == (2, 1)
    assert graph.attributes["dropped_repeated_triples"] == 2


def test_rdf_read_twice_gives_the_same_although_blank_nodes_have_no_names(load, nodes_of, edges_of, write):
    path = write("o.ttl", TURTLE)
    one, two = (load("rdf", path=path, reading="plain") for _ in range(2))
    assert (nodes_of(one), edges_of(one)) == (nodes_of(two), edges_of(two))
    assert "_:b0" in one.node_ids
