"""Ratings by people (or by a model in their place), from CSV in the wide or the long form.

Wide: one row per item, one column per criterion, numbers 1 to 5. Long: one row per score, with `Evaluation Category`
and `Score` as "5. words". Both may have `annotator`, `not_qualified`, `accepted`, `weight` and any other column. A row
without scores is not rated. docs/guide/evaluation.md, "Ratings".

The five scales are those of the published human evaluation (BioGraphletQA, section 3.3.1 and Appendix E). Their names
and the labels of the levels are the published ones, so that ratings can be compared; the explanations are our own words
for the same meaning.

A spreadsheet takes a cell that starts with = + - @ for a formula, and text of a language model may start so. In the CSV
files for people such a cell is written behind an apostrophe and read back without it; no other text is changed.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from math import nan
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from kgqa_hpc.errors import InputError
from kgqa_hpc.text.streams import COLUMNS, LINE_BYTES, NotRegular, read_bytes

LOWEST, HIGHEST = 1, 5
ACCEPTABLE = 3  # the level from which the paper calls a score acceptable


class Scale(NamedTuple):
    """A criterion and its levels 1 to 5 as (label, explanation), lowest first."""

    name: str
    key: str
    levels: tuple[tuple[str, str], ...]


_BLOCKS = files(__package__).joinpath("scales.txt").read_text(encoding="utf-8").strip().split("\n\n")[1:]
SCALES = tuple(
    Scale(name, key, tuple((label, words) for label, words in levels))
    for (name, key), *levels in ([line.split(" | ") for line in block.splitlines()] for block in _BLOCKS)
)
CRITERIA = tuple(scale.name for scale in SCALES)
# "the three answer-related criteria" of section 4.3
ANSWER_CRITERIA = (CRITERIA[1], *CRITERIA[3:])

_FORMULA = frozenset("=+-@\t\r")


def guard(text: str) -> str:
    """`text` as a cell that no spreadsheet evaluates. Undone by `unguard`."""
    return f"'{text}" if text.lstrip("'")[:1] in _FORMULA else text


def unguard(cell: str) -> str:
    """The original text of a cell that `guard` made."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'")[:1] in _FORMULA else cell


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A UTF-8 CSV file (RFC 4180), every cell guarded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")  # cells that contain \r or \n are quoted
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if cell is None else guard(str(cell)) for cell in row])
    return out.getvalue().encode("utf-8")


def read_csv(path: Path, *needed: str) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Header, and rows by column (in lower case) with their line numbers; commas or semicolons, with or without
    a byte order mark.

    Rows are read one by one, as the caller iterates. Raises InputError: no such file, not UTF-8, no header, a `needed`
    column is missing, a column name is repeated (in any case), a row has another length than the header.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (NotRegular, PermissionError) as problem:
        raise InputError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise InputError(f"{path}: not UTF-8 (byte {problem.start:,})", "save it as CSV UTF-8") from None
    header_line = text.partition("\n")[0]
    delimiter = max(",;\t", key=header_line.count)
    csv.field_size_limit(LINE_BYTES.value)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as problem:
        raise InputError(f"{path} line 1: {problem}", "save it as a CSV file again") from None
    if not any(header):
        raise InputError(f"{path}: is empty", "the first line must name the columns")
    names = [name.lower() for name in header]
    if len(names) > (limit := COLUMNS.value):
        raise InputError(f"{path} line 1: {len(names):,} columns; {limit:,} are allowed", COLUMNS.cure)
    if twice := {name for name, count in Counter(names).items() if count > 1}:
        raise InputError(f"{path} line 1: column {min(twice)!r} stands there twice", "rename one of them")
    if missing := [name for name in needed if name not in names]:
        raise InputError(f"{path} line 1: no column {missing[0]!r}", f"it has: {', '.join(header)}")
    return header, _rows(path, names, reader)


