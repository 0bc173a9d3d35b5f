"""Functional classes of proteins by their recommended names: QAProt's kinase, transmembrane and structural.

A name says little, so the rules are narrow: what is about a kinase (`… kinase inhibitor`) is none. Others
are `enzyme` by the ending of a word, or `other`. A protein may have several classes.
"""

from __future__ import annotations

import re

_ABOUT = (
    r"(?!s?[ -](?:inhibitor|substrate|interacting|binding|associated|anchor|activator|regulat|scaffold|like))"
)
_RULES = {
    "kinase": rf"kinase\b{_ABOUT}",
    "transmembrane": (
        r"\b(?:transmembrane|receptor|channel|transporter|permease|symporter|antiporter|exchanger|porin"
        r"|aquaporin|uniporter|cadherin|integrin|claudin|tetraspanin|connexin|innexin|secy|membrane protein"
        rf"|efflux pump|multidrug resistance protein)\b{_ABOUT}"
    ),
    "structural": (
        r"\b(?:collagen|keratin|actin|tubulin|laminin|elastin|myosin|crystallin|fibrillin|vimentin|desmin|lamin"
        r"|spectrin|histone|tropomyosin|titin|nebulin|flagellin|fimbrial|pilin|capsid protein|coat protein"
        rf"|structural protein|ribosomal protein|cuticle protein)\b{_ABOUT}"
    ),
    "enzyme": rf"[a-z]{{3}}ase\b{_ABOUT}",
}
_PATTERNS = {name: re.compile(rule, re.IGNORECASE) for name, rule in _RULES.items()}


def function_classes(protein_name: str) -> tuple[str, ...]:
    """The classes of a protein with this name, in a fixed order; `("other",)` where none fits."""
    return tuple(name for name, pattern in _PATTERNS.items() if pattern.search(protein_name)) or ("other",)
