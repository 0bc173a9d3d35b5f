"""Texts in the form in which they are compared: case, punctuation and line breaks make no difference."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+")
GRAM = 5  # characters of a gram


def words(text: str) -> list[str]:
    """Lower-case words without punctuation (NFKC, case folded)."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def grams(text: str) -> set[str]:
    """The distinct character 5-grams of the words, joined by single spaces; a shorter text is one gram."""
    plain = " ".join(words(text))
    return {plain[i : i + GRAM] for i in range(len(plain) - GRAM + 1)} or {plain}
