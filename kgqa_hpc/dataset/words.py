"""Words and character 5-grams of a question, and their MinHash signatures, for the search for duplicates.

A signature of 128 permutations (rensa) is cut into bands, each a column that staging adds; questions with an equal band
are compared (duplicates.py). The height of a band is the largest at which a pair at the threshold is missed with a
probability below 0.001.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kgqa_hpc.config import RunConfig
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.plain_text import normalized

GRAM = 5  # characters per gram
PERMUTATIONS = 128
MISSED = 1e-3  # share of pairs at the threshold that bands may miss
BATCH = 64  # questions hashed at a time: their grams stay in the processor's cache
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


def band_shape(threshold: float) -> tuple[int, int]:
    """Bands and signature rows per band: the highest bands that miss few enough pairs at the threshold."""
    for height in range(PERMUTATIONS, 1, -1):
        bands = PERMUTATIONS // height
        if (1 - threshold**height) ** bands <= MISSED:
            return bands, height
    return PERMUTATIONS, 1


def band_name(number: int) -> str:
    """The name of the staged column of a band."""
    return f"band_{number:03d}"


class Signatures:
    """Band hashes of questions for a run's threshold. Raises InputError when rensa is not installed."""

    def __init__(self, config: RunConfig) -> None:
        duplicates = config.dataset.duplicates
        near = None if duplicates is None else duplicates.near
        self._bands, self._height = (0, 0) if near is None else band_shape(near)
        self._seed = config.seed % 2**32
        self._hasher: Any = None
        if near is not None:
            try:
                from rensa import RMinHash
            except ImportError:
                raise InputError(
                    "dataset.duplicates.near needs rensa, which is not installed", "pip install 'rensa>=0.5'"
                ) from None
            self._hasher = RMinHash

    @property
    def schema(self) -> list[pa.Field]:
        """One uint64 column per band; none where no near duplicates are looked for."""
        return [pa.field(band_name(number), pa.uint64()) for number in range(self._bands)]

    def columns(self, texts: Sequence[str | None]) -> list[pa.Array]:
        """The columns for words joined by spaces; null where there is no text."""
        has = np.array([text is not None for text in texts], bool)
        hashes = np.zeros((self._bands, len(texts)), np.uint64)
        if self._bands and has.any():
            hashes[:, has] = self._hashes([text for text in texts if text is not None]).T
        return [pa.array(band, mask=~has) for band in hashes]

    def _hashes(self, texts: list[str]) -> np.ndarray:
        """Band hashes of the texts: uint64, shape (texts, bands); equal bands of a signature have equal hashes."""
        signatures = []
        for start in range(0, len(texts), BATCH):
            sets = [grams_of_words(text) for text in texts[start : start + BATCH]]
            signatures += self._hasher.digests_from_token_sets(sets, PERMUTATIONS, self._seed)
        used = np.array(signatures, np.uint32)[:, : self._bands * self._height]
        mixed = np.zeros((len(texts), self._bands), np.uint64)
        for values in used.reshape(-1, self._bands, self._height).transpose(2, 0, 1):
            mixed = (mixed ^ values) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        return mixed
