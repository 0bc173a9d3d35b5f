"""Delimited files with a header: columns by name, in any order, as batches that know their lines."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Lines
from kgqa_hpc.kg.delimited import Batch, DelimitedFile, Dialect


@dataclass(frozen=True)
class Rows:
    """Some rows of a table: the columns that were asked for, and further ones as properties."""

    table: DelimitedFile
    first: int  # the number of the first row in the table
    columns: Batch
    properties: Batch = field(default_factory=dict)
    header: bool = True

    @property
    def file(self) -> str:
        return self.table.file

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> pa.Array:
        return self.columns[column]

    @property
    def line_of(self) -> Lines:
        """The line of a row of this batch; a function that does not keep the batch alive."""
        return partial(_line_of, self.table, self.first, self.header)


def _line_of(table: DelimitedFile, first: int, header: bool, row: int) -> int:
    return table.line_of(first + row, header=header)


def read_table(
    path: Path,
    dialect: Dialect,
    wanted: Sequence[str],
    *,
    optional: Sequence[str] = (),
    properties: Sequence[str] | None = (),
) -> Iterator[Rows]:
    """The columns `wanted` and `optional` (empty where the file lacks them) of a file with a header.

    `properties`: further columns to give; None for all. Of columns with one name the first counts.
    Raises GraphFormatError with file and line.
    """
    file = DelimitedFile.open(path, dialect)
    names = header_names(file, wanted)
    lacking = [name for name in optional if name not in names]
    rest = [name for name in names if name and name not in wanted and name not in optional]
    if properties is not None:
        rest = [name for name in rest if name in properties]
    yield from _rows(file, unique(names), [*wanted, *(n for n in optional if n in names)], lacking, rest)


def _rows(
    file: DelimitedFile, names: list[str], present: list[str], lacking: list[str], rest: list[str]
) -> Iterator[Rows]:
    rest = list(dict.fromkeys(rest))
    for first, batch in file.batches(names, [*present, *rest], header=True):
        size = len(batch[present[0]])
        columns = {name: batch[name] for name in present} | {name: constant("", size) for name in lacking}
        yield Rows(file, first, columns, {name: batch[name] for name in rest})


def constant(value: str, size: int) -> pa.Array:
    """An array of one text again and again."""
    return pa.array([value], pa.large_string()).take(pa.array(np.zeros(size, dtype=np.int64)))


def unique(names: Sequence[str]) -> list[str]:
    """The names with those that came before, and empty ones, made different by their position."""
    seen: set[str] = set()
    found = []
    for position, name in enumerate(names):
        found.append(name if name and name not in seen else f"{position}:{name}")
        seen.add(name)
    return found


def header_names(file: DelimitedFile, wanted: Sequence[str]) -> list[str]:
    """The stripped names of the columns; each of `wanted` is there once. Raises GraphFormatError."""
    names = [name.strip() for name in file.first.fields]
    where = f"{file.file} line {file.first.line:,}"
    for column in wanted:
        if column not in names:
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
            raise GraphFormatError(
                f"{where}: column {column!r} is missing" + (f", did you mean {near[0]!r}?" if near else ""),
                _header_cure(names, wanted, file.dialect.separator),
            )
        if Counter(names)[column] > 1:
            raise GraphFormatError(f"{where}: column {column!r} stands twice", "rename one of them")
    return names


def _header_cure(names: Sequence[str], wanted: Sequence[str], separator: str) -> str:
    words = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    for other, word in words.items():
        if other != separator and len(names) == 1 and other in names[0]:
            return f"the file is separated by {word}; separate it by {words.get(separator, separator)}"
    return f"the first line must name the columns {','.join(wanted)}; it names {','.join(names)[:100]}"
