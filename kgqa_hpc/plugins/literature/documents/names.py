"""Names of proteins and genes: their spellings, and which of them are searched for in text.

A name is a **word** or phrase (`large T antigen`, `Catalase`: in any case), a symbol with a digit (`TP53`, `IL-1β`:
in any case, `p53` is `P53`), or a symbol of letters (`CAT`, `recA`: in this case, and `RecA` for `recA`). Very short
names, bare numbers and common words are not searched for: `T` and `was` would match everywhere. Each name is searched
for in all its spellings: Greek letters and their words, hyphens before digits, plurals. `IL-1β` is also `IL-1beta`,
`IL-1-beta` and `IL1β`; `BCL2` is `Bcl-2`, tumors are tumours, `androgen receptor` has a plural. These rules widen a
search, so each is as narrow as its examples.

The stop words were selected by reading the 500 most frequent matches of UniProt's and HGNC's names in 33,277
abstracts, and all lower-case ones; then the words that name fruit-fly genes. A name in capitals (`CAT`, `WAS`, `MET`)
is no common word: it is searched for as written.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from kgqa_hpc.errors import DocumentFormatError
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
    """The spellings of all names that are searched for; whether any case fits.

    `counts`: distinct names by the reason to drop them, None for those that are kept.
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
    """Reason why a name is not searched for: `too short`, `too long`, `number`, `stop word`; None if it is."""
    letters = sum(c.isalnum() for c in name)
    if letters < shortest:
        return "too short"
    if len(name) > LONGEST:
        return "too long"
    if not any(c.isalpha() for c in name):
        return "number"
    return "stop word" if is_stop_word(name) else None


def any_case(name: str) -> bool:
    """Whether any case fits a name: words, phrases, symbols with a digit and `c-Myc`; other symbols only as written."""
    if any(c.isdigit() for c in name) or len(name.split()) > 1 or _ONE_AND_A_WORD.fullmatch(name):
        return True
    word = name.isalpha() and len(name) >= 5 and name[1:].islower()
    return word or (not name.isalpha() and len(name) >= 8)
