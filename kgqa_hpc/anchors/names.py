"""Search for the names of an anchor's nodes in a text.

A name matches a sequence of whole words, the longest name first; a shorter name inside a match is ignored. The search
ignores case, hyphens and blanks, accents, Unicode forms, Greek letters versus their names, British versus American
spelling, possessives, singular versus plural, "Anaemia, aplastic" versus "aplastic anaemia", and an abbreviation in
brackets after the name. It respects the case of short symbols (WAS is not "was") and the context of single letters (a T
cell names no gene T). tests/anchors/gate_cases.jsonl holds 200 cases with their matches.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kgqa_hpc.text.plain_text import normalized

_ALIKE = str.maketrans({"-": " ", "‐": " ", "‑": " ", "‒": " ", "–": " ", "_": " ", "′": "'", "’": "'"})
_BREAKS = frozenset("-‐‑‒–—−_ \t\n\r\xa0")
_PRIMES = str.maketrans(
    {"′": "'", "’": "'", "‘": "'", "`": "'", "´": "'", "ʹ": "'", "″": "''", "®": " ", "™": " "}
)
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i"})
_SPELLINGS = (("ae", "e"), ("oe", "e"), ("our", "or"), ("sulph", "sulf"))
_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9"}
_ENDINGS = (
    *(("ies", "y"), ("es", ""), ("es", "is"), ("s", "")),
    *(("ae", "a"), ("e", "a"), ("i", "us"), ("a", "um"), ("a", "on"), ("mata", "ma")),
)
_SINGULAR = {"feet": "foot", "teeth": "tooth", "children": "child", "mice": "mouse"}
_SINGULAR |= {"women": "woman", "men": "man"}
_SYMBOL = 6  # largest length of a symbol whose case is significant; longer symbols are no English words
# Words that, next to a single letter, make the letter a part of another name (vitamin C).
_BEFORE = re.compile(
    "vitamin|hepatitis|influenza|type|class|group|grade|stage|phase|factor|coenzyme|complex|chromosome|panel"
)
_AFTER = re.compile("(?:cell|lymphocyte|wave|chromosome)s?|helper|fever")
_ENDS = frozenset(".!?:")
# The name of a Greek letter inside a word: NF-kappaB, IFNgamma.
_GREEK_NAME = re.compile(
    r"(?<=[A-Z0-9])(alpha|beta|gamma|delta|epsilon|kappa|lambda|omega)(?![a-z])"
    r"|(?<![A-Za-z])(alpha|beta|gamma|delta|epsilon|kappa|lambda|omega)(?=[A-Z])"
)
_SHORT_FORM = re.compile(r"(?P<name>.*\S)\s*[(\[](?P<short>[^()\[\]]{1,40})[)\]]")


class Word(NamedTuple):
    """A word or sign: its normalised form for comparison, its written form, and its link to the previous word.

    `joined` is "" at the beginning of a word, "glued" for a part of the same word, "hyphen" after a hyphen.
    """

    form: str
    written: str
    joined: str


def plain(text: str) -> str:
    """The normalised form in which whole texts are compared."""
    return " ".join(normalized("NFKC", text).translate(_ALIKE).casefold().split())


def named(text: str, names: Sequence[str], aliases: Mapping[str, Sequence[str]] | None = None) -> list[int]:
    """Positions in `names` of the names that occur in `text`, ascending; equal names count each.

    `aliases` maps a name to its synonyms.
    """
    bearers: dict[tuple[str, ...], tuple[tuple[Word, ...], set[int]]] = {}
    for position, name in enumerate(names):
        for spelling in (name, *((aliases or {}).get(name) or ())):
            for words in _ways(spelling):  # names with equal keys match the same texts
                key = (words[0].written,) if _is_symbol(words) else tuple(word.form for word in words)
                bearers.setdefault(key, (words, set()))[1].add(position)
    text_words = list(_words(text))
    free = [True] * len(text_words)
    covered: set[int] = set()
    for key in sorted(bearers, key=lambda spelling: (-len(spelling), -sum(map(len, spelling)), spelling)):
        words, positions = bearers[key]
        size, start = len(words), 0
        while start + size <= len(text_words):
            end = start + size
            if all(free[start:end]) and _stands(words, text_words, start, end):
                free[start:end] = [False] * size  # no shorter name matches inside
                covered |= positions
                start = end
            else:
                start += 1
    return sorted(covered)


@lru_cache(maxsize=1 << 14)
def _ways(name: str) -> tuple[tuple[Word, ...], ...]:
    """All word sequences by which a text may write a name."""
    ways = [name]
    if match := _SHORT_FORM.fullmatch(name):
        short = match["short"].strip()
        ways.append(match["name"])
        if (
            " " not in short
            and len(short) <= 10
            and (sum(map(str.isupper, short)) > 1 or any(map(str.isdigit, short)))
        ):
            ways.append(short)
    parts = name.split(", ")
    if len(parts) > 1 and "(" not in name:
        ways.append(" ".join(reversed(parts)))
    if "-" in name and len(name) <= 10 and " " not in name:
        ways.append(name.replace("-", ""))
    return tuple(dict.fromkeys(row for spelling in ways if (row := tuple(_words(spelling)))))


def _is_symbol(words: tuple[Word, ...]) -> bool:
    """Whether a name is a short symbol in capitals, which may be an English word in lower case."""
    letters = words[0].written
    return len(words) == 1 and letters.isalpha() and letters.isupper() and len(letters) <= _SYMBOL


def _stands(name: tuple[Word, ...], text: list[Word], start: int, end: int) -> bool:
    """Whether the text's words from `start` to `end` are the name, and not part of another name."""
    if _is_symbol(name):
        if text[start].written not in (name[0].written, f"{name[0].written}s"):
            return False
    elif not all(_same(a, b, len(name)) for a, b in zip(name, text[start:end], strict=True)):
        return False
    before, after = text[start - 1] if start else None, text[end : end + 2]
    if text[start].joined == "glued" or (after and after[0].joined == "glued"):
        return False
    if (before is not None and before.form == "non") or (after and after[0].form == "like"):
        return False
    return len(name) > 1 or len(name[0].form) > 1 or _letter_stands(text[start], before, after)


