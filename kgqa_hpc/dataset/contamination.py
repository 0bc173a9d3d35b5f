"""Accepted records that contain a test item: a model must not be trained on the set it is tested on.

A record is contaminated when its question or answer shares `window` words in a row with a test item's question or
long answer, or holds a whole question that is shorter. Words are compared in lower case and without punctuation,
so text that was wrapped again hides nothing. Questions of one or two words are left aside: they are in everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kgqa_hpc.config.dataset import EvaluationSet
from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.dataset.sketches import words
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.bounded_json import json_lines

SHORTEST = 3  # words of a question that is looked for whole
QUESTION_FIELDS = ("question", "query", "prompt", "problem", "instruction", "input", "sentence", "text")
ANSWER_FIELDS = ("long_answer", "answer", "output", "response", "completion", "target", "solution")
_FACTOR = np.uint64(0x100000001B3)  # odd, so that every place in a window counts
BATCH = 2000  # records looked at together


@dataclass(frozen=True, slots=True)
class EvaluationTexts:
    """One test set: its file name, and (question words, answer words) of every item."""

    name: str
    texts: list[tuple[list[str], list[str]]]


def read_test_sets(files: Iterable[str | EvaluationSet]) -> list[EvaluationTexts]:
    """Read test files. Raises InputError for one that cannot be read or has no question field."""
    return [_read(EvaluationSet(path=one) if isinstance(one, str) else one) for one in files]


def contaminated(rows: Rows, tests: list[EvaluationTexts], window: int) -> np.ndarray:
    """Numbers of the accepted rows that contain a test item."""
    vocabulary = _Vocabulary()
    wanted = _wanted(tests, window, vocabulary)
    hits: list[int] = []
    batch: list[tuple[int, np.ndarray]] = []
    for row, pair in rows.pairs(rows.accepted):
        texts = (vocabulary.hashes(words(pair[name])) for name in ("question", "answer"))
        batch += [(row, text) for text in texts]
        if len(batch) >= BATCH:
            hits += _hits(batch, wanted)
            batch = []
    hits += _hits(batch, wanted)
    return np.unique(np.array(hits, np.int64))


def _wanted(tests: list[EvaluationTexts], window: int, vocabulary: _Vocabulary) -> dict[int, np.ndarray]:
    """By length in words the sorted hashes of what must not occur."""
    found: dict[int, list[np.ndarray]] = {}
    for test in tests:
        for question, answer in test.texts:
            if SHORTEST <= len(question) < window:
                found.setdefault(len(question), []).append(
                    _windows(vocabulary.hashes(question), len(question))
                )
            for text in (question, answer):
                if len(text) >= window:
                    found.setdefault(window, []).append(_windows(vocabulary.hashes(text), window))
    return {length: np.unique(np.concatenate(parts)) for length, parts in found.items()}


def _hits(batch: list[tuple[int, np.ndarray]], wanted: dict[int, np.ndarray]) -> list[int]:
    """Rows of a batch whose text holds any of the wanted windows."""
    hits: list[int] = []
    for length, known in wanted.items():
        windows = [_windows(text, length) for _, text in batch]
        owners = np.repeat([row for row, _ in batch], [len(one) for one in windows])
        if len(owners):
            hits += owners[np.isin(np.concatenate(windows), known)].tolist()
    return hits


def _windows(text: np.ndarray, length: int) -> np.ndarray:
    """64-bit hashes of every `length` words in a row."""
    number = len(text) - length + 1
    if number <= 0:
        return np.empty(0, np.uint64)
    mixed = np.zeros(number, np.uint64)
    for place in range(length):
        mixed = mixed * _FACTOR + text[place : place + number]
    return mixed


class _Vocabulary:
    """A random 64-bit number for every word, the same in every run."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def hashes(self, text: list[str]) -> np.ndarray:
        import hashlib

        known = self._numbers
        for word in text:
            if word not in known:
                digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
                known[word] = int.from_bytes(digest, "little")
        return np.array([known[word] for word in text], np.uint64)


def _read(test: EvaluationSet) -> EvaluationTexts:
    path = Path(test.path)
    texts = []
    names: tuple[str, str | None] | None = None
    for number, item in enumerate(_items(path), start=1):
        if not isinstance(item, dict):
            raise InputError(f"{path} item {number:,}: is no object with fields", "give one object per line")
        names = names or _fields(path, test, item)
        question, answer = item.get(names[0]), item.get(names[1]) if names[1] else None
        texts.append((_words(question), _words(answer)))
    if not texts:
        raise InputError(f"{path}: holds no test item", "remove it from dataset.decontaminate")
    return EvaluationTexts(path.name, texts)


def _words(value: Any) -> list[str]:
    return words(value) if isinstance(value, str) else []


def _fields(path: Path, test: EvaluationSet, item: dict[str, Any]) -> tuple[str, str | None]:
    question = test.question or _guess(item, QUESTION_FIELDS)
    if question not in item:
        raise InputError(
            f"{path}: no field {test.question or 'for the question'} among {', '.join(map(str, item))}",
            "name it: dataset.decontaminate: [{path: …, question: NAME}]",
        )
    if test.answer is not None and test.answer not in item:
        raise InputError(f"{path}: no field {test.answer} among {', '.join(map(str, item))}")
    return question, test.answer or _guess(item, ANSWER_FIELDS)


def _guess(item: dict[str, Any], names: tuple[str, ...]) -> str | None:
    known = {str(name).lower(): name for name in item if isinstance(item[name], str)}
    return next((known[name] for name in names if name in known), None)


def _items(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise InputError(
            f"{path}: no such file", "name a JSONL, JSON or Parquet file in dataset.decontaminate"
        )
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches(1024):
            yield from batch.to_pylist()
        return
    if path.suffix == ".json":
        try:
            document = orjson.loads(path.read_bytes())
        except ValueError as problem:
            raise InputError(f"{path}: not JSON: {problem}", "mend or remove it") from None
        yield from document.values() if isinstance(document, dict) else document
        return
    with path.open("rb") as file:
        yield from (item for _, item in json_lines(file, path))
