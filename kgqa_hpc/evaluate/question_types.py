"""What a question asks for, by rule: its type and its form.

The types are those QAProt counts over its 140 instances (section 3): function and structure, interactions,
localization and expression, disease associations, comparisons. The first type in the order below whose words
occur is taken, so that a comparison of functions is a comparison. A rule is no judge: it is cheap and the
same everywhere, and says `other` where it knows nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# A type and the beginnings of words that tell it.
TYPES: dict[str, tuple[str, ...]] = {
    "comparison": (
        "compare",
        "compari",
        "comparat",
        "differ",
        "distinguish",
        "versus",
        "similarit",
        "unlike",
        "contrast",
    ),
    "disease": (
        *("disease", "disorder", "syndrome", "cancer", "tumo", "patient", "therap", "treat", "clinic"),
        *("patholog", "symptom", "risk", "diagnos"),
    ),
    "localization": ("locali", "located", "location", "subcellular", "compartment", "membrane", "nucleus"),
    "expression": ("express", "transcri", "upregulat", "downregulat", "mrna", "tissue", "induced"),
    "interaction": ("interact", "bind", "bound", "partner", "complex", "receptor", "ligand", "associat"),
    "structure": (
        *("structur", "domain", "motif", "fold", "residue", "sequence", "amino", "helix", "subunit"),
        *("length", "molecular", "conserved"),
    ),
    "function": (
        "function",
        "role",
        "activit",
        "cataly",
        "regulat",
        "mechanism",
        "pathway",
        "involved",
        "effect",
    ),
}
OTHER = "other"
_FORMS = ("what", "which", "how", "why", "where", "when", "who")
_YES_NO = {
    "is",
    "are",
    "was",
    "were",
    "do",
    "does",
    "did",
    "can",
    "could",
    "may",
    "might",
    "will",
    "would",
    "has",
}
_WORD = re.compile(r"[^\W\d_]+")


def question_type(question: str) -> str:
    """One of TYPES, or OTHER."""
    found = _WORD.findall(question.lower())
    for name, beginnings in TYPES.items():
        if any(word.startswith(beginnings) for word in found):
            return name
    return OTHER


def question_form(question: str) -> str:
    """The first of what, which, how … in the question; `yes/no` where it begins with a verb; or OTHER."""
    found = _WORD.findall(question.lower())
    if found and found[0] in _YES_NO:
        return "yes/no"
    return next((word for word in found if word in _FORMS), OTHER)


def count_types(questions: Iterable[str]) -> dict[str, int]:
    """How many questions there are of each type, all types named, in the order of TYPES."""
    counts = Counter(question_type(question) for question in questions)
    return {name: counts[name] for name in (*TYPES, OTHER)}