def _rows(path: Path, names: list[str], reader: Iterator[list[str]]) -> Iterator[tuple[int, dict[str, str]]]:
    line = 1
    try:
        for row in reader:
            line = reader.line_num  # type: ignore[attr-defined]
            if not any(row):
                continue
            if len(row) != len(names):
                problem = f"{path} line {line}: {len(row)} cells, but the header names {len(names)}"
                raise InputError(problem, "quote cells that hold the delimiter or a line break")
            yield line, {name: unguard(cell) for name, cell in zip(names, row, strict=True)}
    except csv.Error as problem:
        raise InputError(f"{path} near line {line + 1}: {problem}", "save it as a CSV file again") from None


CATEGORY, SCORE = "evaluation category", "score"
NOT_QUALIFIED = "not qualified to evaluate"
# Columns that are never criteria, even if they hold small numbers.
_OURS = "id question answer annotator accepted not_qualified comment comments score"
_OTHERS = "group shape kind graphlet_id num_nodes reason weight order seconds stratum population"
_RESERVED = {CATEGORY, *_OURS.split(), *_OTHERS.split()}
_PUBLISHED = {name.lower(): name for name in CRITERIA}
_TRUE, _FALSE = {"true", "1", "yes", "accepted"}, {"false", "0", "no", "rejected"}
_NUMBER = re.compile(r"\s*([0-9](?:[.,][0-9]+)?)(?![0-9])")


@dataclass(slots=True)
class Rating:
    """Scores of one annotator for one item, empty when it was not rated.

    `weight`: records of the dataset that the item stands for, NaN where that is unknown.
    """

    id: str
    question: str
    answer: str
    annotator: str
    scores: dict[str, float] = field(default_factory=dict)
    not_qualified: bool = False
    accepted: bool | None = None
    weight: float = nan


