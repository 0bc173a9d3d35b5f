"""Abbreviations that a text explains as something else than a protein: `low back pain (LBP)`.

A symbol in or at the end of a bracket whose letters are the initials of the words before it is explained,
and so is one before a bracket whose words have these initials: `ALL (acute lymphoblastic leukaemia)`. Where
these words do not sound like a gene product, the symbol means something else in the whole text, though a
gene has the name.
"""

from __future__ import annotations

import re

_BRACKET = re.compile(r"(?:\(|, (?=[A-Za-z]{3,9}\)))([A-Z][A-Za-z]{1,7}?)s?\b")
_EXPLAINED_BEHIND = re.compile(r"\b([A-Z][A-Za-z]{2,7}?)s? \(([a-z][^()]{4,120})\)")
_WORD = re.compile(r"[A-Za-z]+")
_SMALL = {"a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"}
# Characters before a bracket in which its explanation is looked for.
_REACH = 120
_PRODUCT = re.compile(
    r"(?:ases?|proteins?|factors?|receptors?|hormones?|antigens?|genes?|peptides?|ligands?|homolog|subunit|channels?"
    r"|transporters?|exchangers?|globulins?|leukins?|feron|kines?|RNAs?|transcript|polypeptide|molecules?|inhibitor)$"
)
_IN = re.compile(r"[a-z]{2}ins?$")
_NO_PROTEINS = {"again", "brain", "basin", "chain", "certain", "domain", "gain", "grain", "main", "margin", "obtain",
                "origin", "pain", "remain", "skin", "spin", "strain", "terrain", "thin", "train", "twin", "vein",
                "within", "retain", "contain", "sustain"}  # fmt: skip


def defined_otherwise(text: str) -> set[str]:
    """The abbreviations that the text explains, and not as a gene product. Time linear in the text's length."""
    found = set()
    for match in _BRACKET.finditer(text):
        words = _WORD.findall(text, max(0, match.start() - _REACH), match.start())
        if _is_no_product(_explanation(match[1], words)):
            found.add(match[1])
    for match in _EXPLAINED_BEHIND.finditer(text):
        words = _WORD.findall(match[2])
        if any(_is_no_product(_explanation(match[1], words[:n])) for n in range(len(words), 1, -1)):
            found.add(match[1])
    return found


def _explanation(symbol: str, words: list[str]) -> list[str]:
    """The last of the words, as far back as their initials spell the symbol; small words may be left out."""
    at = len(words)
    for letter in reversed(symbol.lower()):
        at -= 1
        while at >= 0 and words[at].lower() in _SMALL and words[at][0].lower() != letter:
            at -= 1
        if at < 0 or words[at][0].lower() != letter:
            return []
    return words[at:]


def _is_no_product(explanation: list[str]) -> bool:
    return bool(explanation) and not any(_sounds_like_a_product(word) for word in explanation)


def _sounds_like_a_product(word: str) -> bool:
    if _PRODUCT.search(word) and word.lower() not in {
        "disease",
        "diseases",
        "phase",
        "base",
        "case",
        "release",
    }:
        return True
    return bool(_IN.search(word)) and word.lower() not in _NO_PROTEINS
