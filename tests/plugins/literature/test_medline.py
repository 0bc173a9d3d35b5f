"""MEDLINE records and full text (JATS): every text is there, and nothing else."""

import gzip
import re
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.plugins.literature.document import Document
from kgqa_hpc.plugins.literature.read import changes, read_documents
from kgqa_hpc.plugins.literature.xml import CHUNK_CHARACTERS
from tests.plugins.literature.builders import deletion, medline, record


def _only(path: Path) -> Document:
    (document,) = read_documents([path])
    return document


LABELLED = (
    '<AbstractText Label="AIM">One.</AbstractText><AbstractText Label="UNASSIGNED">Two.</AbstractText>'
    '<AbstractText Label="LEVEL OF EVIDENCE: 4"/><AbstractText>Four.</AbstractText>'
)
VERNACULAR = "</ArticleTitle><VernacularTitle>Titre</VernacularTitle><ArticleTitle>"


@pytest.mark.parametrize(
    ("written", "title", "text"),
    [
        # Inline markup goes and its text stays.
        (
            record(1, "CO<sub>2</sub> in <i>E. coli</i>", "Ca<sup>2+</sup>, <b>P&lt;0.001</b>; x > y."),
            "CO2 in E. coli",
            "Ca2+, P<0.001; x > y.",
        ),
        # Parts of a structured abstract are lines with their labels.
        (record(1, "T", LABELLED), "T", "AIM: One.\nTwo.\nLEVEL OF EVIDENCE: 4\nFour."),
        # PubMed's words for a title that nobody translated are none.
        (record(1, "[Not Available]." + VERNACULAR), "Titre", ""),
        (record(1, "[Nothing]." + VERNACULAR), "[Nothing].", ""),
    ],
)
def test_a_record_becomes_plain_title_and_text(tmp_path: Path, written: str, title: str, text: str) -> None:
    document = _only(medline(tmp_path / "a.xml.gz", written))
    assert (document.title, document.text) == (title, text)


def test_other_abstracts_stand_beside_the_main_one_and_english_ones_replace_it(tmp_path: Path) -> None:
    other = '<OtherAbstract Type="{}" Language="{}"><AbstractText>Uno.</AbstractText></OtherAbstract>'
    path = medline(tmp_path / "a.xml", record(1, abstract="One.", more=other.format("Publisher", "spa")))
    document = _only(path)
    assert document.text == "One."
    assert [(o.kind, o.language, o.text) for o in document.others] == [("Publisher", "spa", "Uno.")]
    path = medline(tmp_path / "a.xml", record(1, "Title.", more=other.format("PIP", "eng")))
    assert _only(path).searchable == "Title.\nUno."


def test_retractions_are_flagged(tmp_path: Path) -> None:
    note = '<CommentsCorrectionsList><CommentsCorrections RefType="{}"/></CommentsCorrectionsList>'
    kinds = enumerate(("RetractionIn", "RetractionOf"), 1)
    path = medline(tmp_path / "a.xml", *(record(n, more=note.format(kind)) for n, kind in kinds))
    assert [document.retracted for document in read_documents([path])] == [True, False]


def test_the_changes_of_a_file_come_in_its_order(tmp_path: Path) -> None:
    path = medline(tmp_path / "a.xml", record(7), deletion(7, 9))
    assert [make is None for _, _, make in changes(path)] == [False, True, True]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co")), max_size=60))
