"""Clean names by the recipe's rules, and count each change.

In this order: control characters become blanks; underscores too where the recipe says so; stated endings and
a reference to a data base in brackets at the end are cut (`Imatinib [DB00619]`, `a [Source:HGNC;Acc:7]`);
runs of blanks become one; then Unicode NFC. A name that is an identifier is none, and an overlong one is
kept, cut or dropped as the recipe says.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

from kgqa_hpc.plugins.biokg.hydrate.recipe import Rules
from kgqa_hpc.text.plain_text import normalized

_BRACKETS = {"]": "[", ")": "("}
# Characters that are looked at: more than any name has, and few enough to be quick.
_LIMIT = 10_000


def cleaned(
    text: str,
    identifiers: Iterable[str],
    rules: Rules,
    counts: Counter[str],
    *,
    underscores: bool = False,
    suffixes: Iterable[str] = (),
) -> str:
    """The name in a text, or "" when it is none; what was changed or refused is counted in `counts`.

    `identifiers`: the ids the text was looked up by.
    """
    identifiers_folded = {identifier.casefold() for identifier in identifiers if identifier}
    text = text[:_LIMIT]
    if not text.isprintable():
        counts["control_characters"] += any(unicodedata.category(letter) == "Cc" for letter in text)
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    if underscores and "_" in text:
        counts["underscores"] += 1
        text = text.replace("_", " ")
    name = normalized("NFC", " ".join(_without_endings(text, identifiers_folded, suffixes, counts).split()))
    if not name:
        return ""
    if rules.ids == "drop" and is_identifier(name, identifiers_folded):
        counts["identifiers"] += 1
        return ""
    if len(name) > rules.longest:
        counts["overlong"] += 1
        if rules.overlong == "drop":
            return ""
        if rules.overlong == "cut":
            return name[: rules.longest - 1].rstrip() + "…"
    return name


def is_identifier(name: str, identifiers: set[str]) -> bool:
    """Whether a name is one of the ids, a CURIE (HP:0000118, MESH:D01), an IRI, or nothing but digits."""
    if name.casefold() in identifiers or name.isdigit() or name.startswith(("http://", "https://")):
        return True
    prefix, colon, local = name.partition(":")
    if not colon or " " in name or not prefix.replace("_", "").replace(".", "").isalnum():
        return False
    return (
        name.casefold().endswith(tuple(identifiers))
        if identifiers
        else any(letter.isdigit() for letter in local)
    )


def _without_endings(text: str, identifiers: set[str], suffixes: Iterable[str], counts: Counter[str]) -> str:
    text = text.strip()
    for suffix in suffixes:
        if text.endswith(suffix) and len(text) > len(suffix):
            text = text[: -len(suffix)].rstrip()
            counts["suffixes"] += 1
    opening = _BRACKETS.get(text[-1:])
    if opening:
        begin, bracket, inside = text[:-1].rpartition(opening)
        if bracket and begin.strip() and _is_reference(inside.strip(), identifiers):
            counts["suffixes"] += 1
            return begin
    return text


def _is_reference(inside: str, identifiers: set[str]) -> bool:
    if inside.casefold() in identifiers or inside.casefold().startswith("source:"):
        return True
    prefix, colon, local = inside.partition(":")
    return (
        bool(colon)
        and prefix.isalnum()
        and " " not in inside
        and any(character.isdigit() for character in local)
    )
