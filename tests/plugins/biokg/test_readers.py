# ruff: noqa: E501 - rows of files are one line here too
"""What published graphs and exchange formats do that a stranger would not expect: file text in, graph out.

Each graph is written to kg.h5 and read again before it is compared.
"""

import bz2
import gzip
import json

import pytest

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.file import read_graph, write_graph
from kgqa_hpc.kg.settings import graph_config

METAEDGES = ("m.tsv", "metaedge\tabbreviation\nGene - participates - Biological Process\tGpBP\n")
OREGANO = {
    "path/OREGANO_V2.1.tsv": "COMPOUND:1\thas_code\tB01\nCOMPOUND:1\thas_target\tPROTEIN:2\n"
    "COMPOUND:1\thas_target\tPROTEIN:2\nEFFECT:1\tr\tCOMPOUND:1\n",
    "path/COMPOUND.tsv": "ID_OREGANO:9\tDRUGBANK\tWIKIPEDIA\tWIKIPEDIA \nCOMPOUND:1\tDB1\tOld\t Dornase_alfa \n"
    "COMPOUND:9\tDB9\tnot in the graph\t\n",
    "path/EFFECT.tsv": "ID_OREGANO:1\tNAME_DRUGBANK\nEFFECT:1\tbleeding\n",
}
PRIMEKG = (
    "relation,display_relation,x_index,x_id,x_type,x_name,x_source,y_index,y_id,y_type,y_name,y_source\n"
    'drug_protein,target,0,7,drug,NA,DrugBank,1,7,gene/protein,"A, ""B""",NCBI\n'
    'drug_protein,target,1,7,gene/protein,"A, ""B""",NCBI,0,7,drug,NA,DrugBank\n'
    "drug_protein,enzyme,0,7,drug,NA,DrugBank,1,7,gene/protein,x,NCBI\n"
)
HETNET = json.dumps({
    "metanode_kinds": ["Gene"], "kind_to_abbrev": {"Gene": "G"},
    "nodes": [
        {"kind": "Gene", "identifier": 9, "name": 'a "b"', "data": {"chromosome": "1", "length": 10, "url": "http"}},
        {"kind": "Disease", "identifier": "9", "name": "d", "data": {"length": -3}},
        {"kind": "Disease", "identifier": "8", "name": "e"},
    ],
    "edges": [
        {"source_id": ["Gene", 9], "target_id": ["Disease", "9"], "kind": "associates", "direction": "both",
         "data": {"unbiased": False, "pubmed_ids": [12, 13], "score": 0.5}},
        {"source_id": ["Gene", 9], "target_id": ["Disease", "8"], "kind": "associates", "data": {"unbiased": True}},
    ],
}, indent=1)  # fmt: skip
HETNET_NODES = [("Gene::9", 'a "b"', "Gene"), ("Disease::9", "d", "Disease"), ("Disease::8", "e", "Disease")]
SIF = {
    "nodes": ("n.tsv", "id\tname\tkind\nGene::1\t\"x\tGene\nB::2\t'y'\tBiological Process\n"),
    "edges": ("e.sif.gz", gzip.compress(b"source\tmetaedge\ttarget\nGene::1\tGpBP\tB::2\n", mtime=0)),
}
KGX = {
    "nodes": ("n.tsv", 'id\tcategory\tname\tdescription\nA:1\tb:Thing|b:Gene\ta\t"quoted"\nA:2\tb:Gene\n'
              "A:1\tb:X\tagain\n"),
    "edges": ("e.tsv", "negated\tid\tsubject\tpredicate\tobject\n\te1\tA:1\tb:r\tA:2\ntrue\te2\tA:2\tb:r\tA:1\n"
              "\te3\tA:2\tb:r\tA:2\n"),
}  # fmt: skip
EDGE = ("e.tsv", "subject\tpredicate\tobject\nA:1\tr\tA:2\n")
KGX_DOCUMENT = (
    "g.json",
    '{"nodes": [{"id": "A:1"}], "edges": [{"subject": "A:1", "predicate": "r", "object": "A:1"}]}',
)
KGX_LINES_WITH_BOM = {
    "nodes": ("n.jsonl", '\ufeff{"id":"A:1"}\r\n'),
    "edges": ("e.jsonl", '\ufeff{"subject":"A:1","predicate":"r","object":"A:1"}\r\n'),
}
KGX_LINES = {
    "nodes": ("n.jsonl", '{"id":"A:1","category":["x","y"],"taxon":"9606","xref":["B:1","C:2"],"more":{"k":1}}\n\n'
              '{"id":"A:2","name":null,"taxon":null}\n'),
    "edges": ("e.jsonl", '{"subject":"A:1","predicate":"r","object":"A:2","score":1e-3,"negated":"False"}\n'),
}  # fmt: skip
KGW = {
    "nodes": (
        "n.csv",
        '"id","type","properties"\r\n"0","Gene","{""symbol"":""S"",""name"":""n,\\u00e9""}"\r\n',
    ),
    "edges": ("e.csv", '"source_id","target_id","type","properties"\r\n"0","0","r","{}"\r\n'),
}
NEO4J = {
    "nodes": ("n.csv", "key:ID,name,size:int,old:IGNORE,:LABEL\n1,a,2,zzz,Gene;Thing\n2,b,3,,Gene\n"),
    "edges": ("r.csv", ":START_ID,w:float,:END_ID,:TYPE\n1,0.5,2,R\n"),
}
SPACES = {
    "Gene-header.csv": b"i:ID(Gene){label:Gene, id-type:string};name",  # no line end
    "Gene-part000.csv": b"1;'a;b'\n",
    "Gene-part001.csv": b"2;'c'\n",
    "Drug-header.csv": b"i:ID(Drug);name;:LABEL",
    "Drug.csv.gz": gzip.compress(b"1;'d';Drug\n", mtime=0),
    "DrugHitsGene-header.csv": b":START_ID(Drug);:END_ID(Gene)",
    "DrugHitsGene-part000.csv": b"1;1\n1;2\n",
}
APOC = (
    '"_id","_labels","name","title","_start","_end","_type","w"\n"0",":A:B","one\ntwo","","","","",""\n'
    '"1",":A","","t","","","",""\n,,,,"0","1","R","1"\n'
)
APOC_LINES = (
    '{"type":"node","id":"0","labels":["A","B"],"properties":{"name":"Null","title":"t"}}\n'
    '{"type":"relationship","id":"9","label":"R","start":{"id":"0"},"end":{"id":"0"}}\n'
)
CKG = {
    "nodes": ("Disease.tsv", '"ID"\t"name"\t"x"\n"1"\t"a \\"b\\"\tc"\t"y"\n'),
    "edges": ("Disease_has_parent.tsv", '"START_ID"\t"END_ID"\n"1"\t"1"\n'),
}
DRKG = "Gene::1\tbioarx::X:Gene:Gene\tGene::1\nSide Effect::C::2\tA::B C::D:E\tGene::\n"
GRAPHRAG = """<graphml><key id="d0" for="node" attr.name="entity_type"/><key id="d1" for="node" attr.name="description"/>
<key id="d2" for="edge" attr.name="weight"/><key id="d3" for="edge" attr.name="keywords"/><graph edgedefault="undirected">
<node id="&quot;IMATINIB&quot;"><data key="d0">"DRUG"</data><data key="d1">a&lt;SEP&gt;b</data></node>
<node id="&quot;DASWER``"><data key="d0">DRUG</data></node><node id="x"><data key="d0">"UNKNOWN"</data></node>
<edge source="&quot;IMATINIB&quot;" target="x"><data key="d2">2.0</data>%s</edge></graph></graphml>"""
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
LITERALS = """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix x: <http://x.org/> .
x:a rdfs:label "a" ; x:count 12 ; x:definition "eins"@de , "one"@en , "uno"@it ; x:alias "A" , "B" , "A" ; x:r x:b .
x:b rdfs:label "b" ; x:count 13 ; x:obsolete true .
"""
REGIONS = """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix x: <http://x.org/> .
x:a a owl:NamedIndividual, x:T ; rdfs:label "Aal"@de, "eel"@en-GB, "x" ; x:note "n1"@en-GB, "n2", "n3"@fr ; x:r x:b .
x:b a owl:NamedIndividual ; rdfs:label "b" .
"""
OWL_INDIVIDUAL = "http://www.w3.org/2002/07/owl#NamedIndividual"
LITERAL_COLUMNS = {
    "http://x.org/count": ("int64", [12, 13]), "definition": ("large_string", ["one", None]),
    "alias": ("large_string", ["A|B", None]), "obsolete": ("bool", [None, True]),
}  # fmt: skip
LITERAL_NAMES = ["http://x.org/count", "definition", "alias", "obsolete"]
LAST_PARTS = "<http://x/#!/hgnc_id/HGNC:8007> <http://x/r> <http://x/obo#b> .\n"
TRIPLE = "<http://x/a> <http://x/r> <http://x/b> .\n"
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
synonym: "deux \\"2\\"" EXACT layperson []\r
synonym: "zwei" EXACT [A:1]\r
synonym: "number" BROAD []\r
synonym: "a|b" EXACT []\r
synonym: "zwei" EXACT []\r
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

