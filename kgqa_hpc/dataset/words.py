"""Words and character 5-grams of a question, as the search for duplicates compares them."""

from __future__ import annotations

import re

import numpy as np

from kgqa_hpc.text.plain_text import normalized

GRAM = 5  # characters of a gram
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-case words without punctuation (NFKC, case folded)."""
    return _WORD.findall(normalized("NFKC", text).casefold())


def grams(text: str) -> set[str]:
    """The distinct character 5-grams of the words, joined by single spaces; a shorter text is one gram."""
    return set(grams_of_words(" ".join(words(text))))


def grams_of_words(plain: str) -> list[str]:
    """All grams of joined words, by position; a strided view of the characters, which is faster than slicing."""
    if len(plain) <= GRAM:
        return [plain]
    characters = plain.encode("utf-32-le")
    grams: list[str] = np.ndarray(len(plain) - GRAM + 1, f"<U{GRAM}", characters, strides=(4,)).tolist()
    return grams
