"""Readers of XML documents: MEDLINE (PubMed's baseline and update files) and JATS (full text, PMC articles).

Records are streamed. No DTD is loaded, no network is used, and a file that declares entities of its own is refused,
so that neither an external entity nor a chain of nested ones ("billion laughs") is followed. libxml2's own limits (10
MB a text, depth 256) stay in force. The content of a record, and between records, is bounded, because libxml2 keeps
it until the record ends.

A MEDLINE file is a stream of changes: records, and at its end the PMIDs that are withdrawn. A record gives PMID,
version, title, abstract (each labelled part on a line of its own), the other abstracts, and whether the publication
was retracted. Inline markup is removed, its text stays: `CO<sub>2</sub>` is `CO2`, and `P&lt;0.001` is `P<0.001`.
NLM, "MEDLINE/PubMed XML Data Elements".

A JATS article gives one document for the abstract and one for the paragraphs of each section of the body; subsections
are documents of their own, and a long section is cut between paragraphs. The id is the article's id, `#`, and the
number of the chunk; the title is the article's; the text begins with the headings that lead to the section. Captions
are kept; tables, formulas' sources and references are not. JATS 1.3, https://jats.nlm.nih.gov; namespaced files
(PMC's OAI service) are read alike.
"""

import html
import io
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.document import Change, Document, OtherAbstract
from kgqa_hpc.text.plain_text import printable
from kgqa_hpc.text.streams import XML_RECORD_BYTES, XML_TAGS, TextStream

_MEDLINE = ("PubmedArticle", "PubmedBookArticle", "DeleteCitation")
_JATS = ("article", "{*}article")
_SAFE: Any = {
    **dict.fromkeys(("resolve_entities", "load_dtd", "huge_tree"), False),
    **dict.fromkeys(("no_network", "remove_comments", "remove_pis"), True),
}
# Labels that NLM gives to parts of an abstract for which the authors gave no label.
_NO_LABEL = {"", "UNASSIGNED", "UNLABELLED"}
# A chunk is closed when it has reached so many characters: about 500 words, twice a long abstract.
CHUNK_CHARACTERS = 4000
_ID_KINDS = ("pmcid", "pmc", "pmcaid", "pmid", "doi", "publisher-id")
_LEFT_OUT = ("table", "tex-math", "alternatives", "ref-list", "object-id", "label", "graphic")
_TEXT_BLOCKS = frozenset(
    ("p", "list", "disp-quote", "boxed-text", "statement", "def-list", "verse-group", "disp-formula")
)
_FIGURES = {"fig", "table-wrap", "fig-group", "supplementary-material"}
# XML's own white space. No-break and thin spaces are text and stay.
_BLANKS = re.compile(r"[ \t\r\n]+")
_NO_TITLES = ("", "[Not Available]", "[In Process Citation]")  # placeholders in articles of other languages


class _Measured(io.RawIOBase):
    """A file as a stream of bounded records, each started by `begin`. Raises DocumentFormatError for a large record."""

    def __init__(self, path: Path, source: io.BufferedReader) -> None:
        self._path, self._source = path, source
        self._most_bytes, self._most_tags = XML_RECORD_BYTES.value, XML_TAGS.value
        self.begin()

    def begin(self) -> None:
        self._bytes = self._tags = 0

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._bytes += len(data)
        self._tags += data.count(b"<")
        if self._bytes > self._most_bytes or self._tags > self._most_tags:
            limits = f"{XML_RECORD_BYTES.variable} and {XML_TAGS.variable}"
            extent = f"{self._most_bytes:,} bytes and {self._most_tags:,} tags"
            cure = f"is it the right file? if so, split the record, or set {limits} to larger numbers"
            raise DocumentFormatError(f"{self._path}: no record or article within {extent}", cure)
        return data


def buffered(path: Path) -> io.BufferedReader:
    """The file's bytes, unpacked when it is compressed. Raises DocumentFormatError with the file's name."""
    return io.BufferedReader(TextStream(path, DocumentFormatError, checked=False), 1 << 20)


def xml_changes(path: Path) -> Iterator[Change]:
    """Records and deletions of one file, in its order.

    A MEDLINE record is read when its document is made, which must be before the next change is requested: then it is
    emptied. Raises DocumentFormatError for a file that is not well-formed, declares entities, or has no record.
    """
    with buffered(path) as file, _Measured(path, file) as source:
        events = etree.iterparse(source, events=("end",), tag=(*_MEDLINE, *_JATS), **_SAFE)
        trusted = False
        try:
            for _, element in events:
                dtd = None if trusted else element.getroottree().docinfo.internalDTD
                if dtd is not None and next(dtd.iterentities(), None) is not None:
                    problem = f"{path}: declares entities of its own, which are not followed"
                    raise DocumentFormatError(problem, "expand them with a tool you trust")
                trusted = True
                yield from (_medline if element.tag in _MEDLINE else _jats)(path, element)
                # Empty the element, and remove all earlier siblings of it and of its ancestors.
                element.clear()
                while (parent := element.getparent()) is not None:
                    while element.getprevious() is not None:
                        del parent[0]
                    element = parent
                source.begin()
        except etree.XMLSyntaxError as problem:
            reason = _BLANKS.sub(" ", printable(problem.msg or ""))[:200]
            text = f"{path} line {problem.lineno:,}: not well-formed XML: {reason}"
            raise DocumentFormatError(text, "fetch the file again, or mend it") from None
        if not trusted:
            raise DocumentFormatError(f"{path}: no MEDLINE record and no JATS article in it")


