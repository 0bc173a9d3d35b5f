"""What a question asks for, by rule, as columns of its record: its type and its form.

The types are those QAProt counts over its 140 instances (section 3): function and structure, interactions,
localization and expression, disease associations, comparisons. The first type in the order below whose words
occur is taken, so that a comparison of functions is a comparison. A rule is no judge: it is cheap and the
same everywhere, and says `other` where it knows nothing.
"""

from __future__ import annotations

import re

from kgqa_hpc.columns import Column
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step

# A type and the beginnings of words that tell it.
_BEGINNINGS = {
    "comparison": "compare compari comparat differ distinguish versus similarit unlike contrast",
    "disease": "disease disorder syndrome cancer tumo patient therap treat clinic patholog symptom risk diagnos",
    "localization": "locali located location subcellular compartment membrane nucleus",
    "expression": "express transcri upregulat downregulat mrna tissue induced",
    "interaction": "interact bind bound partner complex receptor ligand associat",
    "structure": "structur domain motif fold residue sequence amino helix subunit length molecular conserved",
    "function": "function role activit cataly regulat mechanism pathway involved effect",
}
TYPES = {name: tuple(words.split()) for name, words in _BEGINNINGS.items()}
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


class QuestionType(Step):
    """Gives each record, or each of an item's records, the type and form of its question."""

    name = "question_type"
    adds = "annotation"
    needs = ("question",)
    columns = (
        Column("question_type", "string", f"What it asks for, by rule: {', '.join((*TYPES, OTHER))}."),
        Column("question_form", "string", f"Its form: {', '.join(_FORMS)}, yes/no or {OTHER}."),
    )

    def compute(self, item: Item) -> Outcome:
        if item.records is None:
            item.annotations |= _columns(item.output["question"])
        for record in item.records or ():
            record |= _columns(record["question"])
        return Done()


def _columns(question: str) -> dict[str, str]:
    return {"question_type": question_type(question), "question_form": question_form(question)}