def test_any_text_survives(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = medline(Path(folder) / "a.xml", record(1, "t", f"<AbstractText>{escape(text)}</AbstractText>"))
        assert _only(path).text == re.sub(r"[ \t\r\n]+", " ", text).strip()


def test_the_sample_has_the_counts_that_were_counted_by_hand(sample: Path) -> None:
    documents = list(read_documents([sample]))
    assert sum(make is not None for _, _, make in changes(sample)) == 416
    assert (len(documents), sum(document.retracted for document in documents)) == (411, 4)
    versions = {document.id: document.version for document in documents if document.version > 1}
    assert versions == {"30271887": 4, "33728380": 2, "34017925": 2}
    assert sum(make is None for _, _, make in changes(sample)) == 20
    assert sum(len(document.others) for document in documents) == 10
    assert "(P<.01)" in "".join(document.text for document in documents)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pubmed20n0014.xml.gz", "pubmed21n1298.xml.gz"])
def test_every_20th_of_50788_real_records_has_the_text_that_a_plain_parse_finds(
    wheel: Path, tmp_path: Path, name: str
) -> None:
    xml = gzip.decompress((wheel / "data" / name).read_bytes())
    some = re.findall(rb"<PubmedArticle>.*?</PubmedArticle>", xml, re.DOTALL)[::20]
    (tmp_path / "a.xml").write_bytes(b"<PubmedArticleSet>%s</PubmedArticleSet>" % b"".join(some))
    documents = [make() for _, _, make in changes(tmp_path / "a.xml") if make is not None]
    assert len(documents) == len(some) > 1_000
    for written, document in zip(some, documents, strict=True):
        # Without what follows the article: three quarters of a file are lists of references and subjects.
        begin = written[: written.index(b"</Article>")]
        element = ET.fromstring(begin + b"</Article></MedlineCitation></PubmedArticle>")[0]
        pmid = element.find("PMID")
        assert pmid is not None
        assert (document.id, document.version) == (pmid.text, int(pmid.get("Version", "1")))
        assert _words(document.title) == _plain(element, "Article/ArticleTitle", "Article/VernacularTitle")
        assert _words(document.text) == _labelled_parts(element)


def _words(text: str) -> str:
    return "".join(text.split())


def _labelled_parts(element: ET.Element) -> str:
    text = ""
    for part in element.iterfind("Article/Abstract/AbstractText"):
        label = part.get("Label", "")
        inside = _words("".join(part.itertext()))
        label = "" if label in ("UNASSIGNED", "UNLABELLED") else label
        text += _words(label) + (":" if label and inside else "") + inside
    return text


def _plain(element: ET.Element, *paths: str) -> str:
    for path in paths:
        if text := _words("".join("".join(found.itertext()) for found in element.iterfind(path))):
            return text
    return ""


ARTICLE = """<article{space} article-type="research-article"><front><article-meta>
<article-id pub-id-type="pmid">9</article-id><article-id pub-id-type="pmc">77</article-id>
<title-group><article-title>On <italic>TP53</italic></article-title></title-group>
<abstract><p>In short.</p></abstract></article-meta></front>
<body><p>Before.</p><sec><title>Results</title><p>P&lt;0.001 <xref>[1]</xref>.</p>
<table-wrap><label>Table 1</label><caption><p>Doses.</p></caption>
<table><tr><td>12345</td></tr></table></table-wrap>
<sec><title>Growth</title><p>{long}</p><p>After.</p></sec></sec></body>
<back><ref-list><ref><mixed-citation>Somebody</mixed-citation></ref></ref-list></back></article>"""
PARTS = ["In short.", "Before.", "Results\nP<0.001 [1].\nDoses."]
LONG = ("word " * CHUNK_CHARACTERS).strip()


@pytest.mark.parametrize(
    ("space", "long", "growth"),
    [
        ("", "Grew.", ["Results > Growth\nGrew.\nAfter."]),
        (' xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/"', "Grew.", ["Results > Growth\nGrew.\nAfter."]),
        # A long section is cut between paragraphs and keeps its heading.
        ("", LONG, [f"Results > Growth\n{LONG}", "Results > Growth\nAfter."]),
    ],
    ids=["plain", "a namespace", "a long section"],
)
def test_an_article_becomes_its_sections(tmp_path: Path, space: str, long: str, growth: list[str]) -> None:
    path = tmp_path / "a.nxml"
    path.write_text(ARTICLE.format(space=space, long=long))
    rows = [(document.id, document.title, document.text) for document in read_documents([path])]
    assert rows == [(f"PMC77#{n}", "On TP53", text) for n, text in enumerate([*PARTS, *growth])]


def test_real_articles_are_read_whole(wheel: Path) -> None:
    documents = list(read_documents([wheel / "data" / "pone.0046493.nxml"]))
    assert len(documents) == 20
    assert documents[0].id == "PMC3460867#0"
    assert all(document.text for document in documents)
