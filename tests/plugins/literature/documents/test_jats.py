"""Full text: a document for the abstract and for each section."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.jats import CHUNK_CHARACTERS
from kgqa_hpc.plugins.literature.documents.read import read_documents

ARTICLE = """<article{space} article-type="research-article"><front><article-meta>
<article-id pub-id-type="pmid">9</article-id><article-id pub-id-type="pmc">77</article-id>
<title-group><article-title>On <italic>TP53</italic></article-title></title-group>
<abstract><p>In short.</p></abstract></article-meta></front>
<body><p>Before.</p><sec><title>Results</title><p>P&lt;0.001 <xref>[1]</xref>.</p>
<table-wrap><label>Table 1</label><caption><p>Doses.</p></caption>
<table><tr><td>12345</td></tr></table></table-wrap>
<sec><title>Growth</title><p>{long}</p><p>After.</p></sec></sec></body>
<back><ref-list><ref><mixed-citation>Somebody</mixed-citation></ref></ref-list></back></article>"""


@pytest.mark.parametrize("space", ["", ' xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/"'])
def test_an_article_becomes_its_abstract_and_sections(tmp_path: Path, space: str) -> None:
    path = tmp_path / "a.nxml"
    path.write_text(ARTICLE.format(space=space, long="Grew."))
    documents = list(read_documents([path]))
    assert [document.id for document in documents] == ["PMC77#0", "PMC77#1", "PMC77#2", "PMC77#3"]
    assert {document.title for document in documents} == {"On TP53"}
    assert [document.text for document in documents] == [
        "In short.",
        "Before.",
        "Results\nP<0.001 [1].\nDoses.",
        "Results > Growth\nGrew.\nAfter.",
    ]


def test_a_long_section_is_cut_between_paragraphs_and_keeps_its_heading(tmp_path: Path) -> None:
    path = tmp_path / "a.nxml"
    path.write_text(ARTICLE.format(space="", long="word " * CHUNK_CHARACTERS))
    assert [d.text[:24] for d in read_documents([path])][-2:] == [
        "Results > Growth\nword wo",
        "Results > Growth\nAfter.",
    ]


def test_an_article_without_an_id_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<article><front><article-meta/></front></article>")
    with pytest.raises(DocumentFormatError, match="without an article-id"):
        list(read_documents([path]))


def test_real_articles_are_read_whole(wheel: Path) -> None:
    documents = list(read_documents([wheel / "data" / "pone.0046493.nxml"]))
    assert len(documents) == 20
    assert documents[0].id == "PMC3460867#0"
    assert all(document.text for document in documents)
