"""JATS full text (PMC articles): a document for the abstract and for each section of the body.

A section's own paragraphs are one document, its subsections others; a long section is cut between paragraphs.
The id is the article's id, `#`, and the number of the chunk; the title is the article's; the text begins with
the headings that lead to the section. Captions are kept; tables, formulas' sources, references are not.
JATS 1.3, https://jats.nlm.nih.gov; namespaced files (PMC's OAI service) are read alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.document import Document
from kgqa_hpc.plugins.literature.documents.xml import flat

TAGS = ("article", "{*}article")
# A chunk is closed when it has reached so many characters: about 500 words, twice a long abstract.
CHUNK_CHARACTERS = 4000
_ID_KINDS = ("pmcid", "pmc", "pmcaid", "pmid", "doi", "publisher-id")
_LEFT_OUT = ("table", "tex-math", "alternatives", "ref-list", "object-id", "label", "graphic")
_TEXT_BLOCKS = frozenset(
    ("p", "list", "disp-quote", "boxed-text", "statement", "def-list", "verse-group", "disp-formula")
)
_FIGURES = {"fig", "table-wrap", "fig-group", "supplementary-material"}


def element_versions(path: Path, article: Any) -> Iterator[tuple[str, int, bool]]:
    """(id, version, False) of each chunk of an article."""
    return ((chunk.id, chunk.version, False) for chunk in element_changes(path, article))


def element_changes(path: Path, article: Any) -> Iterator[Document]:
    """Abstract first, then the sections of the body as they stand. Raises DocumentFormatError."""
    meta = article.find("{*}front/{*}article-meta")
    if meta is None:
        meta = article.find("{*}front-stub")
    if meta is None:
        raise DocumentFormatError(f"{path} line {article.sourceline:,}: an article without article-meta")
    name = _id(path, meta)
    title = meta.find("{*}title-group/{*}article-title")
    retracted = article.get("article-type") == "retracted-article"
    _drop_what_is_not_text(article)
    heading = "" if title is None else flat(title)
    for number, text in enumerate(_chunks(meta, article.find("{*}body"))):
        yield Document(f"{name}#{number}", heading, text, retracted=retracted)


def _id(path: Path, meta: Any) -> str:
    ids = {node.get("pub-id-type"): flat(node) for node in meta.iterfind("{*}article-id")}
    for kind in _ID_KINDS:
        if ids.get(kind):
            return f"PMC{ids[kind]}" if kind in ("pmc", "pmcaid") and ids[kind].isdigit() else ids[kind]
    raise DocumentFormatError(f"{path} line {meta.sourceline:,}: an article without an article-id")


def _drop_what_is_not_text(article: Any) -> None:
    for name in _LEFT_OUT:
        etree.strip_elements(article, name, f"{{*}}{name}", with_tail=False)


def _chunks(meta: Any, body: Any) -> Iterator[str]:
    for abstract in meta.iterfind("{*}abstract"):
        yield from _section_chunks(abstract, [])
    if body is not None:
        yield from _section_chunks(body, [])


def _section_chunks(section: Any, headings: list[str]) -> Iterator[str]:
    """The section's own paragraphs, cut where they grow long, then its subsections."""
    title = section.find("{*}title")
    if title is not None and flat(title):
        headings = [*headings, flat(title)]
    gathered: list[str] = []
    for child in section:
        if _name(child) == "sec":
            continue
        gathered += _paragraphs(child)
        if sum(map(len, gathered)) >= CHUNK_CHARACTERS:
            yield _with_headings(headings, gathered)
            gathered = []
    if gathered:
        yield _with_headings(headings, gathered)
    for child in section.iterfind("{*}sec"):
        yield from _section_chunks(child, headings)


def _paragraphs(element: Any) -> list[str]:
    name = _name(element)
    if name in _FIGURES:
        captions = (flat(caption) for caption in element.iter("{*}caption"))
        return [caption for caption in captions if caption]
    text = flat(element) if name in _TEXT_BLOCKS else ""
    return [text] if text else []


def _with_headings(headings: list[str], paragraphs: list[str]) -> str:
    return "\n".join([" > ".join(headings), *paragraphs] if headings else paragraphs)


def _name(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
