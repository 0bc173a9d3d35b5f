"""A document: what can be indexed, searched, quoted and asked about.

Every reader of this room turns a file into a stream of changes: documents, and deletions of earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OtherAbstract:
    """An abstract beside the main one: a translation, a plain-language summary, another agency's."""

    kind: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    `id`: a PMID, a PMC id with `#` and the number of the chunk, or what the user's file says.
    `text`: plain text; the parts of a structured abstract are lines that begin with `LABEL: `.
    `version`: of two documents with the same id, the higher version stands; of equal ones the later.
    `retracted`: the source says that the publication was retracted.
    """

    id: str
    title: str
    text: str
    version: int = 1
    retracted: bool = False
    others: tuple[OtherAbstract, ...] = ()

    @property
    def searchable(self) -> str:
        """What an index sees: title and text, and the English abstracts beside where there is no main one."""
        parts = [self.title, self.text]
        if not self.text:
            parts += [abstract.text for abstract in self.others if abstract.language in ("", "eng")]
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Deletion:
    """Every version of the document `id` up to `version` that came before is withdrawn."""

    id: str
    version: int


Change = Document | Deletion
