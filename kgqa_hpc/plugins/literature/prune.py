"""Two filters on pairs about proteins: pruning of uninformative pairs, and replacement of names by "the protein".

QAProt, B.2 ("keyword-based pruning", "de-lexicalization"); its Figure 5 has a name that was not replaced ("Deletion of
Cplx3 leads to …"). Both are counted and can be undone: a pruned pair is a rejected record whose reason is the term,
and a record keeps its texts with the names. The functions work without a run.
"""

import re
from collections.abc import Iterable, Iterator

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.plugins.literature.document import Span
from kgqa_hpc.plugins.literature.extract import kept
from kgqa_hpc.plugins.literature.names import NameFinder, any_case, spellings
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import PAIR, Item
from kgqa_hpc.steps.step import Done, Outcome, Step

# Pruning terms of the paper (B.2).
PLACEHOLDERS = ("not sure", "other proteins", "unknown", "proteinname", "protein name", "cells")
PLACEHOLDER = "the protein"
_ARTICLE = re.compile(r"(?:(?<=\s)|^)(?:the|a|an)\s$", re.IGNORECASE)
_NOUN = re.compile(r"\s(?:proteins?|(?P<gene>genes?))\b", re.IGNORECASE)
# "the protein", "the synaptic protein" before a name; conjunctions and prepositions end the phrase.
_NOUN_AHEAD = re.compile(
    r"(?:\b(?:the|a|an|this)\s(?P<kind>(?:(?!(?:and|by|for|from|in|of|on|or|that|to|with)\s)[\w-]+\s){1,3})?)?"
    r"\b(?:protein|(?P<gene>gene))\s$",
    re.IGNORECASE,
)
_APPOSED = re.compile(r"\b(?:protein|gene)(?:, | \()$", re.IGNORECASE)
_CLOSING = {", ": ",", " (": ")"}
_SAME = re.compile(r"/|,? or |,? (?:also |abbreviated )?(?:known as|called|named|termed|as) ")
_BETWEEN = (", ", "; ", "/", " or ")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s|\n)[\"'(\[]?$")


def pruned_by(texts: Iterable[str], terms: Iterable[str] = PLACEHOLDERS) -> str | None:
    """The first term that occurs in a text as whole words, in any case; None without any."""
    whole = "\n".join(texts).lower()
    for term in terms:
        if re.search(rf"(?<!\w){re.escape(term.lower())}(?!\w)", whole):
            return term
    return None


def name_finder(names: Iterable[str]) -> NameFinder:
    """A finder for the names of one known protein, including short names and ordinary words.

    `names`: the protein's name and its genes. Symbols are also found as other organisms write them (`Cplx3`, `CPLX3`),
    and names with blanks instead of hyphens.
    """
    stripped = [name.strip() for name in names if name.strip()]
    every = [spelling for name in stripped for spelling in spellings(name)]
    every += [name.replace("-", " ") for name in every]
    every += [name.capitalize() for name in every if name.isalpha() and name.isupper() and len(name) >= 3]
    cases = {name: any_case(name) for name in every}
    return NameFinder(cases, always=True)


def delexicalise(
    text: str, finder: NameFinder, placeholder: str = PLACEHOLDER
) -> tuple[str, tuple[Span, ...]]:
    """The text with a placeholder for each of the names, and the replaced names with their offsets in `text`.

    Words that belong to a name are replaced with it: an article, "protein" before or after it, further names
    ("complexin 3 (Cplx3)"). Its gene becomes "the protein's gene".
    """
    mentions = tuple(finder.find(text))
    pieces: list[str] = []
    reached, tail = 0, ""
    for start, end in _spans(text, mentions):
        before, name = text[reached:start], placeholder
        behind, ahead = _NOUN.match(text, end), _NOUN_AHEAD.search(before)
        if behind:
            end = behind.end()
        if noun := (behind or ahead):
            name += "'s " + noun["gene"] if noun["gene"] else ""
        # The name is an apposition: "this protein, complexin 3,"
        if _APPOSED.search(before) and text[end : end + 1] == _CLOSING[before[-2:]]:
            before, name, end = before[:-2], "", end + 1
        elif ahead and ahead["kind"]:  # "the synaptic protein complexin 3" keeps its phrase alone
            before, name = before.rstrip(), ""
        elif ahead:
            before = before[: ahead.start()]
        before = _ARTICLE.sub("", before)
        tail = (tail + before)[-3:]
        if _SENTENCE_START.search(tail):
            name = name[:1].upper() + name[1:]
        tail = (tail + name)[-3:]
        pieces += [before, name]
        reached = end
    return "".join([*pieces, text[reached:]]), mentions


def _spans(text: str, mentions: tuple[Span, ...]) -> Iterator[tuple[int, int]]:
    """Spans that each refer to the protein once: a name together with further names that explain it."""
    number = 0
    while number < len(mentions):
        start, end = mentions[number].start, mentions[number].end
        number += 1
        while number < len(mentions):
            gap = text[end : mentions[number].start]
            last = _last_in_brackets(text, mentions, number) if gap == " (" else None
            if last is not None:
                number, end = last + 1, mentions[last].end + 1
            elif _SAME.fullmatch(gap):
                end = mentions[number].end + (gap[0] == "," and text.startswith(",", mentions[number].end))
                number += 1
            else:
                break
        yield start, end


def _last_in_brackets(text: str, mentions: tuple[Span, ...], number: int) -> int | None:
    """Number of the last name in a bracket that begins with name `number`; None if the bracket has other words, too."""
    last = number
    while last + 1 < len(mentions) and text[mentions[last].end : mentions[last + 1].start] in _BETWEEN:
        last += 1
    return last if text.startswith(")", mentions[last].end) else None


class PruneSettings(StepSettings):
    """Settings of the step prune: terms of uninformative pairs."""

    terms: list[str] = Field(
        default_factory=lambda: list(PLACEHOLDERS),
        description="Words or phrases that reject a pair, in any case.",
    )


class Prune(Step):
    """Rejects pairs whose question or answer contains one of the terms; the reason names it: `prune: not sure`."""

    name = "prune"
    Settings = PruneSettings
    adds = "column"

    def compute(self, item: Item) -> Outcome:
        for record in kept(item):
            term = pruned_by((record[name] for name in PAIR), self.settings.terms)
            if term is not None:
                record["reason"] = f"{self.label}: {term}"
        return Done()


class DelexicaliseSettings(StepSettings):
    """Settings of the step delexicalise: the placeholder for names."""

    placeholder: str = Field(
        PLACEHOLDER, min_length=1, description="Text that replaces a name of the protein."
    )


class Delexicalise(Step):
    """Replaces the names of the protein in question and answer; if it was mapped, all names of its entry."""

    name = "delexicalise"
    Settings = DelexicaliseSettings
    adds = "column"
    columns = (
        Column("question_with_names", "string", "The question before names were replaced."),
        Column("answer_with_names", "string", "The answer before names were replaced."),
        Column("names_replaced", "int64", "Names that were replaced in both."),
    )

    def compute(self, item: Item) -> Outcome:
        for record in kept(item):
            finder = name_finder([record["protein"], *record.get("names", ())])
            record["names_replaced"] = 0
            for name in PAIR:
                record[f"{name}_with_names"] = record[name]
                record[name], replaced = delexicalise(record[name], finder, self.settings.placeholder)
                record["names_replaced"] += len(replaced)
        return Done()
