"""Two filters on pairs about proteins: what says nothing goes, and names become "the protein".

Both are pure and keep what they change: a pruned pair has the term that pruned it, a text without names
has the original and what stood where. QAProt, B.2 ("keyword-based pruning", "de-lexicalization"); there
the names of Figure 5's second answer ("Deletion of Cplx3 leads to …") were left in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kgqa_hpc.plugins.literature.documents.mentions import Mention, NameFinder
from kgqa_hpc.plugins.literature.documents.names import case_of
from kgqa_hpc.plugins.literature.documents.spellings import spellings

# The terms that the paper names (B.2).
PLACEHOLDERS = ("not sure", "other proteins", "unknown", "proteinname", "protein name", "cells")
PLACEHOLDER = "the protein"
_ARTICLE = re.compile(r"(?:(?<=\s)|^)(?:the|a|an)\s$", re.IGNORECASE)
_NOUN = re.compile(r"\s(?:proteins?|genes?)\b", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s|\n)[\"'(\[]?$")


def pruned_by(texts: Iterable[str], terms: Iterable[str] = PLACEHOLDERS) -> str | None:
    """The first of the terms that stands in one of the texts as words, in any case; None: the pair stays."""
    whole = "\n".join(texts).lower()
    for term in terms:
        if re.search(rf"(?<!\w){re.escape(term.lower())}(?!\w)", whole):
            return term
    return None


@dataclass(frozen=True, slots=True)
class Delexicalised:
    """`text` without the names, the `original`, and the names that stood there, by their place in it."""

    text: str
    original: str
    replaced: tuple[Mention, ...]


def name_finder(names: Iterable[str]) -> NameFinder:
    """Finds the names of one known protein: short ones, too, and words of the language.

    Symbols are found as other organisms write them (`Cplx3`, `CPLX3`), and blanks for hyphens. Give the
    protein's name and its genes.
    """
    known = [name.strip() for name in names if name.strip()]
    every = [spelling for name in known for spelling in spellings(name)]
    every += [name.replace("-", " ") for name in every]
    every += [name.capitalize() for name in every if name.isalpha() and name.isupper() and len(name) >= 3]
    wanted = {name: case_of(name) for name in every}
    return NameFinder(wanted, noise=lambda text: lambda start, end: None)


def delexicalise(text: str, finder: NameFinder, placeholder: str = PLACEHOLDER) -> Delexicalised:
    """Replace each of the names; an article before it and "protein" or "gene" behind it go with it."""
    found = tuple(finder.find(text))
    pieces: list[str] = []
    reached, tail = 0, ""
    for mention in found:
        before = _ARTICLE.sub("", text[reached : mention.start])
        tail = (tail + before)[-3:]
        begins = _SENTENCE_START.search(tail)
        name = placeholder[0].upper() + placeholder[1:] if begins else placeholder
        tail = (tail + name)[-3:]
        pieces += [before, name]
        noun = _NOUN.match(text, mention.end)
        reached = noun.end() if noun else mention.end
    return Delexicalised("".join([*pieces, text[reached:]]), text, found)
