"""Accepted records that contain a test item: a model must not be trained on the set it is tested on.

A record is contaminated when its question or answer shares `window` words in a row with a test item's question or
long answer, or holds a whole question that is shorter. Words are compared in lower case and without punctuation,
so text that was wrapped again hides nothing. Questions of one or two words are left aside: they are in everything.
"""

from __future__ import annotations

import hashlib
from itertools import islice

import numpy as np

from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.dataset.test_sets import SHORTEST, EvaluationTexts, visible_words
from kgqa_hpc.errors import InputError

_FACTOR = np.uint64(0x100000001B3)  # odd, so that every position in a window counts
BATCH = 1000  # records looked at together


def contaminated(candidates: Candidates, tests: list[EvaluationTexts], window: int) -> np.ndarray:
    """Numbers of the accepted rows that contain a test item.

    Raises InputError for a test set that holds nothing to look for.
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
    """By length in words the sorted hashes of what must not occur."""
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
    """Rows of a batch whose text holds any of the wanted windows."""
    hits: list[int] = []
    for length, hashes in forbidden.items():
        windows = [_windows(text, length) for _, text in batch]
        owners = np.repeat([row for row, _ in batch], [len(hashes_of_text) for hashes_of_text in windows])
        if len(owners):
            hits += owners[np.isin(np.concatenate(windows), hashes)].tolist()
    return hits


def _windows(text: np.ndarray, length: int) -> np.ndarray:
    """64-bit hashes of every `length` words in a row."""
    number = len(text) - length + 1
    if number <= 0:
        return np.empty(0, np.uint64)
    mixed = np.zeros(number, np.uint64)
    for offset in range(length):
        mixed = mixed * _FACTOR + text[offset : offset + number]
    return mixed


class _Vocabulary:
    """A random 64-bit number for every word, the same in every run."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def hashes(self, text: list[str]) -> np.ndarray:
        numbers = self._numbers
        for word in text:
            if word not in numbers:
                digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
                numbers[word] = int.from_bytes(digest, "little")
        return np.array([numbers[word] for word in text], np.uint64)