OBSOLETE = "[Term]\nid: A:1\nis_a: A:1\nis_a: A:2 ! gone\n\n[Term]\nid: A:2\nis_obsolete: true\n"

# source: files by setting, further settings, expected facts (see `facts`)
CASES = [
    ("oregano", OREGANO, {}, {
        "nodes": [("COMPOUND:1", "Dornase alfa", "compound"), ("B01", "", "code"), ("PROTEIN:2", "", "protein"),
                  ("EFFECT:1", "bleeding", "effect")],
        "num_edges": 4, "licence": "CC BY 4.0"}),  # types are prefixes; repeated rows stay
    # The type of codes is there without a code, so that it can be left out.
    ("oregano", {"path/OREGANO_V2.1.tsv": "COMPOUND:1\tr\tEFFECT:1\n"}, {}, {"edge_types": ("r", "has_code")}),
    ("primekg", {"path": ("kg.csv", PRIMEKG)}, {}, {
        "nodes": [("0", "NA", "drug"), ("1", 'A, "B"', "gene/protein")], "num_edges": 3,
        "node_properties": {"source_id": ("int64", [7, 7]), "source": ("large_string", ["DrugBank", "NCBI"])}}),  # ids of sources repeat
    ("primekg", {"path": ("kg.csv", PRIMEKG)}, {"mirrored": "drop", "edge_type": "display_relation"},
        {"edges": [("0", "target", "1"), ("0", "enzyme", "1")]}),
    ("hetionet", {"path": ("h.json", HETNET)}, {}, {
        "nodes": HETNET_NODES, "node_properties": {}, "edge_properties": {},  # ids are unique within their kind only
        "edges": [("Gene::9", "associates", "Disease::9"), ("Gene::9", "associates", "Disease::8")]}),
    ("hetionet", {"path": ("h.json.bz2", bz2.compress(HETNET.encode()))},
        {"properties": ["chromosome", "length", "unbiased", "pubmed_ids", "score", "direction", "no such"]}, {
        "nodes": HETNET_NODES,
        "node_properties": {"chromosome": ("int64", [1, None, None]), "length": ("int64", [10, -3, None])},
        "edge_properties": {"unbiased": ("bool", [False, True]), "pubmed_ids": ("large_string", ["12|13", None]),
                            "score": ("double", [0.5, None]), "direction": ("large_string", ["both", None])}}),
    ("hetionet", {**SIF, "metaedges": METAEDGES}, {}, {
        "nodes": [("Gene::1", '"x', "Gene"), ("B::2", "'y'", "Biological Process")],  # there is no quoting
        "edges": [("Gene::1", "participates", "B::2")]}),
    ("hetionet", SIF, {}, {"edge_types": ("GpBP",)}),
    ("kgx", KGX, {"properties": ["description"]}, {
        "nodes": [("A:1", "a", "b:Thing|b:Gene"), ("A:2", "", "b:Gene")],  # rows may lack their last fields
        "edges": [("A:1", "b:r", "A:2"), ("A:2", "b:r", "A:2")],
        "dropped_negated_edges": 1, "dropped_duplicate_nodes": 1,
        "node_properties": {"description": ("large_string", ['"quoted"', None])}}),
    ("kgx", KGX, {"category": "first"}, {"node_types": ("b:Thing", "b:Gene")}),
    ("kgx", KGX, {"category": "last"}, {"node_types": ("b:Gene",)}),
    ("kgx", {"nodes": ("n.tsv", "id\tcategory\tname\nA:1\tc\tone\rline\nA:2\tc\n"), "edges": EDGE}, {},
        {"nodes": [("A:1", "one\rline", "c"), ("A:2", "", "c")]}),  # a lone carriage return is text
    ("kgx", KGX_LINES, {"properties": ["taxon", "xref", "more", "score"]}, {
        "nodes": [("A:1", "", "x|y"), ("A:2", "", "biolink:NamedThing")],
        "node_properties": {"taxon": ("int64", [9606, None]), "xref": ("large_string", ["B:1|C:2", None]),
                            "more": ("large_string", ['{"k": 1}', None])},
        "edge_properties": {"score": ("double", [0.001])}}),
    ("kgx", KGX_LINES_WITH_BOM, {}, {"nodes": [("A:1", "", "biolink:NamedThing")], "num_edges": 1}),
    ("kgx", {"nodes": ("n.tsv", "id\tcategory\tname\nA:1\t\ta\nA:2\n"), "edges": EDGE}, {},
        {"node_types": ("biolink:NamedThing",)}),  # as in JSON
    ("kgx", dict.fromkeys(("nodes", "edges"), KGX_DOCUMENT), {},
        {"edges": [("A:1", "r", "A:1")]}),  # one document holds both
    ("kgx", {"edges": EDGE}, {}, {"nodes": [("A:1", "", "biolink:NamedThing"), ("A:2", "", "biolink:NamedThing")]}),
    ("kgw", KGW, {}, {"nodes": [("0", "n,é", "Gene")]}),
    ("neo4j", NEO4J, {"properties": ["size", "w", "old"]}, {
        "nodes": [("1", "a", "Gene;Thing"), ("2", "b", "Gene")],
        "node_properties": {"size": ("int64", [2, 3])}, "edge_properties": {"w": ("double", [0.5])}}),
    ("neo4j", NEO4J, {"labels": "first"}, {"node_types": ("Gene",)}),
    ("neo4j", NEO4J, {"labels": "last"}, {"node_types": ("Thing", "Gene")}),
    ("neo4j", {f"path/{name}": text for name, text in SPACES.items()}, {}, {
        "nodes": [("Drug/1", "d", "Drug"), ("Gene/1", "a;b", "Gene"), ("Gene/2", "c", "Gene")],
        "edges": [("Drug/1", "DrugHitsGene", "Gene/1"), ("Drug/1", "DrugHitsGene", "Gene/2")]}),  # files share a header
    ("neo4j", {"path": ("all.csv", APOC)}, {},
        {"nodes": [("0", "one\ntwo", ":A:B"), ("1", "t", ":A")], "edges": [("0", "R", "1")]}),
    ("neo4j", {"path": ("all.csv", APOC)}, {"labels": "last"}, {"node_types": ("B", "A")}),
    ("neo4j", {"path": ("g.jsonl", APOC_LINES)}, {},
        {"nodes": [("0", "t", "A:B")], "edges": [("0", "R", "0")]}),  # Null is nothing
    ("neo4j", CKG, {}, {"nodes": [("1", 'a "b"\tc', "Disease")], "edge_types": ("Disease_has_parent",)}),
    ("neo4j", {"nodes": ("n.csv", "i:ID^name^:LABEL\n1^~a^b~^X\n"),
               "edges": ("e.csv", ":START_ID^:END_ID^:TYPE\n1^1^R\n")},
        {"delimiter": "^", "quote": "~"}, {"nodes": [("1", "a^b", "X")]}),
    ("drkg", {"path": ("drkg.tsv", DRKG)}, {}, {
        "nodes": [("Gene::1", "", "Gene"), ("Side Effect::C::2", "", "Side Effect"), ("Gene::", "", "Gene")],
        # types end at the first colons
        "edges": [("Gene::1", "bioarx::X:Gene:Gene", "Gene::1"), ("Side Effect::C::2", "A::B C::D:E", "Gene::")]}),
    ("drkg", {"path": ("drkg.tsv", DRKG)}, {"name_by_id": True}, {"names": ["1", "C::2", ""]}),
    ("nano-graphrag", {"path": ("g.graphml", GRAPHRAG % "")}, {}, {
        "nodes": [('"IMATINIB"', "IMATINIB", "DRUG"), ('"DASWER``', "DASWER", "DRUG"), ("x", "x", "UNKNOWN")],
        "node_types": ("DRUG", "UNKNOWN"), "edge_types": ("",), "edge_properties": {"weight": ("double", [2.0])},
        "node_properties": {"description": ("large_string", ["a<SEP>b", None, None])}}),
    ("nano-graphrag", {"path": ("g.graphml", (GRAPHRAG % "").replace("DASWER``", "5'-3'&quot;"))}, {},
        {"names": ["IMATINIB", "5'-3'", "x"]}),
    ("nano-graphrag", {"path": ("g.graphml", GRAPHRAG % '<data key="d3">inhibits</data>')}, {},
        {"edge_types": ("inhibits",)}),
    ("nano-graphrag", {"path": ("g.graphml", GRAPHRAG % "")}, {"edge_type": "related_to"}, {"edge_types": ("related_to",)}),
    ("obo", {"path": ("o.obo", OBO)}, {}, {
        "nodes": [("A:1", 'a, "b" ! c', "made"), ("A:2", "two", "own")],
        "edges": [("A:1", "is_a", "A:2"), ("A:1", "part_of", "A:2"), ("A:1", "part_of", "A:2")],
        "obsolete_terms": 1, "imports_not_read": "other.obo",
        "node_properties": {"synonyms": ("large_string", [None, 'deux "2"|zwei'])}}),  # exact synonyms alone
    ("obo", {"path": ("o.obo", OBSOLETE)}, {}, {"edges": [("A:1", "is_a", "A:1")], "dropped_edges_with_unknown_nodes": 1}),
    ("obo", {"path": ("o.obo", OBSOLETE)}, {"obsolete": "keep"}, {"num_edges": 2}),
    ("rdf", {"path": ("o.ttl", TURTLE)}, {"curies": True}, {
        "ids": ["HP:1", "HP:2", "HP:3"], "names": ["fever", "untagged", "a"], "dropped_deprecated_terms": 1,
        "edges": [("HP:1", "rdfs:subClassOf", "HP:2"), ("HP:1", "BFO:50", "HP:3"), ("HP:1", "x:p", "HP:3")]}),
    ("rdf", {"path": ("o.ttl", TURTLE)}, {"language": "de"}, {"names": ["Fieber", "anders", "a"]}),
    ("rdf", {"path": ("t.nt", LAST_PARTS)}, {}, {"names": ["", ""]}),
    ("rdf", {"path": ("t.nt", LAST_PARTS)}, {"name_by_id": True}, {"names": ["HGNC:8007", "b"]}),
    ("rdf", {"path": ("t.nt", TRIPLE * 3)}, {}, {"names": ["", ""], "num_edges": 1, "dropped_repeated_triples": 2}),
    *(("rdf", {"path": ("r.ttl", REGIONS)}, {"language": language, "properties": ["note"]}, {
        "names": [name, "b"], "node_types": ("http://x.org/T", OWL_INDIVIDUAL),
        "node_properties": {"note": ("large_string", [note, None])}})
      for language, name, note in [("en", "eel", "n1|n2"), ("en-GB", "eel", "n1|n2"), ("de", "Aal", "n2"), ("pt", "x", "n2")]),
    *(("rdf", {"path": ("g.ttl", LITERALS)}, {"reading": reading, "properties": LITERAL_NAMES},
        {"node_properties": LITERAL_COLUMNS}) for reading in ("entities", "plain")),
]  # fmt: skip


