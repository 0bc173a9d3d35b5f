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
    ids = {node.get("pub-id-type"): flat(node) for node in meta.iterfind("{*}article-id")}
    if (kind := next((kind for kind in _ID_KINDS if ids.get(kind)), None)) is None:
        raise DocumentFormatError(f"{path} line {meta.sourceline:,}: an article without an article-id")
    name = f"PMC{ids[kind]}" if kind in ("pmc", "pmcaid") and ids[kind].isdigit() else ids[kind]
    title = meta.find("{*}title-group/{*}article-title")
    retracted = article.get("article-type") == "retracted-article"
    for tag in _LEFT_OUT:
        etree.strip_elements(article, tag, f"{{*}}{tag}", with_tail=False)
    heading = "" if title is None else flat(title)
    sections = [*meta.iterfind("{*}abstract"), *article.iterfind("{*}body")]
    texts = (text for section in sections for text in _section_chunks(section, []))
    for number, text in enumerate(texts):
        yield Document(f"{name}#{number}", heading, text, retracted=retracted)


def _section_chunks(section: Any, headings: list[str]) -> Iterator[str]:
    """The section's own paragraphs, cut where they grow long, then its subsections."""
    title = section.find("{*}title")
    if title is not None and flat(title):
        headings = [*headings, flat(title)]
    heading, paragraphs = [" > ".join(headings)] if headings else [], list[str]()
    for child in section:
        name = etree.QName(child).localname if isinstance(child.tag, str) else ""
        blocks = child.iter("{*}caption") if name in _FIGURES else [child] if name in _TEXT_BLOCKS else ()
        paragraphs += [text for block in blocks if (text := flat(block))]
        if sum(map(len, paragraphs)) >= CHUNK_CHARACTERS:
            yield "\n".join([*heading, *paragraphs])
            paragraphs = []
    if paragraphs:
        yield "\n".join([*heading, *paragraphs])
    for child in section.iterfind("{*}sec"):
        yield from _section_chunks(child, headings)
