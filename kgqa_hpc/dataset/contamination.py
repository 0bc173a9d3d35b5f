"""The search for accepted records that contain a test item, which a model must not be trained on.

A record is contaminated when its question or answer shares `window` consecutive words with a test item's question
or long answer, or contains a shorter test question as a whole. Words are compared in lower case and without
punctuation, so line breaks do not matter. Test questions of one or two words are skipped: most texts contain them.
"""

from __future__ import annotations

import hashlib
from itertools import islice

import numpy as np

from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.dataset.test_sets import SHORTEST, EvaluationTexts, visible_words
from kgqa_hpc.errors import InputError

_FACTOR = np.uint64(0x100000001B3)  # multiplier of the rolling hash; odd, so no position of a window is lost
BATCH = 1000  # records compared at once


def contaminated(candidates: Candidates, tests: list[EvaluationTexts], window: int) -> np.ndarray:
    """Row numbers of the accepted records that contain a test item: int64, ascending.

    Raises InputError for a test set without a text that is long enough.
    """
    vocabulary = _Vocabulary()
    forbidden = _wanted(tests, window, vocabulary)
    hits: list[int] = []
    records = candidates.staged.records(candidates.accepted)
    while batch := list(islice(records, BATCH)):
        texts = [(row, record[name]) for row, record in batch for name in ("question", "answer")]
        hits += _hits([(row, vocabulary.hashes(visible_words(text))) for row, text in texts], forbidden)
    return np.unique(np.array(hits, np.int64))


def _wanted(tests: list[EvaluationTexts], window: int, vocabulary: _Vocabulary) -> dict[int, np.ndarray]:
    """Sorted hashes of the word windows that must not occur, by their length in words."""
    hashes: dict[int, list[np.ndarray]] = {}
    for test in tests:
        if test.left_aside(window) == len(test.texts):
            long = f" or {window} in {test.answer!r}" if test.answer else ""
            raise InputError(
                f"{test.name}: no item has {SHORTEST} words in {test.question!r}{long}",
                "name its fields: dataset.decontaminate: [{path: …, question: NAME, answer: NAME}]",
            )
        for question, answer in test.texts:
            if SHORTEST <= len(question) < window:
                hashes.setdefault(len(question), []).append(
                    _windows(vocabulary.hashes(question), len(question))
                )
            for text in (question, answer):
                if len(text) >= window:
                    hashes.setdefault(window, []).append(_windows(vocabulary.hashes(text), window))
    return {length: np.unique(np.concatenate(parts)) for length, parts in hashes.items()}


def _hits(batch: list[tuple[int, np.ndarray]], forbidden: dict[int, np.ndarray]) -> list[int]:
    """Row numbers of the texts of a batch that contain a forbidden window."""
    hits: list[int] = []
    for length, hashes in forbidden.items():
        windows = [_windows(text, length) for _, text in batch]
        owners = np.repeat([row for row, _ in batch], [len(hashes_of_text) for hashes_of_text in windows])
        if len(owners):
            hits += owners[np.isin(np.concatenate(windows), hashes)].tolist()
    return hits


def _windows(text: np.ndarray, length: int) -> np.ndarray:
    """64-bit hashes of all windows of `length` consecutive words: uint64, shape (words - length + 1,)."""
    number = len(text) - length + 1
    if number <= 0:
        return np.empty(0, np.uint64)
    mixed = np.zeros(number, np.uint64)
    for offset in range(length):
        mixed = mixed * _FACTOR + text[offset : offset + number]
    return mixed


class _Vocabulary:
    """A 64-bit hash for every word, the same in every run."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def hashes(self, text: list[str]) -> np.ndarray:
        numbers = self._numbers
        for word in text:
            if word not in numbers:
                digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
                numbers[word] = int.from_bytes(digest, "little")
        return np.array([numbers[word] for word in text], np.uint64)