def _flat(element: Any) -> str:
    """All text of an element without inline markup, runs of XML's white space as one blank; "" for None."""
    if element is None:
        return ""
    if len(element) == 0:
        text = element.text or ""
    elif next(element.iter(etree.Entity), None) is None:
        text = "".join(element.itertext())
    else:  # libxml2 leaves entities such as &beta; as they are written
        pieces = element.itertext()
        text = "".join(html.unescape(p) if re.fullmatch("&[^\\W_]+;", p) else p for p in pieces)
    return _BLANKS.sub(" ", text).strip()


def _medline(path: Path, element: Any) -> Iterator[Change]:
    """The record in one element, or several deletions."""
    if element.tag == "DeleteCitation":
        for pmid in element.iterfind("PMID"):
            yield *_pmid(path, pmid), None
        return
    record = element.find("MedlineCitation")
    if record is None and (record := element.find("BookDocument")) is None:
        raise DocumentFormatError(f"{path} line {element.sourceline:,}: a record without MedlineCitation")
    name, version = _pmid(path, record.find("PMID"))
    yield name, version, partial(_medline_document, path, record, name, version)


def _medline_document(path: Path, record: Any, pmid: str, version: int) -> Document:
    article = record if record.tag == "BookDocument" else record.find("Article")
    if article is None:
        raise DocumentFormatError(f"{path} line {record.sourceline:,}: a record without Article")
    titles = (_flat(article.find(tag)) for tag in ("ArticleTitle", "VernacularTitle", "Book/BookTitle"))
    kinds = article.iterfind("PublicationTypeList/PublicationType")
    notes = record.iterfind("CommentsCorrectionsList/CommentsCorrections")
    retracted = any(kind.text == "Retracted Publication" for kind in kinds)
    retracted = retracted or any(note.get("RefType") == "RetractionIn" for note in notes)
    beside = tuple(
        OtherAbstract(element.get("Type", ""), element.get("Language", "eng"), text)
        for element in record.iterfind("OtherAbstract")
        if (text := _abstract(element))
    )
    abstract = _abstract(article.find("Abstract"))
    title = next((title for title in titles if title.removesuffix(".") not in _NO_TITLES), "")
    return Document(pmid, title, abstract, version, retracted, beside)


def _pmid(path: Path, pmid: Any) -> tuple[str, int]:
    text = "" if pmid is None else (pmid.text or "").strip()
    version = "1" if pmid is None else pmid.get("Version", "1")
    if not (text.isascii() and text.isdigit() and version.isascii() and version.isdigit()):
        line = "" if pmid is None else f" line {pmid.sourceline:,}"
        raise DocumentFormatError(f"{path}{line}: a record whose PMID is not a number")
    return text, int(version[:9])


def _abstract(element: Any) -> str:
    if element is None:
        return ""
    lines = []
    for part in element.iterfind("AbstractText"):
        text, label = _flat(part), part.get("Label", "").strip()
        if label.upper() in _NO_LABEL:
            lines.append(text)
        else:  # some authors put all text into the label: Label="LEVEL OF EVIDENCE: 4", and no text
            lines.append(f"{label}: {text}" if text else label)
    return "\n".join(line for line in lines if line)


def _jats(path: Path, article: Any) -> Iterator[Change]:
    """Abstract first, then the sections of the body as they stand. Raises DocumentFormatError."""
    meta = article.find("{*}front/{*}article-meta")
    if meta is None:
        meta = article.find("{*}front-stub")
    if meta is None:
        raise DocumentFormatError(f"{path} line {article.sourceline:,}: an article without article-meta")
    ids = {node.get("pub-id-type"): _flat(node) for node in meta.iterfind("{*}article-id")}
    if (kind := next((kind for kind in _ID_KINDS if ids.get(kind)), None)) is None:
        raise DocumentFormatError(f"{path} line {meta.sourceline:,}: an article without an article-id")
    name = f"PMC{ids[kind]}" if kind in ("pmc", "pmcaid") and ids[kind].isdigit() else ids[kind]
    retracted = article.get("article-type") == "retracted-article"
    for tag in _LEFT_OUT:
        etree.strip_elements(article, tag, f"{{*}}{tag}", with_tail=False)
    title = _flat(meta.find("{*}title-group/{*}article-title"))
    sections = [*meta.iterfind("{*}abstract"), *article.iterfind("{*}body")]
    texts = (text for section in sections for text in _section_chunks(section, []))
    for number, text in enumerate(texts):
        chunk = f"{name}#{number}"
        yield chunk, 1, partial(Document, chunk, title, text, retracted=retracted)


def _section_chunks(section: Any, headings: list[str]) -> Iterator[str]:
    """The section's own paragraphs, cut where they grow long, then its subsections."""
    if title := _flat(section.find("{*}title")):
        headings = [*headings, title]
    heading, paragraphs = [" > ".join(headings)] if headings else [], list[str]()
    for child in section:
        name = etree.QName(child).localname if isinstance(child.tag, str) else ""
        blocks = child.iter("{*}caption") if name in _FIGURES else [child] if name in _TEXT_BLOCKS else ()
        paragraphs += [text for block in blocks if (text := _flat(block))]
        if sum(map(len, paragraphs)) >= CHUNK_CHARACTERS:
            yield "\n".join([*heading, *paragraphs])
            paragraphs = []
    if paragraphs:
        yield "\n".join([*heading, *paragraphs])
    for child in section.iterfind("{*}sec"):
        yield from _section_chunks(child, headings)
