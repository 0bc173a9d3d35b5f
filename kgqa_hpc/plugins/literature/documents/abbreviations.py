"""Abbreviations that a text explains as something else than a protein: `low back pain (LBP)`.

A symbol in or at the end of a bracket whose letters are the initials of the words before it is explained,
and so is one before a bracket whose words have these initials: `ALL (acute lymphoblastic leukaemia)`. Where
these words do not sound like a gene product, the symbol means something else in the whole text, though a
gene has the name.
"""

from __future__ import annotations

import re
from itertools import chain

# Each begins with a sign that is rare, which is what makes the search fast.
_IN_BRACKET = re.compile(r"\(([A-Z][A-Za-z]{1,7}?)s?\b")
_LAST_IN_BRACKET = re.compile(r", (?=[A-Za-z]{3,9}\))([A-Z][A-Za-z]{1,7}?)s?\b")
_EXPLANATION = re.compile(r" \(([a-z][^()]{4,120})\)")
_EXPLAINED = re.compile(r"\b([A-Z][A-Za-z]{2,7}?)s?$")
_WORD = re.compile(r"[A-Za-z]+")
_SMALL = {"a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"}
# Characters before a bracket in which its explanation is looked for.
_REACH = 120
_LONGEST = 9  # letters of a symbol and its plural
_PRODUCT = re.compile(
    r"(?:ases?|proteins?|factors?|receptors?|hormones?|antigens?|genes?|peptides?|ligands?|homolog|subunit|channels?"
    r"|transporters?|exchangers?|globulins?|leukins?|feron|kines?|RNAs?|transcript|polypeptide|molecules?|inhibitor)$"
)
_NO_ENZYMES = {"disease", "diseases", "phase", "base", "case", "release"}
_IN = re.compile(r"[a-z]{2}ins?$")
_NO_PROTEINS = {"again", "brain", "basin", "chain", "certain", "domain", "gain", "grain", "main", "margin", "obtain",
                "origin", "pain", "remain", "skin", "spin", "strain", "terrain", "thin", "train", "twin", "vein",
                "within", "retain", "contain", "sustain"}  # fmt: skip


def defined_otherwise(text: str) -> set[str]:
    """The abbreviations that the text explains, and not as a gene product. Time linear in the text's length."""
    abbreviations = set()
    for match in chain(_IN_BRACKET.finditer(text), _LAST_IN_BRACKET.finditer(text)):
        words = _WORD.findall(text, max(0, match.start() - _REACH), match.start())
        if _is_no_product(_explanation(match[1], words)):
            abbreviations.add(match[1])
    for match in _EXPLANATION.finditer(text):
        if symbol := _EXPLAINED.search(text, max(0, match.start() - _LONGEST), match.start()):
            words = _WORD.findall(match[1])
            if any(_is_no_product(_explanation(symbol[1], words[:n])) for n in range(len(words), 1, -1)):
                abbreviations.add(symbol[1])
    return abbreviations


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
    if _PRODUCT.search(word) and word.lower() not in _NO_ENZYMES:
        return True
    return bool(_IN.search(word)) and word.lower() not in _NO_PROTEINS
