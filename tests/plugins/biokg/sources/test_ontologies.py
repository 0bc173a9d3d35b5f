# ruff: noqa: E501 - rows of files are one line here too
"""What OBO and RDF files do that a stranger would not expect, on the smallest files that show it."""

from __future__ import annotations

import pytest


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


def test_exact_synonyms_of_an_ontology_are_a_property_of_its_terms(load, write):
    text = OBO.replace(
        "namespace: own\r\n",
        'namespace: own\r\nsynonym: "deux \\"2\\"" EXACT layperson []\r\nsynonym: "zwei" EXACT [A:1]\r\n'
        'synonym: "number" BROAD []\r\nsynonym: "a|b" EXACT []\r\nsynonym: "zwei" EXACT []\r\n',
    )
    graph = load("obo", path=write("made.obo", text), unknown_nodes="drop")
    assert dict(zip(graph.node_ids, graph.node_properties["synonyms"].to_pylist(), strict=True)) == {
        "A:1": None,
        "A:2": 'deux "2"|zwei',
    }
