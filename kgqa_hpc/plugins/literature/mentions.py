"""Search for names in text: offsets in code points; of overlapping names the longest.

All names are searched for at once (Aho-Corasick) between word boundaries, in a form of the text in which letters and
digits are lower case and every other character is a blank. Each match is then compared with the original spelling,
case and punctuation included. Blanks and hyphens are interchangeable (`large T-antigen`) if the case matches or the
name is a phrase.

An abbreviation that the text defines as something other than a protein is no match: `low back pain (LBP)`. A symbol in
brackets is defined by the words before it if its letters are their initials; a symbol before brackets is defined by the
words inside: `ALL (acute lymphoblastic leukaemia)`. If these words do not sound like a gene product, no occurrence of
the symbol in the text is a name, even if a gene has that name.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import chain

import ahocorasick_rs

from kgqa_hpc.plugins.literature.document import Span
from kgqa_hpc.plugins.literature.names import LOOKALIKES, WORDS, is_stop_word

_BLANKS = " \t\n\r\u00a0\u2009\u202f"
_HYPHENS = "-\u00ad\u2010\u2011\u2012\u2013\u2212"
# A heading of a structured abstract, `BACKGROUND AND AIM: …`, at the beginning of a line; AIM is also a gene.
_LABEL = re.compile(r"[A-Z][A-Z &/,-]{0,79}(?=:)")
_LONGEST_LABEL = 80
# The name is the beginning of another name: `insulin-like growth factor`, `Kv1.3`.
_GOES_ON = re.compile(
    rf"[{_HYPHENS}]like\b|(?<=\d)\.\d| like (?:growth|peptide|protein|receptor|factor|kinase)"
)
# Size of the cache of spellings: most matches are the same few words.
_REMEMBERED = 1 << 16
_PHRASE = re.compile(r" |[a-z]{5}")
# An abbreviation with its definition; the first three patterns begin with a rare character, for speed.
_IN_BRACKET = re.compile(r"\(([A-Z][A-Za-z]{1,7}?)s?\b")
_LAST_IN_BRACKET = re.compile(r", (?=[A-Za-z]{3,9}\))([A-Z][A-Za-z]{1,7}?)s?\b")
_EXPLANATION = re.compile(r" \(([a-z][^()]{4,120})\)")
_EXPLAINED = re.compile(r"\b([A-Z][A-Za-z]{2,7}?)s?$")
_WORD = re.compile(r"[A-Za-z]+")
_SMALL = {"a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"}
# Number of characters before a bracket that may hold a definition.
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


Noise = Callable[[str], Callable[[int, int], str | None]]


def usual_noise(text: str) -> Callable[[int, int], str | None]:
    """The reason why a span of the text is no name: a heading, a stop word, an abbreviation of something else, a
    part of another name.
    """
    otherwise = cache(lambda: _defined_otherwise(text))

    def why_not(start: int, end: int) -> str | None:
        name = text[start:end]
        if name.lower() in WORDS:
            line = text.rfind("\n", max(0, start - _LONGEST_LABEL), start) + 1
            if (label := _LABEL.match(text, line)) and start < label.end():
                return "heading"
        if name.isalpha() and name in otherwise():
            return "abbreviation"
        if _GOES_ON.match(text, end):
            return "part of another name"
        return "stop word" if is_stop_word(name) else None

    return why_not


def _defined_otherwise(text: str) -> set[str]:
    """The abbreviations that the text defines as something other than a gene product. Linear time."""
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
    """The last words whose initials spell the symbol, without small words between them; empty if there are none."""
    at = len(words)
    for letter in reversed(symbol.lower()):
        at -= 1
        while at >= 0 and words[at].lower() in _SMALL and words[at][0].lower() != letter:
            at -= 1
        if at < 0 or words[at][0].lower() != letter:
            return []
    return words[at:]


def _is_no_product(explanation: list[str]) -> bool:
    """Whether there is a definition and none of its words sounds like a gene product."""
    for word in explanation:
        if _PRODUCT.search(word) and word.lower() not in _NO_ENZYMES:
            return False
        if _IN.search(word) and word.lower() not in _NO_PROTEINS:
            return False
    return bool(explanation)


class NameFinder:
    """Finder of names, for any number of texts.

    `names`: whether any case fits each. `noise(text)` returns a function from start and end of a span to the reason why
    it is no name, or None.

    `found` counts the mentions, `dropped` the other matches by reason: `case`, `inside a longer name`, and the reasons
    of `noise`: `heading`, `stop word`, `abbreviation`, `part of another name`.
    """

    def __init__(self, names: dict[str, bool], noise: Noise | None = None) -> None:
        self._noise = noise or usual_noise
        self.found = 0
        self.dropped: Counter[str] = Counter()
        self._exact: dict[str, set[str]] = {}
        self._folded: dict[str, set[str]] = {}
        for name, any_case in names.items():
            plain = name.translate(_PLAIN)
            self._exact.setdefault(plain, set()).add(name.translate(_JOINED))
            if any_case:
                table = _JOINED if _PHRASE.search(name) else _HYPHENATED
                self._folded.setdefault(plain, set()).add(name.translate(table).lower())
        self._patterns = sorted(self._exact)
        self._finder = ahocorasick_rs.AhoCorasick(
            [f" {pattern} " for pattern in self._patterns],
            matchkind=ahocorasick_rs.MatchKind.Standard,
            store_patterns=False,
        )
        self._fits = lru_cache(_REMEMBERED)(self._is_written)

    def find(self, text: str) -> list[Span]:
        """The mentions in the text, in order, none overlapping. Time linear in the text's length."""
        hits = self._finder.find_matches_as_indexes(f" {text.translate(_PLAIN)} ", overlapping=True)
        if not hits:
            return []
        valid = [(start, end - 2) for number, start, end in hits if self._fits(number, text[start : end - 2])]
        self.dropped["case"] += len(hits) - len(valid)
        why_not, mentions, reached = self._noise(text), list[Span](), 0
        for start, end in sorted(set(valid), key=lambda span: (span[0], -span[1])):
            if start < reached:
                self.dropped["inside a longer name"] += 1
            elif reason := why_not(start, end):
                self.dropped[reason] += 1
            else:
                mentions.append(Span(start, end, text[start:end]))
                reached = end
        self.found += len(mentions)
        return mentions

    def _is_written(self, number: int, spelling: str) -> bool:
        pattern, joined = self._patterns[number], spelling.translate(_JOINED)
        if joined in self._exact[pattern]:
            return True
        folded = self._folded.get(pattern, ())
        return joined.lower() in folded or spelling.translate(_HYPHENATED).lower() in folded


class _PlainTable(dict[int, int]):
    """Table for str.translate: letters and digits in lower case, a blank for every other character.

    Filled on demand. A text keeps its length in code points.
    """

    def __missing__(self, code: int) -> int:
        character = LOOKALIKES.get(chr(code), chr(code))
        lower = character.lower()
        plain = ord(lower) if len(lower) == 1 else code
        self[code] = plain if character.isalnum() else 32
        return self[code]


_PLAIN = _PlainTable()
_JOINED = str.maketrans({**dict.fromkeys(_BLANKS + _HYPHENS, " "), **LOOKALIKES})
_HYPHENATED = str.maketrans({**dict.fromkeys(_BLANKS, " "), **dict.fromkeys(_HYPHENS, "-"), **LOOKALIKES})