@pytest.fixture
def read(load, write, tmp_path):
    """The graph of a source's files after a way through kg.h5; `path/NAME` is a file in the folder `path`."""

    def graph_of(source, files, settings):
        paths = {}
        for key, content in files.items():
            setting, _, name = key.partition("/")
            path = write(name, content) if name else write(*content)
            paths[setting] = path.parent if name else path
        write_graph(tmp_path / "kg.h5", load(source, **paths, **settings))
        return read_graph(tmp_path / "kg.h5")

    return graph_of


@pytest.mark.parametrize(
    ("source", "files", "settings", "expected"), CASES, ids=lambda value: str(value)[:40]
)
def test_a_format_is_read_as_its_tools_write_it(read, nodes_of, edges_of, source, files, settings, expected):
    graph = read(source, files, settings)
    facts = {
        "nodes": nodes_of(graph), "edges": edges_of(graph), "num_edges": graph.num_edges,
        "ids": graph.node_ids.tolist(), "names": graph.names.tolist(),
        "node_types": graph.node_types, "edge_types": graph.edge_types, **graph.attributes,
        "node_properties": {n: (str(c.type), c.to_pylist()) for n, c in graph.node_properties.items()},
        "edge_properties": {n: (str(c.type), c.to_pylist()) for n, c in graph.edge_properties.items()},
    }  # fmt: skip
    for key in ("nodes", "edges") if source == "neo4j" else ():  # a folder's files come by their names
        facts[key] = sorted(facts[key])
    assert {key: facts[key] for key in expected} == expected


