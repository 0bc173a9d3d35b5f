"""MEDLINE records: every text is there, and nothing else."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.document import Deletion, Document
from kgqa_hpc.plugins.literature.documents.read import ReadCounts, changes, read_documents
from tests.plugins.literature.documents.files import deletion, medline, record

# Counted by looking for the elements in the files themselves (xml.etree, whole files).
WHEEL_COUNTS = {"pubmed20n0014.xml.gz": (30000, 30000, 15168), "pubmed21n1298.xml.gz": (20788, 20783, 2343)}


def _only(path: Path) -> Document:
    (document,) = read_documents([path])
    return document


def test_inline_markup_goes_and_its_text_stays(tmp_path: Path) -> None:
    path = medline(
        tmp_path / "a.xml",
        record(1, "CO<sub>2</sub> in <i>E. coli</i>", "Ca<sup>2+</sup>, <b>P&lt;0.001</b>; x > y."),
    )
    assert _only(path).title == "CO2 in E. coli"
    assert _only(path).text == "Ca2+, P<0.001; x > y."


def test_parts_of_a_structured_abstract_are_lines_with_their_labels(tmp_path: Path) -> None:
    inside = (
        '<AbstractText Label="AIM">One.</AbstractText><AbstractText Label="UNASSIGNED">Two.</AbstractText>'
        '<AbstractText Label="LEVEL OF EVIDENCE: 4"/><AbstractText>Four.</AbstractText>'
    )
    assert (
        _only(medline(tmp_path / "a.xml.gz", record(1, abstract=inside))).text
        == "AIM: One.\nTwo.\nLEVEL OF EVIDENCE: 4\nFour."
    )


def test_other_abstracts_stand_beside_the_main_one(tmp_path: Path) -> None:
    other = '<OtherAbstract Type="Publisher" Language="spa"><AbstractText>Uno.</AbstractText></OtherAbstract>'
    document = _only(medline(tmp_path / "a.xml", record(1, abstract="One.", more=other)))
    assert document.text == "One."
    assert [(o.kind, o.language, o.text) for o in document.others] == [("Publisher", "spa", "Uno.")]


def test_an_english_abstract_beside_is_searched_where_there_is_no_main_one(tmp_path: Path) -> None:
    other = '<OtherAbstract Type="PIP" Language="eng"><AbstractText>Parity.</AbstractText></OtherAbstract>'
    assert _only(medline(tmp_path / "a.xml", record(1, "Title.", more=other))).searchable == "Title.\nParity."


def test_retractions_are_flagged(tmp_path: Path) -> None:
    note = '<CommentsCorrectionsList><CommentsCorrections RefType="{}"/></CommentsCorrectionsList>'
    path = medline(
        tmp_path / "a.xml",
        record(1, more=note.format("RetractionIn")),
        record(2, more=note.format("RetractionOf")),
    )
    assert [document.retracted for document in read_documents([path])] == [True, False]


def test_the_changes_of_a_file_come_in_its_order(tmp_path: Path) -> None:
    path = medline(tmp_path / "a.xml", record(7), deletion(7, 9))
    assert [type(change) for change in changes(path)] == [Document, Deletion, Deletion]


def test_a_pmid_that_is_not_a_number_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<PubmedArticleSet>\n" + record(1).replace(">1<", ">one<") + "</PubmedArticleSet>")
    with pytest.raises(DocumentFormatError, match=r"a\.xml line 2: a record whose PMID is not a number"):
        list(read_documents([path]))


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co")), max_size=60))
def test_any_text_survives(text: str) -> None:
    import tempfile
    from xml.sax.saxutils import escape

    with tempfile.TemporaryDirectory() as folder:
        path = medline(Path(folder) / "a.xml", record(1, "t", f"<AbstractText>{escape(text)}</AbstractText>"))
        assert _only(path).text == re.sub(r"[ \t\r\n]+", " ", text).strip()


def test_the_sample_has_the_counts_that_were_counted_by_hand(sample: Path) -> None:
    counts = ReadCounts()
    documents = list(read_documents([sample], counts))
    assert (counts.records, counts.documents, counts.replaced, counts.retracted) == (416, 411, 5, 4)
    assert {d.id: d.version for d in documents if d.version > 1} == {
        "30271887": 4,
        "33728380": 2,
        "34017925": 2,
    }
    assert sum(isinstance(change, Deletion) for change in changes(sample)) == 20
    assert sum(len(document.others) for document in documents) == 10
    assert "(P<.01)" in "".join(document.text for document in documents)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHEEL_COUNTS)
def test_each_of_50788_real_records_has_the_text_that_a_plain_parse_finds(wheel: Path, name: str) -> None:
    records, standing, without = WHEEL_COUNTS[name]
    documents = [change for change in changes(wheel / "data" / name) if isinstance(change, Document)]
    ours = {(document.id, document.version): document for document in documents}
    assert len(documents) == len(ours) == records
    assert len({document.id for document in documents}) == standing
    assert sum(not document.text for document in documents) == without
    with gzip.open(wheel / "data" / name) as file:
        for _, element in ET.iterparse(file):
            if element.tag == "MedlineCitation":
                pmid = element.find("PMID")
                assert pmid is not None
                document = ours[str(pmid.text), int(pmid.get("Version", "1"))]
                assert _words(document.title) == _plain(
                    element, "Article/ArticleTitle", "Article/VernacularTitle"
                )
                assert _words(document.text) == _labelled_parts(element)
            if element.tag == "PubmedArticle":
                element.clear()


def _words(text: str) -> str:
    return re.sub(r"\s", "", text)


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


ORACLE = """
import sys, types, json
sys.path.insert(0, sys.argv[1])
sys.modules["requests"] = types.ModuleType("requests")
sys.modules["unidecode"] = types.SimpleNamespace(unidecode=lambda text: text)
import pubmed_parser
found = pubmed_parser.parse_medline_xml(sys.argv[2])
print(json.dumps([(r["pmid"], r["title"], r["abstract"], r["delete"]) for r in found]))
"""


def test_pubmed_parser_finds_the_same_texts_but_for_deletions_and_three_abstracts_it_shortens(
    sample: Path, wheel: Path
) -> None:
    import json

    out = subprocess.run(
        [sys.executable, "-c", ORACLE, str(wheel), str(sample)], capture_output=True, text=True, check=True
    )
    theirs = {pmid: (title, abstract) for pmid, title, abstract, _ in json.loads(out.stdout)}
    assert not any(deleted for *_, deleted in json.loads(out.stdout))  # there are 20, counted above
    ours = {d.id: d for d in read_documents([sample])}
    assert theirs.keys() == ours.keys()
    letters = re.compile(r"[\W_]")
    titles = {p for p, (title, _) in theirs.items() if _words(title) != _words(ours[p].title)}
    shorter = {
        p
        for p, (_, text) in theirs.items()
        if len(letters.sub("", text)) < len(letters.sub("", ours[p].text))
    }
    assert not titles
    assert len(shorter) == 3
    for pmid in theirs.keys() - shorter:
        assert letters.sub("", theirs[pmid][1]).endswith(letters.sub("", ours[pmid].text)[-60:]), pmid
