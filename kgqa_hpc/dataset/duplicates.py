"""Accepted questions that an earlier one has already, word for word or nearly.

Near duplicates: MinHash signatures of 128 permutations (rensa) are cut into bands, and questions that agree
in a whole band are candidates; how many rows a band has follows from the threshold, so that a pair at it is
missed in less than one of a thousand cases. Candidates are then compared exactly, by the Jaccard index of
their character 5-grams, so nothing below the threshold is ever rejected. Of each group connected by such
pairs the first record stays.

Memory is bounded: signatures and questions lie in files, one band at a time is in memory (8 bytes a record).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.errors import InputError
from kgqa_hpc.plain_text import normalized

PERMUTATIONS = 128
MISSED = 1e-3  # share of pairs at the threshold that bands may miss
BATCH = 1024  # questions hashed at a time
GRAM = 5  # characters of a gram
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-case words without punctuation (NFKC, case folded)."""
    return _WORD.findall(normalized("NFKC", text).casefold())


def grams(text: str) -> set[str]:
    """The distinct character 5-grams of the words, joined by single spaces; a shorter text is one gram."""
    plain = " ".join(words(text))
    return {plain[i : i + GRAM] for i in range(len(plain) - GRAM + 1)} or {plain}


def exact_duplicates(rows: Rows) -> np.ndarray:
    """Numbers of accepted rows whose question has the words of an earlier accepted one."""
    accepted = rows.accepted
    digests = np.empty((len(accepted), 2), np.uint64)
    for place, (_, pair) in enumerate(rows.pairs(accepted)):
        plain = " ".join(words(pair["question"])).encode()
        digests[place] = np.frombuffer(hashlib.blake2b(plain, digest_size=16).digest(), np.uint64)
    order = np.lexsort((np.arange(len(accepted)), digests[:, 1], digests[:, 0]))
    repeated = (digests[order][1:] == digests[order][:-1]).all(axis=1)
    return np.sort(accepted[order[1:][repeated]])


def near_duplicates(rows: Rows, threshold: float, seed: int, scratch: Path) -> np.ndarray:
    """Numbers of accepted rows that are connected to an earlier one by questions as similar as `threshold`.

    Raises InputError when rensa is not installed.
    """
    accepted = rows.accepted
    bands, height = band_shape(threshold)
    questions = _Questions(scratch / "questions", len(accepted))
    try:
        files = [(scratch / f"band-{band}").open("w+b") for band in range(bands)]
        for signatures in _signatures(rows, accepted, questions, seed):
            for band, file in enumerate(files):
                file.write(_band_hash(signatures[:, band * height : (band + 1) * height]).tobytes())
        groups = _Groups(len(accepted))
        for file in files:
            file.seek(0)
            _compare(np.frombuffer(file.read(), np.uint64), questions, threshold, groups)
            file.close()
    finally:
        questions.close()
    return accepted[groups.later()]


def band_shape(threshold: float) -> tuple[int, int]:
    """Bands and signature rows per band: the highest bands that miss few enough pairs at the threshold."""
    for height in range(PERMUTATIONS, 1, -1):
        bands = PERMUTATIONS // height
        if (1 - threshold**height) ** bands <= MISSED:
            return bands, height
    return PERMUTATIONS, 1


def _signatures(rows: Rows, accepted: np.ndarray, questions: _Questions, seed: int) -> Iterator[np.ndarray]:
    """(batch, 128) uint32 for the accepted questions in their order."""
    try:
        from rensa import RMinHash
    except ImportError:
        raise InputError(
            "dataset.duplicates.near needs rensa, which is not installed", "pip install 'rensa>=0.5'"
        ) from None
    batch: list[list[str]] = []
    for _, pair in rows.pairs(accepted):
        questions.add(pair["question"])
        batch.append(sorted(grams(pair["question"])))
        if len(batch) == BATCH:
            yield np.array(RMinHash.digests_from_token_sets(batch, PERMUTATIONS, seed % 2**32), np.uint32)
            batch = []
    if batch:
        yield np.array(RMinHash.digests_from_token_sets(batch, PERMUTATIONS, seed % 2**32), np.uint32)


def _band_hash(rows: np.ndarray) -> np.ndarray:
    """64 bits of each row's values; equal rows have equal ones."""
    mixed = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _compare(band: np.ndarray, questions: _Questions, threshold: float, groups: _Groups) -> None:
    """Join those of equal band hash that are as similar as the threshold."""
    order = np.argsort(band, kind="stable")
    borders = np.flatnonzero(band[order][1:] != band[order][:-1]) + 1
    for bucket in np.split(order, borders):
        if len(bucket) < 2:
            continue
        firsts: list[int] = []  # of each similar set in this bucket: later ones are compared with these
        for one in bucket.tolist():
            match = next((first for first in firsts if groups.same(first, one)), None)
            if match is None:
                match = next((f for f in firsts if questions.similarity(f, one) >= threshold), None)
                if match is None:
                    firsts.append(one)
                else:
                    groups.join(match, one)


class _Groups:
    """Union-find over places; the first of a group is its root."""

    def __init__(self, size: int) -> None:
        self._parent = np.arange(size, dtype=np.int64)

    def _root(self, one: int) -> int:
        parent = self._parent
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = int(parent[one])
        return one

    def same(self, one: int, other: int) -> bool:
        return self._root(one) == self._root(other)

    def join(self, one: int, other: int) -> None:
        one, other = self._root(one), self._root(other)
        self._parent[max(one, other)] = min(one, other)

    def later(self) -> np.ndarray:
        """Places that are not the first of their group."""
        return np.flatnonzero(self._parent != np.arange(len(self._parent)))


class _Questions:
    """Questions in a file, read again when two are compared."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = path.open("w+b")
        self._ends = np.zeros(size + 1, np.int64)
        self._count = 0
        self._grams = lru_cache(maxsize=4096)(self._read)

    def add(self, question: str) -> None:
        data = question.encode("utf-8", "replace")
        self._file.write(data)
        self._count += 1
        self._ends[self._count] = self._ends[self._count - 1] + len(data)

    def similarity(self, one: int, other: int) -> float:
        """The Jaccard index of two questions' grams."""
        self._file.flush()
        mine, theirs = self._grams(one), self._grams(other)
        return len(mine & theirs) / len(mine | theirs)

    def _read(self, place: int) -> set[str]:
        start, end = int(self._ends[place]), int(self._ends[place + 1])
        return grams(os.pread(self._file.fileno(), end - start, start).decode())

    def close(self) -> None:
        self._file.close()
