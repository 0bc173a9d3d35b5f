"""MEDLINE: the records of PubMed's baseline and update files (`.xml`, `.xml.gz`).

A file is a stream of changes: records, and at its end the PMIDs that are withdrawn. Of a record are kept the
PMID with its version, title, abstract (each labelled part a line of its own), the abstracts beside it, and
whether the publication was retracted. Inline markup goes, its text stays: `CO<sub>2</sub>` is `CO2`, and
`P&lt;0.001` is `P<0.001`. NLM, "MEDLINE/PubMed XML Data Elements".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.document import Change, Deletion, Document, OtherAbstract
from kgqa_hpc.plugins.literature.documents.xml import flat

TAGS = ("PubmedArticle", "PubmedBookArticle", "DeleteCitation")
# The label that NLM gives to a part to which the authors gave none.
_NO_LABEL = {"", "UNASSIGNED", "UNLABELLED"}


def element_changes(path: Path, element: Any) -> Iterator[Change]:
    """What one element of TAGS says: one document, or the deletions."""
    if element.tag == "DeleteCitation":
        for pmid in element.iterfind("PMID"):
            yield Deletion(*_pmid(path, pmid))
        return
    citation = element.find("MedlineCitation")
    yield _book(path, element) if citation is None else _article(path, citation)


def element_versions(path: Path, element: Any) -> Iterator[tuple[str, int, bool]]:
    """(PMID, version, is a deletion) of each change of the element, without its texts."""
    if element.tag == "DeleteCitation":
        for pmid in element.iterfind("PMID"):
            yield *_pmid(path, pmid), True
        return
    book = element.find("MedlineCitation") is None
    yield *_pmid(path, element.find("BookDocument/PMID" if book else "MedlineCitation/PMID")), False


def _article(path: Path, citation: Any) -> Document:
    article = citation.find("Article")
    if article is None:
        raise DocumentFormatError(f"{path} line {citation.sourceline:,}: a record without Article")
    pmid, version = _pmid(path, citation.find("PMID"))
    title = _text(article.find("ArticleTitle")) or _text(article.find("VernacularTitle"))
    kinds = article.iterfind("PublicationTypeList/PublicationType")
    notes = citation.iterfind("CommentsCorrectionsList/CommentsCorrections")
    retracted = any(kind.text == "Retracted Publication" for kind in kinds)
    retracted = retracted or any(note.get("RefType") == "RetractionIn" for note in notes)
    beside = tuple(
        OtherAbstract(element.get("Type", ""), element.get("Language", "eng"), text)
        for element in citation.iterfind("OtherAbstract")
        if (text := _abstract(element))
    )
    return Document(pmid, title, _abstract(article.find("Abstract")), version, retracted, beside)


def _book(path: Path, element: Any) -> Document:
    book = element.find("BookDocument")
    if book is None:
        raise DocumentFormatError(f"{path} line {element.sourceline:,}: a record without MedlineCitation")
    pmid, version = _pmid(path, book.find("PMID"))
    title = _text(book.find("ArticleTitle")) or _text(book.find("Book/BookTitle"))
    return Document(pmid, title, _abstract(book.find("Abstract")), version)


def _pmid(path: Path, pmid: Any) -> tuple[str, int]:
    text = "" if pmid is None else (pmid.text or "").strip()
    version = "1" if pmid is None else pmid.get("Version", "1")
    if not (text.isascii() and text.isdigit() and version.isascii() and version.isdigit()):
        line = "" if pmid is None else f" line {pmid.sourceline:,}"
        raise DocumentFormatError(f"{path}{line}: a record whose PMID is not a number")
    return text, int(version[:9])


def _text(element: Any) -> str:
    return "" if element is None else flat(element)


def _abstract(element: Any) -> str:
    if element is None:
        return ""
    lines = []
    for part in element.iterfind("AbstractText"):
        text, label = flat(part), part.get("Label", "").strip()
        if label.upper() in _NO_LABEL:
            lines.append(text)
        else:  # some say all in the label: Label="LEVEL OF EVIDENCE: 4", and no text
            lines.append(f"{label}: {text}" if text else label)
    return "\n".join(line for line in lines if line)
