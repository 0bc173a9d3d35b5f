"""A document: its text, its sentences, and quotes of its text.

A quote is a snippet that occurs in the text word for word. Text and snippet are compared without regard to what
copying changes: runs of blanks, the case of letters, kinds of hyphens and quotation marks, ligatures, composed or
decomposed accents, invisible characters. Any other difference (a digit, a sign, a word) makes it another text.
Quotation marks and dots around the snippet are removed first.

`sentences` cuts a text into its sentences, so that a passage can be named by number instead of being copied.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

# A character with the accents that follow it.
_CLUSTER = re.compile(r"(?s).[\u0300-\u036f]{0,30}")
_ALIKE = {
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032`\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"'),
    "\u2026": "...",
    "\u00b5": "\u03bc",
}
_LIGATURES = range(0xFB00, 0xFB07)
_AROUND = " \"'.,;:[]()"
# End of a sentence: its last character with closing quotes or brackets, before anything but a small letter.
_END = re.compile(r"[.!?][)\]\"'\u2019\u201d]{0,2}[^\S\n]++(?=[^\sa-z])|\n++")
# A full stop of an abbreviation or an initial, which ends no sentence.
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|e\.g|i\.e|vs|cf|al|ca|approx|[Ff]igs?|No|Dr|St|spp?)\.$")
_LONGEST_ABBREVIATION = 8


@dataclass(frozen=True, slots=True)
class OtherAbstract:
    """An abstract beside the main one: a translation, a plain-language summary, another agency's."""

    kind: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    `id`: a PMID, a PMC id with `#` and the number of the chunk, or the id in the user's file.
    `text`: plain text; the parts of a structured abstract are lines that begin with `LABEL: `.
    `version`: of documents with the same id the highest version is valid; of equal versions the last.
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
        """The text that an index searches: title and text; without a text, the other English abstracts, too."""
        parts = [self.title, self.text]
        if not self.text:
            parts += [abstract.text for abstract in self.others if abstract.language in ("", "eng")]
        return "\n".join(part for part in parts if part)


# Id and version of a record, and a function that makes its document; None for a deletion, which withdraws every
# earlier record of the id up to the version.
Change = tuple[str, int, Callable[[], Document] | None]


class Span(NamedTuple):
    """A quote, a sentence or a name in a text: `text` is [start, end) of it, in code points."""

    start: int
    end: int
    text: str


class QuotableText:
    """A text to search for snippets; normalised once, in time linear in its length."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._plain, self._starts, self._ends = _normalise(text)

    def find(self, snippet: str) -> Span | None:
        """The first occurrence of the snippet between word boundaries; None if there is none."""
        normalised = _normalise(snippet)[0].strip(_AROUND)
        if not normalised:
            return None
        at = self._plain.find(normalised)
        while at >= 0:
            end = at + len(normalised)
            if self._is_boundary(at) and self._is_boundary(end):
                start, stop = self._starts[at], self._ends[end - 1]
                return Span(start, stop, self._text[start:stop])
            at = self._plain.find(normalised, at + 1)
        return None

    def _is_boundary(self, position: int) -> bool:
        """Whether this position is a word boundary."""
        around = self._plain[max(position - 1, 0) : position + 1]
        return not (0 < position < len(self._plain) and around.isalnum())


def sentences(text: str) -> list[Span]:
    """The sentences of a text in their order, each with its place; a line break ends one too. Linear in length."""
    begin, ends = 0, []
    for match in _END.finditer(text):
        stop = match.start() + 1
        before = max(begin, stop - _LONGEST_ABBREVIATION)
        if text[match.start()] == "\n" or not _ABBREVIATION.search(text, before, stop):
            ends.append(begin := match.end())
    quotes, begin = [], 0
    for end in [*ends, len(text)]:
        if words := text[begin:end].strip():
            start = text.index(words, begin)
            quotes.append(Span(start, start + len(words), words))
        begin = end
    return quotes


def _normalise(text: str) -> tuple[str, list[int], list[int]]:
    """The normalised text, and for each of its characters the start and end in the original."""
    plain: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in _CLUSTER.finditer(text):
        cluster = match[0]
        if len(cluster) > 1:
            cluster = unicodedata.normalize("NFC", cluster)
        elif ord(cluster) in _LIGATURES:
            cluster = unicodedata.normalize("NFKC", cluster)
        elif cluster.isspace():
            cluster = " "
        for character in "".join(_ALIKE.get(character, character) for character in cluster).lower():
            if character == " " and plain and plain[-1] == " ":
                ends[-1] = match.end()
                continue
            plain.append(character)
            starts.append(match.start())
            ends.append(match.end())
    return "".join(plain), starts, ends
