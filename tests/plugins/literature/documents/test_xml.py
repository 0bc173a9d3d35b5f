"""XML from strangers: nothing is fetched, nothing explodes, and what is broken is said with file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.read import read_documents
from tests.plugins.literature.documents.files import medline, record

LAUGHS = (
    '<!DOCTYPE PubmedArticleSet [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
    + "]>"
)


def test_a_chain_of_nested_entities_is_refused_and_never_expanded(tmp_path: Path) -> None:
    path = medline(tmp_path / "bomb.xml", record(1, "&a12;"), prolog=LAUGHS)
    with pytest.raises(DocumentFormatError, match=r"entit(y|ies)"):
        list(read_documents([path]))


def test_an_external_entity_is_refused_and_never_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("TOP SECRET")
    prolog = f'<!DOCTYPE PubmedArticleSet [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'
    with pytest.raises(DocumentFormatError) as problem:
        list(read_documents([medline(tmp_path / "a.xml", record(1, "&x;"), prolog=prolog)]))
    assert "SECRET" not in str(problem.value)


def test_a_dtd_that_cannot_be_reached_is_not_needed(tmp_path: Path) -> None:
    prolog = '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD" "https://nowhere.invalid/pubmed.dtd">'
    path = medline(tmp_path / "a.xml", record(1, "Of TGF-&beta; <i>here</i>"), prolog=prolog)
    assert [document.title for document in read_documents([path])] == ["Of TGF-β here"]


def test_a_comment_is_not_text(tmp_path: Path) -> None:
    path = medline(tmp_path / "a.xml", record(1, "One<!-- two --> three", "a<?x y?>b <![CDATA[<i>]]>"))
    assert [(d.title, d.text) for d in read_documents([path])] == [("One three", "ab <i>")]


def test_a_file_cut_in_the_middle_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<PubmedArticleSet>\n" + record(1) + "\n<PubmedArticle><Medl")
    with pytest.raises(DocumentFormatError, match=r"a\.xml line 3: not well-formed XML"):
        list(read_documents([path]))


def test_a_gzip_file_cut_in_the_middle_is_refused(tmp_path: Path) -> None:
    whole = medline(
        tmp_path / "a.xml.gz", *(record(i, abstract=str(i) * 99) for i in range(500))
    ).read_bytes()
    (tmp_path / "cut.xml.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DocumentFormatError, match=r"cut\.xml\.gz"):
        list(read_documents([tmp_path / "cut.xml.gz"]))


def test_bytes_that_are_no_document_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x00\x01hello")
    with pytest.raises(DocumentFormatError, match="neither XML nor JSON Lines nor Parquet"):
        list(read_documents([tmp_path / "a.bin"]))


def test_xml_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(b"<html><p>hello</p></html>"))
    with pytest.raises(DocumentFormatError, match="no MEDLINE record and no JATS article"):
        list(read_documents([tmp_path / "a.xml.gz"]))
