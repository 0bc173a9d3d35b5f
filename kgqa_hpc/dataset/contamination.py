"""Accepted records that contain a test item: a model must not be trained on the set it is tested on.

A record is contaminated when its question or answer shares `window` words in a row with a test item's question or
long answer, or holds a whole question that is shorter. Words are compared in lower case and without punctuation,
so text that was wrapped again hides nothing. Questions of one or two words are left aside: they are in everything.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.config.dataset import EvaluationSet
from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.dataset.sketches import words
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.bounded_json import json_lines, loads
from kgqa_hpc.text.streams import TextStream

SHORTEST = 3  # words of a question that is looked for whole
QUESTION_FIELDS = ("question", "query", "prompt", "problem", "instruction", "input", "sentence", "text")
ANSWER_FIELDS = ("long_answer", "answer", "output", "response", "completion", "target", "solution")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_FACTOR = np.uint64(0x100000001B3)  # odd, so that every place in a window counts
BATCH = 2000  # records looked at together


@dataclass(frozen=True, slots=True)
class EvaluationTexts:
    """One test set: file name, the fields of question and answer, (question words, answer words) of every item."""

    name: str
    question: str
    answer: str | None
    texts: list[tuple[list[str], list[str]]]

    def left_aside(self, window: int) -> int:
        """Items of which nothing is looked for: no text in these fields, or too short a one."""
        return sum(len(q) < SHORTEST and len(a) < window for q, a in self.texts)


def read_test_sets(files: Iterable[str | EvaluationSet]) -> list[EvaluationTexts]:
    """Read test files. Raises InputError for one that cannot be read or has no question field."""
    return [_read(EvaluationSet(path=one) if isinstance(one, str) else one) for one in files]


def contaminated(rows: Rows, tests: list[EvaluationTexts], window: int) -> np.ndarray:
    """Numbers of the accepted rows that contain a test item.

    Raises InputError for a test set that holds nothing to look for.
    """
    vocabulary = _Vocabulary()
    wanted = _wanted(tests, window, vocabulary)
    hits: list[int] = []
    batch: list[tuple[int, np.ndarray]] = []
    for row, pair in rows.pairs(rows.accepted):
        texts = (vocabulary.hashes(_words(pair[name])) for name in ("question", "answer"))
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
        if test.left_aside(window) == len(test.texts):
            long = f" or {window} in {test.answer!r}" if test.answer else ""
            raise InputError(
                f"{test.name}: no item has {SHORTEST} words in {test.question!r}{long}",
                "name its fields: dataset.decontaminate: [{path: …, question: NAME, answer: NAME}]",
            )
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
    question, answer = _fields(path, test)
    texts = [(_words(item.get(question)), _words(item.get(answer))) for item in _objects(path)]
    return EvaluationTexts(path.name, question, answer, texts)


def _words(value: Any) -> list[str]:
    """The words of a text as a reader sees it: soft hyphens and blanks of no width are not there."""
    if not isinstance(value, str):
        return []
    return words(value if value.isascii() else value.translate(_INVISIBLE))


def _fields(path: Path, test: EvaluationSet) -> tuple[str, str | None]:
    """The names of question and answer, given or as the first items that have such texts call them."""
    question = answer = None
    known: dict[str, None] = {}
    for item in _objects(path):
        known |= dict.fromkeys(map(str, item))
        question = question or _name(item, test.question, QUESTION_FIELDS)
        answer = answer or _name(item, test.answer, ANSWER_FIELDS)
        if question and answer:
            break
    if not known:
        raise InputError(f"{path}: holds no test item", "remove it from dataset.decontaminate")
    for found, given, what in ((question, test.question, "question"), (answer, test.answer, "answer")):
        if found is None and (given or what == "question"):
            raise InputError(
                f"{path}: no field {given or f'for the {what}'} among {', '.join(list(known)[:20])}",
                f"name it: dataset.decontaminate: [{{path: …, {what}: NAME}}]",
            )
    assert question is not None
    return question, answer


def _name(item: dict[str, Any], given: str | None, names: tuple[str, ...]) -> str | None:
    if given is not None:
        return given if given in item else None
    known = {str(name).lower(): name for name in item if isinstance(item[name], str)}
    return next((known[name] for name in names if name in known), None)


def _objects(path: Path) -> Iterator[dict[Any, Any]]:
    for number, item in enumerate(_items(path), start=1):
        if not isinstance(item, dict):
            raise InputError(f"{path} item {number:,}: is no object with fields", "give one object per line")
        yield item


def _items(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise InputError(
            f"{path}: no such file", "name a JSONL, JSON or Parquet file in dataset.decontaminate"
        )
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            for batch in pq.ParquetFile(path).iter_batches(1024):
                yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{path}: not Parquet, or damaged: {problem}", "mend or remove it") from None
        return
    with TextStream(path) as file:
        kinds = [one for one in path.suffixes[-2:] if one in (".json", ".jsonl", ".ndjson")]  # .json.gz
        if kinds[-1:] == [".json"]:
            yield from _document(file.readall(), path)
        else:
            yield from (item for _, item in json_lines(io.BufferedReader(file), path))


def _document(data: bytes, path: Path) -> Iterator[Any]:
    try:
        document = loads(data)
    except ValueError as problem:
        raise InputError(f"{path}: not JSON: {problem}", "mend or remove it") from None
    yield from document.values() if isinstance(document, dict) else document
