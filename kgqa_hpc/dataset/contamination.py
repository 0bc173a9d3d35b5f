"""The search for accepted records that contain a test item: a model must not be trained on them.

A record is contaminated when its question or answer shares `window` consecutive words with a test item's question
or long answer, or contains a shorter test question as a whole. Words are compared in lower case and without
punctuation, so line breaks do not matter. Test questions of one or two words are skipped: most texts contain them.
"""

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc.config.sections import EvaluationSet
from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.dataset.duplicates import words
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.streams import TextStream, json_lines, open_bytes, parse_json

_FACTOR = np.uint64(0x100000001B3)  # multiplier of the rolling hash; odd, so that all words count
BATCH = 1000  # records compared at once
SHORTEST = 3  # words of the shortest question that is searched for as a whole
QUESTION_FIELDS = ("question", "query", "prompt", "problem", "instruction", "input", "sentence", "text")
ANSWER_FIELDS = ("long_answer", "answer", "output", "response", "completion", "target", "solution")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))


@dataclass(frozen=True, slots=True)
class EvaluationTexts:
    """A test set: its file name, the names of its fields, and (question words, answer words) of every item."""

    name: str
    question: str
    answer: str | None
    texts: list[tuple[list[str], list[str]]]

    def left_aside(self, window: int) -> int:
        """Number of items that are not searched for: their texts are missing or too short."""
        return sum(len(q) < SHORTEST and len(a) < window for q, a in self.texts)


def read_test_sets(files: Iterable[str | EvaluationSet]) -> list[EvaluationTexts]:
    """Read test files. Raises InputError for an unreadable file or a file without a question field."""
    return [_read(EvaluationSet(path=file) if isinstance(file, str) else file) for file in files]


def _read(test: EvaluationSet) -> EvaluationTexts:
    """The texts of a file; the fields of question and answer are as given, or guessed from the first items."""
    path, items = Path(test.path), list[dict[Any, Any]]()
    for number, item in enumerate(_items(path), start=1):
        if not isinstance(item, dict):
            raise InputError(f"{path} item {number:,}: is no object with fields", "give one object per line")
        items.append(item)
    names = list(dict.fromkeys(str(name) for item in items for name in item))
    if not names:
        raise InputError(f"{path}: holds no test item", "remove it from dataset.decontaminate")
    fields = {}
    roles = ("question", test.question, QUESTION_FIELDS), ("answer", test.answer, ANSWER_FIELDS)
    for role, requested, usual in roles:
        fields[role] = next(filter(None, (_name(item, requested, usual) for item in items)), None)
        if fields[role] is None and (requested or role == "question"):
            raise InputError(
                f"{path}: no field {requested or f'for the {role}'} among {', '.join(names[:20])}",
                f"name it: dataset.decontaminate: [{{path: …, {role}: NAME}}]",
            )
    question, answer = str(fields["question"]), fields["answer"]
    texts = [(visible_words(item.get(question)), visible_words(item.get(answer))) for item in items]
    return EvaluationTexts(path.name, question, answer, texts)


def visible_words(value: Any) -> list[str]:
    """The words of a text without invisible characters (soft hyphens, zero-width spaces)."""
    if not isinstance(value, str):
        return []
    return words(value if value.isascii() else value.translate(_INVISIBLE))


def _name(item: dict[str, Any], requested: str | None, usual: tuple[str, ...]) -> str | None:
    """The name of the requested field, or of the first usual one that is a text; None if the item has none."""
    if requested is not None:
        return requested if requested in item else None
    by_lower_case = {str(name).lower(): name for name in item if isinstance(item[name], str)}
    return next((by_lower_case[name] for name in usual if name in by_lower_case), None)


def _items(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise InputError(
            f"{path}: no such file", "name a JSONL, JSON or Parquet file in dataset.decontaminate"
        )
    if path.suffix == ".parquet":
        try:
            with open_bytes(path) as file:
                for batch in pq.ParquetFile(file).iter_batches(1024):
                    yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{path}: not Parquet, or damaged: {problem}", "mend or remove it") from None
        return
    with TextStream(path) as file:
        kinds = [suffix for suffix in path.suffixes[-2:] if suffix in (".json", ".jsonl", ".ndjson")]
        if kinds[-1:] != [".json"]:  # also .json.gz
            yield from (item for _, item in json_lines(io.BufferedReader(file), path))
            return
        try:
            document = parse_json(file.readall())
        except ValueError as problem:
            raise InputError(f"{path}: not JSON: {problem}", "mend or remove it") from None
        yield from document.values() if isinstance(document, dict) else document


def contaminated(candidates: Candidates, tests: list[EvaluationTexts], window: int) -> np.ndarray:
    """Row numbers of the accepted records that contain a test item: int64, ascending.

    Raises InputError for a test set without a text that is long enough.
    """
    forbidden = _forbidden(tests, window)
    hits: list[int] = []
    records = candidates.staged.records(candidates.accepted)
    while batch := list(islice(records, BATCH)):
        texts = [
            (row, _hashes(visible_words(record[name])))
            for row, record in batch
            for name in ("question", "answer")
        ]
        for length, hashes in forbidden.items():
            windows = [_windows(text, length) for _, text in texts]
            owners = np.repeat([row for row, _ in texts], list(map(len, windows)))
            hits += owners[np.isin(np.concatenate(windows), hashes)].tolist()
    return np.unique(np.array(hits, np.int64))


def _forbidden(tests: list[EvaluationTexts], window: int) -> dict[int, np.ndarray]:
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
                hashes.setdefault(len(question), []).append(_windows(_hashes(question), len(question)))
            for text in (question, answer):
                if len(text) >= window:
                    hashes.setdefault(window, []).append(_windows(_hashes(text), window))
    return {length: np.unique(np.concatenate(parts)) for length, parts in hashes.items()}


def _windows(text: np.ndarray, length: int) -> np.ndarray:
    """64-bit hashes of all windows of `length` consecutive words: uint64, shape (words - length + 1,)."""
    number = len(text) - length + 1
    if number <= 0:
        return np.empty(0, np.uint64)
    mixed = np.zeros(number, np.uint64)
    for offset in range(length):
        mixed = mixed * _FACTOR + text[offset : offset + number]
    return mixed


def _hashes(text: list[str]) -> np.ndarray:
    """A 64-bit hash of every word, the same in every run: uint64, shape (words,)."""
    return np.array(list(map(_hash, text)), np.uint64)


@lru_cache(1_000_000)
def _hash(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
