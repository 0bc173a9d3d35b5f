"""Names of proteins and genes: their spellings, the names that are searched for, and the search in text.

A name is a **word** or phrase (`large T antigen`, `Catalase`: in any case), a symbol with a digit (`TP53`, `IL-1β`:
in any case, `p53` is `P53`), or a symbol of letters (`CAT`, `recA`: in this case, and `RecA` for `recA`). Very short
names, bare numbers and common words are not searched for: `T` and `was` would match everywhere. Each name is searched
for in all its spellings: Greek letters and their words, hyphens before digits, plurals. `IL-1β` is also `IL-1beta`,
`IL-1-beta` and `IL1β`; `BCL2` is `Bcl-2`, tumors are tumours, `androgen receptor` has a plural. These rules widen a
search, so each is as narrow as its examples.

The stop words were selected by reading the 500 most frequent matches of UniProt's and HGNC's names in 33,277
abstracts, and all lower-case ones; then the words that name fruit-fly genes. A name in capitals (`CAT`, `WAS`, `MET`)
is no common word: it is searched for as written.

All names are searched for at once (Aho-Corasick) between word boundaries, in a form of the text in which letters and
digits are lower case and every other character is a blank. Each match is then compared with the original spelling,
case and punctuation included. Of overlapping names the longest counts; offsets are in code points. Blanks and hyphens
are interchangeable (`large T-antigen`) if the case matches or the name is a phrase.

An abbreviation that the text defines as something other than a protein is no match: `low back pain (LBP)`. A symbol in
brackets is defined by the words before it if its letters are their initials; a symbol before brackets is defined by the
words inside: `ALL (acute lymphoblastic leukaemia)`. If these words do not sound like a gene product, no occurrence of
the symbol in the text is a name, even if a gene has that name.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path

import ahocorasick_rs

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.document import Span
from kgqa_hpc.text.streams import text_lines

_STOP_WORDS = [
    re.sub("#.*", "", block).split()
    for block in files(__package__).joinpath("stop_words.txt").read_text(encoding="utf-8").split("\n\n")
]
WORDS = frozenset(_STOP_WORDS[0] + _STOP_WORDS[1])
ABBREVIATIONS = frozenset(_STOP_WORDS[2])


def is_stop_word(name: str) -> bool:
    """Whether this spelling almost never means a gene or protein."""
    return name in ABBREVIATIONS or (name.lower() in WORDS and not name.isupper())


_TABLE = """
αalpha βbeta γgamma δdelta εepsilon ζzeta ηeta θtheta ιiota κkappa λlambda μmu πpi ρrho σsigma τtau φphi χchi
ψpsi ωomega
"""
_GREEK = {pair[1:]: pair[0] for pair in _TABLE.split()}
_WORD_OF = {letter: word for word, letter in _GREEK.items()}
_LETTERS = "".join(_GREEK.values())
# The word of a Greek letter, beside capitals or digits (`NF-kappaB`, `IFNalpha2`), not beside small letters.
_SPELT = re.compile(rf"(?<![a-z])(?i:{'|'.join(_GREEK)})(?![a-z])")
_LETTER = re.compile(f"[{_LETTERS}]")
_BEFORE = re.compile(rf"(?<=\w)[ -]?(?=[{_LETTERS}])")
_BEHIND = re.compile(rf"(?<=[{_LETTERS}])[ -]?(?=(?:[A-Z]|\d+)\b)")
# Characters that look like a Greek letter and are typed instead of it.
LOOKALIKES = {"\u00b5": "μ", "ß": "β"}
_AS_MEANT = str.maketrans("".join(LOOKALIKES), "".join(LOOKALIKES.values()))
_BRITISH = {"umor": "umour", "emoglobin": "aemoglobin", "Estrogen": "Oestrogen", "estrogen": "oestrogen"}
_TAIL = rf"\d{{1,3}}[A-Za-z]?(?:-?[{_LETTERS}])?"
_WITHOUT_HYPHEN = re.compile(rf"(IL|[A-Za-z]{{3,}})({_TAIL})")
_WITH_HYPHEN = re.compile(rf"([A-Za-z]{{2,}})-([A-Z]?{_TAIL})")
# A name whose plural ends with s: `receptor`, `Kinesin`; not `Notch`, `Ras`, `assembly`.
_PLURAL = re.compile(r"(?:^[A-Z]|[ -][a-z]|^[a-z])[a-z]{2,}[abd-gi-rt-wz]$|(?:^|[ -])[A-Za-z][a-z]*kinase$")


def spellings(name: str) -> list[str]:
    """The name and its other spellings, each once: `RecA` for `recA`."""
    # Greek letters are joined to their neighbours directly or by a hyphen.
    greek = _SPELT.sub(lambda match: _GREEK[match[0].lower()], name.translate(_AS_MEANT))
    joints = [("", ""), ("", "-"), ("-", ""), ("-", "-")] if _LETTER.search(greek) else []
    variants = [name, *(_BEHIND.sub(behind, _BEFORE.sub(before, greek)) for before, behind in joints)]
    for variant in list(variants):  # `BCL-2` for `BCL2`, `IL6` for `IL-6`, `PDL1` for `PD-L1`
        if match := _WITHOUT_HYPHEN.fullmatch(variant):
            variants.append(f"{match[1]}-{match[2]}")
        elif match := _WITH_HYPHEN.fullmatch(variant):
            variants.append(match[1] + match[2])
    letters = [variant for variant in variants if _LETTER.search(variant)]
    variants += [_LETTER.sub(lambda match: _WORD_OF[match[0]], variant) for variant in letters]
    variants += [variant.replace("κB", "kB") for variant in variants if "κB" in variant]
    for american, british in _BRITISH.items():
        variants += [variant.replace(american, british) for variant in variants if american in variant]
    if name.isalpha() and name[0].islower() and not name.islower():
        variants.append(name[0].upper() + name[1:])
    if _PLURAL.search(name):
        variants += [f"{variant}s" for variant in variants]
    return list(dict.fromkeys(variants))


# Columns of UniProt's and HGNC's tables, with the separator of their names.
_WHOLE, _BLANKS, _COMMAS, _BARS = None, r"\s+", r"\s*,\s*", r"\s*\|\s*"
COLUMNS = {
    "protein_name": _WHOLE,
    "gene_names": _BLANKS,
    "symbol": _WHOLE,
    "name": _WHOLE,
    "alias_symbols": _COMMAS,
    "previous_symbols": _COMMAS,
    "alias_symbol": _BARS,
    "prev_symbol": _BARS,
}
SHORTEST = 3
LONGEST = 300
_ONE_AND_A_WORD = re.compile(r"[a-zA-Z]-[A-Z][a-z]{2,}")


def read_names(path: Path) -> Iterator[str]:
    """The names of a table (TSV with a header, plain or gzip), in its order.

    Columns that hold names: `protein_name` (whole) and `gene_names` (split at blanks), or HGNC's.
    Raises DocumentFormatError.
    """
    lines = text_lines(path, DocumentFormatError)
    _, header = next(lines, (1, ""))
    titles = [title.strip() for title in header.split("\t")]
    columns = [(number, COLUMNS[title]) for number, title in enumerate(titles) if title in COLUMNS]
    if not columns:
        cure = f"name one of them {' or '.join(list(COLUMNS)[:2])}; tabs separate columns"
        raise DocumentFormatError(f"{path} line 1: no column of names", cure)
    for _, line in lines:
        cells = line.split("\t")
        for number, split in columns:
            cell = cells[number].strip() if number < len(cells) else ""
            if split is None:
                yield from filter(None, [cell])
            else:
                yield from (name for part in re.split(split, cell) if (name := part.strip(";,")))


def searchable_names(
    names: Iterable[str], shortest: int = SHORTEST, counts: Counter[str | None] | None = None
) -> dict[str, bool]:
    """The spellings of all names to search for, each with whether it matches in any case.

    `counts` counts the distinct names by the reason why they are dropped, None for kept names.
    """
    cases: dict[str, bool] = {}
    for name in dict.fromkeys(names):
        reason = reason_to_drop(name, shortest)
        if counts is not None:
            counts[reason] += 1
        for spelling in spellings(name) if reason is None else ():
            if reason_to_drop(spelling, shortest) is None:
                cases.setdefault(spelling, any_case(spelling))
    return cases


def reason_to_drop(name: str, shortest: int = SHORTEST) -> str | None:
    """Reason why a name is not searched for (`too short`, `too long`, `number`, `stop word`), or None."""
    letters = sum(c.isalnum() for c in name)
    if letters < shortest:
        return "too short"
    if len(name) > LONGEST:
        return "too long"
    if not any(c.isalpha() for c in name):
        return "number"
    return "stop word" if is_stop_word(name) else None


def any_case(name: str) -> bool:
    """Whether a name matches in any case: words, phrases, symbols with a digit and `c-Myc`; others only as written."""
    if any(c.isdigit() for c in name) or len(name.split()) > 1 or _ONE_AND_A_WORD.fullmatch(name):
        return True
    word = name.isalpha() and len(name) >= 5 and name[1:].islower()
    return word or (not name.isalpha() and len(name) >= 8)


_SPACES = " \t\n\r\u00a0\u2009\u202f"
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
_LONGEST_SYMBOL = 9  # letters of a symbol and its plural
_PRODUCT = re.compile(
    r"(?:ases?|proteins?|factors?|receptors?|hormones?|antigens?|genes?|peptides?|ligands?|homolog|subunit|channels?"
    r"|transporters?|exchangers?|globulins?|leukins?|feron|kines?|RNAs?|transcript|polypeptide|molecules?|inhibitor)$"
)
_NO_ENZYMES = {"disease", "diseases", "phase", "base", "case", "release"}
_IN = re.compile(r"[a-z]{2}ins?$")
_NO_PROTEINS = {"again", "brain", "basin", "chain", "certain", "domain", "gain", "grain", "main", "margin", "obtain",
                "origin", "pain", "remain", "skin", "spin", "strain", "terrain", "thin", "train", "twin", "vein",
                "within", "retain", "contain", "sustain"}  # fmt: skip


def _noise_in(text: str) -> Callable[[int, int], str | None]:
    """A function from start and end of a span of the text to the reason why it is no name, or None.

    The reasons: `heading`, `stop word`, `abbreviation` (of something else), `part of another name`.
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
        if symbol := _EXPLAINED.search(text, max(0, match.start() - _LONGEST_SYMBOL), match.start()):
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

    `names`: whether any case fits each. `always`: stop words, abbreviations and so on are names, too.

    `found` counts the mentions, `dropped` the other matches by reason: `case`, `inside a longer name`, `heading`,
    `stop word`, `abbreviation`, `part of another name`.
    """

    def __init__(self, names: dict[str, bool], *, always: bool = False) -> None:
        self._always = always
        self.found = 0
        self.dropped: Counter[str] = Counter()
        self._exact: dict[str, set[str]] = {}
        self._folded: dict[str, set[str]] = {}
        for name, fits_any_case in names.items():
            plain = name.translate(_PLAIN)
            self._exact.setdefault(plain, set()).add(name.translate(_JOINED))
            if fits_any_case:
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
        why_not, mentions, reached = _noise_in(text), list[Span](), 0
        for start, end in sorted(set(valid), key=lambda span: (span[0], -span[1])):
            if start < reached:
                self.dropped["inside a longer name"] += 1
            elif not self._always and (reason := why_not(start, end)):
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
_JOINED = str.maketrans({**dict.fromkeys(_SPACES + _HYPHENS, " "), **LOOKALIKES})
_HYPHENATED = str.maketrans({**dict.fromkeys(_SPACES, " "), **dict.fromkeys(_HYPHENS, "-"), **LOOKALIKES})
