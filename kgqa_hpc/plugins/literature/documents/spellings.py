"""Spelling variants of a name: Greek letters and their words, hyphens before digits, plurals.

`IL-1β` is `IL-1beta`, `IL-1-beta` and `IL1β`, too; `BCL2` is `Bcl-2`, tumors are tumours, `androgen receptor` has a
plural. These rules widen a search, so each is as narrow as its examples; names.py has the rules
for upper and lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TABLE = """
αalpha βbeta γgamma δdelta εepsilon ζzeta ηeta θtheta ιiota κkappa λlambda μmu πpi ρrho σsigma τtau φphi χchi
ψpsi ωomega
"""
_GREEK = {pair[1:]: pair[0] for pair in _TABLE.split()}
_WORD_OF = {letter: word for word, letter in _GREEK.items()}
_LETTERS = "".join(_GREEK.values())
# A capital or a digit may stand right beside it: `NF-kappaB`, `IFNalpha2`; a small letter makes another word.
_SPELT = re.compile(rf"(?<![a-z])(?i:{'|'.join(_GREEK)})(?![a-z])")
_LETTER = re.compile(f"[{_LETTERS}]")
_BEFORE = re.compile(rf"(?<=\w)[ -]?(?=[{_LETTERS}])")
_BEHIND = re.compile(rf"(?<=[{_LETTERS}])[ -]?(?=(?:[A-Z]|\d+)\b)")
# Signs that are typed for a Greek letter, and look like it.
LOOKALIKES = {"\u00b5": "μ", "ß": "β"}
_AS_MEANT = str.maketrans("".join(LOOKALIKES), "".join(LOOKALIKES.values()))
_BRITISH = (
    ("umor", "umour"),
    ("emoglobin", "aemoglobin"),
    ("Estrogen", "Oestrogen"),
    ("estrogen", "oestrogen"),
)
_TAIL = rf"\d{{1,3}}[A-Za-z]?(?:-?[{_LETTERS}])?"
_WITHOUT_HYPHEN = re.compile(rf"(IL|[A-Za-z]{{3,}})({_TAIL})")
_WITH_HYPHEN = re.compile(rf"([A-Za-z]{{2,}})-([A-Z]?{_TAIL})")
# The last word of a name, if it takes a plain s: `receptor`, `Kinesin`; not `Notch`, `Ras`, `assembly`.
_PLURAL = re.compile(r"(?:^[A-Z]|[ -][a-z]|^[a-z])[a-z]{2,}[abd-gi-rt-wz]$|(?:^|[ -])[A-Za-z][a-z]*kinase$")


def spellings(name: str) -> list[str]:
    """The name first, then its other spellings, each once. `RecA` is one of `recA`."""
    variants = [name, *_with_letters(name)]
    variants += [hyphenated for variant in variants for hyphenated in _hyphens(variant)]
    variants += [
        _LETTER.sub(lambda match: _WORD_OF[match[0]], variant)
        for variant in variants
        if _LETTER.search(variant)
    ]
    variants += [variant.replace("κB", "kB") for variant in variants if "κB" in variant]
    for american, british in _BRITISH:
        variants += [variant.replace(american, british) for variant in variants if american in variant]
    if name.isalpha() and name[0].islower() and not name.islower():
        variants.append(name[0].upper() + name[1:])
    if _PLURAL.search(name):
        variants += [f"{variant}s" for variant in variants]
    return list(dict.fromkeys(variants))


def _with_letters(name: str) -> Iterator[str]:
    """Variants with Greek letters, joined to their neighbours directly or by a hyphen."""
    plain = name.translate(_AS_MEANT)
    letters = _SPELT.sub(lambda match: _GREEK[match[0].lower()], plain)
    if _LETTER.search(letters):
        for before in ("", "-"):
            for behind in ("", "-"):
                yield _BEHIND.sub(behind, _BEFORE.sub(before, letters))


def _hyphens(name: str) -> Iterator[str]:
    """`BCL-2` for `BCL2`, `IL6` for `IL-6`, `PDL1` for `PD-L1`."""
    if match := _WITHOUT_HYPHEN.fullmatch(name):
        yield f"{match[1]}-{match[2]}"
    elif match := _WITH_HYPHEN.fullmatch(name):
        yield match[1] + match[2]
