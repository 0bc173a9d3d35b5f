"""Anchor kind `abstract`: documents that name a protein or gene, as evidence for questions (QAProt, 3.1).

Documents are read by plugins/literature/documents (deletions and versions applied), names found by exact matching
with word boundaries. All documents are counted in stats/abstracts.json:
read = usable (drawn or not) + without text + retracted + without a name.
"""

import heapq
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Source, Tools, short_digest
from kgqa_hpc.anchors.family import place
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.safe_text import clean_text
from kgqa_hpc.settings import KindSettings

TEXT = 20_000  # characters of a document that a prompt shows; an abstract has 2,000
NAMES = 100  # distinct names kept per document


class AbstractSettings(KindSettings):
    """Settings of literature anchors: the documents, and the names they must contain."""

    kind: Literal["abstract"] = "abstract"
    documents: list[str] = Field(min_length=1, description="Files or folders: MEDLINE, JATS, JSONL, Parquet.")
    names: str | list[str] = Field(description="Tables of names (docs/guide/documents.md).")
    number: int | None = Field(None, ge=1, description="Documents to draw; default: all.")
    min_length: int = Field(3, ge=1, description="Minimum letters and digits of a name.")
    retracted: bool = Field(False, description="Include retracted publications.")
    paths = ("documents", "names")

    def tables(self) -> list[Path]:
        """The tables of names, one or several."""
        return [Path(path) for path in ([self.names] if isinstance(self.names, str) else self.names)]


class AbstractAnchors(AnchorKind):
    """Documents, grouped by the number of distinct names in them."""

    name = "abstract"
    Settings = AbstractSettings
    needs_graph = False
    group_word = "names"
    columns = (
        Column("document_id", "string", "Id of the document; of a MEDLINE record the PMID."),
        Column("document_title", "string", "Its title."),
        Column("document_text", "string", "Its text, from which the pair was made."),
    )
    sample = Anchor(
        "sample",
        "abstract",
        "1 name",
        data={
            "document": {"id": "1", "title": "A title.", "text": "ATP7B carries copper."},
            "mentions": [[0, 5, "ATP7B"]],
            "names": ["ATP7B"],
        },
    )

    def draw(self, source: Source, settings: AbstractSettings, seed: int, tools: Tools) -> Drawn:
        """The documents with a name in seeded order; at most `number` are held in memory.

        Raises DocumentFormatError, and InputError when no document has a name.
        """
        counts, groups = Counter[str](), Counter[str]()
        anchors = _anchors(settings, counts, groups)
        keyed = ((place(seed, anchor.id), anchor.id, anchor) for anchor in anchors)
        chosen = sorted(keyed) if settings.number is None else heapq.nsmallest(settings.number, keyed)
        if not chosen:
            problem = f"{settings.names}: none of its names stands in a document"
            raise InputError(problem, "check names and documents")
        counts["drawn"] = len(chosen)
        file = json.dumps(dict(sorted(counts.items())), indent=1).encode() + b"\n"
        note = ", ".join(f"{number:,} {label}" for label, number in sorted(counts.items()))
        anchors = (anchor for _, _, anchor in chosen)
        return Drawn(anchors, dict(groups), {"abstracts.json": file}, (note,))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        document = anchor.data["document"]
        return {
            "title": clean_text(document["title"], TEXT),
            "text": clean_text(document["text"], TEXT),
            "names": [clean_text(name) for name in anchor.data["names"]],
        }

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        document = anchor.data["document"]
        return {f"document_{name}": document[name] for name in ("id", "title", "text")}

    def files(self, settings: AbstractSettings) -> list[Path]:
        """Every document file, and the table of names."""
        from kgqa_hpc.plugins.literature.documents.read import document_files

        return [*document_files([Path(path) for path in settings.documents]), *settings.tables()]


def _anchors(settings: AbstractSettings, counts: Counter[str], groups: Counter[str]) -> Iterator[Anchor]:
    """The usable documents in the order of the files; documents are counted in `counts`, anchors in `groups`."""
    from kgqa_hpc.plugins.literature.documents.mentions import NameFinder
    from kgqa_hpc.plugins.literature.documents.names import read_names, searchable_names
    from kgqa_hpc.plugins.literature.documents.read import read_documents

    names = (name for table in settings.tables() for name in read_names(table))
    finder = NameFinder(searchable_names(names, settings.min_length))
    for document in read_documents(settings.documents):
        counts["read"] += 1
        if not document.text:
            counts["without text"] += 1
        elif document.retracted and not settings.retracted:
            counts["retracted"] += 1
        elif mentions := finder.find(document.text):
            counts["with a name"] += 1
            different = list(dict.fromkeys(mention.text for mention in mentions))[:NAMES]
            number = len(different)
            group = "1 name" if number == 1 else "2 to 4 names" if number < 5 else "5 names and more"
            groups[group] += 1
            # The id follows from the content: another version of a record is another anchor.
            content = json.dumps([document.id, document.title, document.text], ensure_ascii=False)
            data = {
                "document": {"id": document.id, "title": document.title, "text": document.text},
                "mentions": [[mention.start, mention.end, mention.text] for mention in mentions],
                "names": different,
            }
            yield Anchor(f"d-{short_digest(content).hex()}", AbstractAnchors.name, group, data=data)
        else:
            counts["without a name"] += 1