@dataclass(frozen=True, slots=True)
class Ratings:
    """All ratings, with the criteria in the order of the scales or of the columns."""

    criteria: tuple[str, ...]
    rows: tuple[Rating, ...]

    @property
    def rated(self) -> tuple[Rating, ...]:
        return tuple(row for row in self.rows if row.scores)

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of the rated rows by id and annotator: a column for each criterion, NaN without a score."""
        keys = [(row.id, row.annotator) for row in self.rated]
        index = pd.MultiIndex.from_tuples(keys, names=["id", "annotator"])
        scores = [row.scores for row in self.rated]
        return pd.DataFrame(scores, index, columns=list(self.criteria), dtype=float)

    @property
    def annotators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.annotator for row in self.rows))


def read_ratings(paths: Sequence[Path]) -> Ratings:
    """All ratings of one or more files. Without a column `annotator`, the file name is the annotator.

    Raises InputError with file and line: a missing column, a score that is none, an item rated twice by one
    annotator, no criterion.
    """
    criteria: list[str] = []
    ratings: dict[tuple[str, str], Rating] = {}
    for path in paths:
        long = any(name.lower() == CATEGORY for name in read_csv(path)[0])
        names, rows = (_read_long if long else _read_wide)(path)
        criteria += names
        for row in rows:
            if ratings.setdefault((row.annotator, row.id), row) is not row:
                problem = f"item {row.id!r} is rated twice by {row.annotator!r}"
                cure = "several annotators need a column `annotator`, or a file of its own each"
                raise InputError(problem, cure)
    return Ratings(_ordered(criteria), tuple(ratings.values()))


def with_key(ratings: Ratings, path: Path) -> Ratings:
    """The ratings with `accepted` and `weight` of the key that `kgqa human sample` wrote beside the sample.

    Raises InputError when the key lacks `id`, `accepted` or a rated item.
    """
    key_cells = {cells["id"]: cells for _, cells in read_csv(path, "id", "accepted")[1]}
    rows = []
    for row in ratings.rows:
        if row.id not in key_cells:
            raise InputError(f"{path}: has no item {row.id!r}", "give the key of the same sample")
        cells, where = key_cells[row.id], f"{path}, item {row.id}"
        accepted = _truth(cells["accepted"], where)
        weight = _weight(cells["weight"], where) if "weight" in cells else row.weight
        rows.append(replace(row, accepted=accepted, weight=weight))
    return Ratings(ratings.criteria, tuple(rows))


def _read_wide(path: Path) -> tuple[list[str], list[Rating]]:
    """Criteria and ratings of a file with one row an item."""
    header, lines = read_csv(path, "id", "question", "answer")
    rows = list(lines)
    criteria = [name for name in header if _canonical(name) in CRITERIA] or [
        name for name in header if _is_criterion(name, [cells[name.lower()] for _, cells in rows])
    ]
    if not criteria:
        problem = f"{path}: no column holds scores from {LOWEST} to {HIGHEST}"
        raise InputError(problem, f"one column a criterion, for instance {CRITERIA[0]!r}")
    ratings = []
    for line, cells in rows:
        where = f"{path} line {line}"
        filled = ((_canonical(name), cells[name.lower()]) for name in criteria)
        scores = {name: _score(cell, name, where) for name, cell in filled if cell.strip()}
        row = _rating(path, cells, where)
        row.not_qualified = _truth(cells.get("not_qualified", ""), where) or False
        row.scores = {} if row.not_qualified else scores
        ratings.append(row)
    return [_canonical(name) for name in criteria], ratings


def _read_long(path: Path) -> tuple[Iterable[str], list[Rating]]:
    """Criteria and ratings of a file with one row a score."""
    ratings: dict[tuple[str, str], Rating] = {}
    for line, cells in read_csv(path, "id", "question", "answer", SCORE)[1]:
        where = f"{path} line {line}"
        row = _rating(path, cells, where)
        row = ratings.setdefault((row.annotator, row.id), row)
        name, cell = _canonical(cells[CATEGORY]), cells[SCORE]
        if name.lower() == NOT_QUALIFIED:
            row.not_qualified = True
        elif name.lower() not in ("comment", "comments") and cell.strip():
            if name in row.scores:
                problem = f"{where}: item {row.id!r} has a second score for {name!r}"
                raise InputError(problem, "keep one of them")
            row.scores[name] = _score(cell, name, where)
    for row in ratings.values():
        row.scores = {} if row.not_qualified else row.scores
    return _ordered(name for row in ratings.values() for name in row.scores) or CRITERIA, [*ratings.values()]


def _rating(path: Path, cells: dict[str, str], where: str) -> Rating:
    """A rating without scores."""
    identity = cells["id"].strip()
    if not identity:
        raise InputError(f"{where}: no id", "every rating names its item")
    annotator = cells.get("annotator", "").strip() or path.stem
    accepted = _truth(cells.get("accepted", ""), where)
    weight = _weight(cells.get("weight", ""), where)
    pair = cells["question"], cells["answer"]
    return Rating(identity, *pair, annotator, accepted=accepted, weight=weight)


def _is_criterion(name: str, cells: Iterable[str]) -> bool:
    """Whether a column holds scores: nine of ten cells or more are scores. The others are later reported as errors."""
    if name.lower() in _RESERVED:
        return False
    filled = [cell.strip() for cell in cells if cell.strip()]
    scores = sum(bool(_NUMBER.fullmatch(cell)) and _level(cell) is not None for cell in filled)
    return 0 < 0.9 * len(filled) <= scores


def _canonical(name: str) -> str:
    """The published spelling of a criterion's name."""
    return _PUBLISHED.get(name.strip().lower(), name.strip())


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    unique = dict.fromkeys(names)
    return tuple(name for name in CRITERIA if name in unique) + tuple(n for n in unique if n not in CRITERIA)


def _level(cell: str) -> float | None:
    match = _NUMBER.match(cell)
    value = float(match[1].replace(",", ".")) if match else 0.0
    return value if LOWEST <= value <= HIGHEST else None


def _score(cell: str, name: str, where: str) -> float:
    if (value := _level(cell)) is None:
        problem = f"{where}: {cell.strip()[:40]!r} is no score for {name!r}"
        raise InputError(problem, f"scores go from {LOWEST} to {HIGHEST}")
    return value


def _weight(cell: str, where: str) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        raise InputError(f"{where}: weight {cell[:40]!r} is no number", "write a number or nothing") from None


def _truth(cell: str, where: str) -> bool | None:
    text = cell.strip().lower().removesuffix(".0")  # 1.0 as spreadsheets and pandas write it
    if not text:
        return None
    if text not in _TRUE | _FALSE:
        raise InputError(f"{where}: {cell[:40]!r} is neither true nor false", "write true, false or nothing")
    return text in _TRUE
