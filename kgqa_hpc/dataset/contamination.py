"""The search for accepted records that contain a test item: a model must not be trained on them.

A record is contaminated when its question or answer shares `window` consecutive words with a test item's question
or long answer, or contains a shorter test question as a whole. Words are compared in lower case and without
punctuation, so line breaks do not matter. Test questions of one or two words are skipped: most texts contain them.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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

SHORTEST = 3  # smallest number of words of a question that is searched for as a whole
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

    Memory: about 250 bytes per word of the test sets. Raises InputError for a test set without a text that is long
    enough.
    """
    passages, starts, lengths = set[str](), set[tuple[str, ...]](), set[int]()
    for sequence in _passages(tests, window):
        passages.add(" ".join(sequence))
        starts.add(tuple(sequence[:SHORTEST]))
        lengths.add(len(sequence))

    def holds(text: list[str]) -> bool:
        shifted = (text[offset:] for offset in range(SHORTEST))
        return any(
            " ".join(text[position : position + length]) in passages
            for position, start in enumerate(zip(*shifted, strict=False))
            if start in starts
            for length in lengths
        )

    hits = [
        row
        for row, record in candidates.staged.records(candidates.accepted)
        if any(holds(visible_words(record[name])) for name in ("question", "answer"))
    ]
    return np.array(hits, np.int64)


def _passages(tests: list[EvaluationTexts], window: int) -> Iterator[list[str]]:
    """The word sequences that must not occur: short questions, and every `window` of longer texts."""
    for test in tests:
        if test.left_aside(window) == len(test.texts):
            long = f" or {window} in {test.answer!r}" if test.answer else ""
            raise InputError(
                f"{test.name}: no item has {SHORTEST} words in {test.question!r}{long}",
                "name its fields: dataset.decontaminate: [{path: …, question: NAME, answer: NAME}]",
            )
        for question, answer in test.texts:
            if SHORTEST <= len(question) < window:
                yield question
            for text in (question, answer):
                yield from (text[start : start + window] for start in range(len(text) - window + 1))