def _letter_stands(letter: Word, before: Word | None, after: list[Word]) -> bool:
    """Whether a single letter is a whole name: neither a word nor part of a name with its neighbours."""
    if letter.joined == "hyphen":
        return False
    if after and (after[0].joined == "hyphen" or _AFTER.fullmatch(after[0].form)):
        return False
    if letter.written in ("a", "I") or (letter.written == "A" and (before is None or before.form in _ENDS)):
        return False
    if len(after) == 2 and after[0].form == "." and after[1].written[0].islower():  # an initial: E. coli
        return False
    return before is None or not _BEFORE.fullmatch(before.form)


def _same(name: Word, word: Word, size: int) -> bool:
    if name.form == word.form:
        return True
    if size > 1 and _ROMAN.get(name.form, name.form) == _ROMAN.get(word.form, word.form):
        return True
    return not _numbers(name.form).isdisjoint(_numbers(word.form))


@lru_cache(maxsize=1 << 14)
def _numbers(word: str) -> frozenset[str]:
    """The word itself and its possible singular forms."""
    if word in _SINGULAR:
        return frozenset([word, _SINGULAR[word]])
    if len(word) < 4 or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return frozenset([word])
    return frozenset([word, *(word[: -len(end)] + to for end, to in _ENDINGS if word.endswith(end))])


def _words(text: str) -> Iterator[Word]:
    """The words and signs of a text. A word also ends between letters and digits, and before a Greek letter."""
    joined, fresh = "", True
    marked = normalized("NFKC", text.translate(_PRIMES)).translate(_PRIMES)
    for match in re.finditer(r"'s(?![^\W_])|([^\W\d_]+)|(\d+)|(\S)|(\s+)", marked):
        piece = match[0]
        if piece == "'s":
            fresh, joined = True, ""
        elif piece.isspace() or piece in _BREAKS:
            fresh, joined = True, "hyphen" if not piece.isspace() and not fresh else ""
        elif match[3]:
            yield Word(piece, piece, "")
            fresh, joined = True, ""
        else:
            for part in _parts(piece) if match[1] else [piece]:
                yield Word(_form(part), part, joined if fresh else "glued")
                fresh, joined = False, ""


def _parts(piece: str) -> Iterator[str]:
    """Runs of letters; each Greek letter is a separate part, replaced by its name."""
    for part in re.findall(r"[\u0370-\u03ff]|[^\u0370-\u03ff]+", piece):
        name = unicodedata.name(part, "") if len(part) == 1 else ""
        if name.startswith("GREEK"):
            yield name.rpartition("LETTER ")[2].partition(" WITH")[0].removeprefix("FINAL ").lower()
        else:
            yield from filter(None, _GREEK_NAME.split(part))


@lru_cache(maxsize=1 << 14)
def _form(part: str) -> str:
    decomposed = normalized("NFKD", part.casefold())
    form = "".join(c for c in decomposed if not unicodedata.combining(c)).translate(_LETTERS)
    if len(form) > 4:
        for variant, letter in _SPELLINGS:
            form = form.replace(variant, letter)
    return form