def test_oregano_leaves_codes_out_of_the_reduced_graph_without_being_told():
    assert graph_config({"source": "oregano", "path": "x"}).exclude_edge_types == ["has_code"]


@pytest.mark.parametrize(
    "setting", [{"delimiter": "é"}, {"quote": "é"}, {"delimiter": "\n"}, {"quote": "ab"}]
)
def test_neo4j_delimiter_and_quote_are_one_sign_that_can_separate(setting):
    with pytest.raises(ConfigError, match="is one ASCII character"):
        graph_config({"source": "neo4j", "path": "x", **setting})


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pronto")
def test_obo_agrees_with_pronto_on_a_whole_file(load, nodes_of, edges_of, write):
    pronto = pytest.importorskip("pronto")
    whole = OBO.replace("import: other.obo\r\n", "").replace("A:9", "A:2")  # it wants every term to be there
    whole = "".join(line for line in whole.splitlines(keepends=True) if not line.startswith("synonym"))
    path = write("o.obo", whole.replace("\ufeff", "").replace("\r", ""))
    terms = [term for term in pronto.Ontology(str(path)).terms() if not term.obsolete]
    graph = load("obo", path=path)
    assert sorted((term.id, term.name.strip()) for term in terms) == [node[:2] for node in nodes_of(graph)]
    parents = {(t.id, p.id) for t in terms for p in t.superclasses(distance=1, with_self=False)}
    assert parents == {(s, o) for s, kind, o in edges_of(graph) if kind == "is_a"}


def test_rdf_read_twice_gives_the_same_although_blank_nodes_have_no_names(read, nodes_of, edges_of):
    first, second = (read("rdf", {"path": ("o.ttl", TURTLE)}, {"reading": "plain"}) for _ in range(2))
    assert (nodes_of(first), edges_of(first)) == (nodes_of(second), edges_of(second))
    assert "_:b0" in first.node_ids


def test_a_property_that_nothing_has_is_noted(read, capsys):
    read("hetionet", {"path": ("h.json", HETNET)}, {"properties": ["length", "lenght"]})
    assert capsys.readouterr().err == "note: graph.properties: no node or edge has 'lenght'\n"
