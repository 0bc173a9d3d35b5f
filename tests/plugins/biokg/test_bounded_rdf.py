"""Graph files that would grow without a bound in memory are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.load import load_graph
from kgqa_hpc.kg.settings import graph_config
from kgqa_hpc.plugins.biokg.sources import rdf
from kgqa_hpc.text.limits import XML_ENTITY_BYTES

ROOT = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
    ' xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">'
)


def graph(**settings: str) -> KnowledgeGraph:
    return load_graph(graph_config(settings))


def read(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return list(graph(source="rdf", path=str(path)).names)


def labelled(label: str, doctype: str = "") -> str:
    node = f'<rdf:Description rdf:about="urn:a"><rdfs:label>{label}</rdfs:label></rdf:Description>'
    edge = '<rdf:Description rdf:about="urn:a"><rdfs:seeAlso rdf:resource="urn:b"/></rdf:Description>'
    return f"<?xml version='1.0'?>{doctype}{ROOT}{node}{edge}</rdf:RDF>"


def doctype(*entities: str) -> str:
    return f"<!DOCTYPE rdf:RDF [{chr(10).join(entities)}]>"


def test_nested_entities_are_refused_and_never_expanded(tmp_path: Path) -> None:
    chain = [f'<!ENTITY a{k + 1} "{f"&a{k};" * 10}">' for k in range(12)]
    with pytest.raises(GraphFormatError, match="an entity that holds others"):
        read(tmp_path / "laughs.owl", labelled("&a12;", doctype('<!ENTITY a0 "ha">', *chain)))


@pytest.mark.parametrize(
    "entity",
    ['<!ENTITY a "x>&b;">', "<!ENTITY a '&#38;b;'>", '<!ENTITY % a "b">', '<!ENTITY a SYSTEM "file:///etc/passwd">',
     f'<!ENTITY a "{"x" * XML_ENTITY_BYTES.default}">'],
)  # fmt: skip
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_no_form_of_an_entity_gets_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entity: str, piece: int
) -> None:
    stream = rdf.TextStream.read
    monkeypatch.setattr(rdf.TextStream, "read", lambda self, size=-1: stream(self, min(size, piece)))
    with pytest.raises(GraphFormatError, match="an entity"):
        read(tmp_path / "a.owl", labelled("&a;", doctype('<!ENTITY b "b">', entity)))


def test_short_entities_of_an_ontology_are_expanded(tmp_path: Path) -> None:
    owl = doctype('<!ENTITY owl "http://www.w3.org/2002/07/owl#" >', '<!ENTITY n "name">')
    assert "My name" in read(tmp_path / "a.owl", labelled("My &n;", owl))


def test_a_text_beyond_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGQA_MAX_XML_TEXT_BYTES", "1000000")
    with pytest.raises(GraphFormatError, match=r"a text or tag of more than 1,000,000 bytes"):
        read(tmp_path / "a.rdf", labelled("x" * (3 << 20)))


def test_a_literal_beyond_the_parsers_bound_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(GraphFormatError, match="a literal or name of more than 16 MiB"):
        read(
            tmp_path / "a.nt",
            f'<urn:a> <http://www.w3.org/2000/01/rdf-schema#label> "{"x" * (17 << 20)}" .\n',
        )


def test_a_neo4j_header_with_a_huge_field_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f":ID,{'x' * 200_000},:LABEL\n1,a,b\n")
    with pytest.raises(GraphFormatError, match="no header of a Neo4j export"):
        graph(source="neo4j", path=str(path))


def test_a_header_of_too_many_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("id,name,type," + ",".join(f"c{k}" for k in range(20_000)) + "\n")
    (tmp_path / "edges.csv").write_text("source_id,target_id,type\n")
    with pytest.raises(GraphFormatError, match="10,000 are allowed"):
        graph(source="csv", nodes=str(path), edges=str(tmp_path / "edges.csv"))
