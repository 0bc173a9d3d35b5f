"""Delimited files with a header: columns by name, in any order, as batches with line numbers; and tables of
entities as OREGANO writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Lines
from kgqa_hpc.kg.delimited import RAGGED, Batch, DelimitedFile, Dialect
from kgqa_hpc.registry import did_you_mean


@dataclass(frozen=True)
class Rows:
    """Rows of a file: the requested columns, and further columns as properties.

    `line_of` gives the line of a row; it does not keep the columns in memory.
    """

    file: str
    columns: Batch
    line_of: Lines
    properties: Batch = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> pa.Array:
        return self.columns[column]

    def where(self, keep: pa.Array) -> Rows:
        """The rows at which a boolean array is true."""
        columns, properties = (
            {name: values.filter(keep) for name, values in mapping.items()}
            for mapping in (self.columns, self.properties)
        )
        lines, row_numbers = (
            self.line_of,
            np.flatnonzero(keep.to_numpy(zero_copy_only=False)).astype(np.int32),
        )
        return Rows(self.file, columns, lambda row: lines(int(row_numbers[row])), properties)


def rows_of(
    file: DelimitedFile, names: Sequence[str], selected: Sequence[str], *, header: bool
) -> Iterator[Rows]:
    """The `selected` columns, batch by batch; arguments and errors as in `DelimitedFile.batches`."""
    for offset, columns in file.batches(names, selected, header=header):
        yield Rows(file.file, columns, partial(file.line_of, offset=offset, header=header))


def read_table(
    path: Path,
    dialect: Dialect,
    required: Sequence[str],
    *,
    optional: Sequence[str] = (),
    properties: Sequence[str] | None = (),
) -> Iterator[Rows]:
    """The columns `required` and `optional` (empty where the file lacks them) of a file with a header.

    `properties`: further columns to give; None for all. Of columns with one name the first counts.
    Raises GraphFormatError with file and line.
    """
    file = DelimitedFile.open(path, dialect)
    names = header_names(file, required)
    lacking = [name for name in optional if name not in names]
    present = [*required, *(name for name in optional if name in names)]
    further = [
        name
        for name in dict.fromkeys(names)
        if name and name not in present and (properties is None or name in properties)
    ]
    for rows in rows_of(file, unique(names), [*present, *further], header=True):
        columns = {name: rows[name] for name in present}
        columns |= {name: constant("", len(rows)) for name in lacking}
        yield replace(rows, columns=columns, properties={name: rows[name] for name in further})


def constant(value: str, size: int) -> pa.Array:
    """An array that repeats one text."""
    return pa.array([value], pa.large_string()).take(pa.array(np.zeros(size, dtype=np.int64)))


def unique(names: Sequence[str]) -> list[str]:
    """The names; a repeated or empty name is prefixed with its position."""
    seen: set[str] = set()
    distinct = []
    for position, name in enumerate(names):
        distinct.append(name if name and name not in seen else f"{position}:{name}")
        seen.add(name)
    return distinct


def header_names(file: DelimitedFile, columns: Sequence[str]) -> list[str]:
    """The stripped names of the columns; each of `columns` must occur once. Raises GraphFormatError."""
    names = [name.strip() for name in file.first_record.fields]
    position = f"{file.file} line {file.first_record.line:,}"
    for column in columns:
        if column not in names:
            raise GraphFormatError(
                f"{position}: column {column!r} is missing{did_you_mean(column, names)}",
                _header_cure(names, columns, file.dialect.separator),
            )
        if Counter(names)[column] > 1:
            raise GraphFormatError(f"{position}: column {column!r} stands twice", "rename one of them")
    return names


def _header_cure(names: Sequence[str], columns: Sequence[str], separator: str) -> str:
    words = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    for separator_found, word in words.items():
        if separator_found != separator and len(names) == 1 and separator_found in names[0]:
            return f"the file is separated by {word}; separate it by {words.get(separator, separator)}"
    return f"the first line must name the columns {','.join(columns)}; it names {','.join(names)[:100]}"


def read_columns(path: Path, requested: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a table of entities: the id, and the stripped values of the requested columns ("" for an empty cell).

    The format is OREGANO's: tab-separated, the id first, then names and identifiers of other databases;
    headers and values are padded with blanks. If several columns have the same stripped name, the last
    non-empty value counts. Raises GraphFormatError with file and line, and for a column the table does not have.
    """
    file = DelimitedFile.open(path, RAGGED)
    header = [name.strip() for name in file.first_record.fields]
    for name in requested:
        if name not in header[1:]:
            raise GraphFormatError(
                f"{path.name} line 1: column {name!r} is missing{did_you_mean(name, header)}",
                "is it the right table?",
            )
    positions = {
        name: [str(k) for k, label in enumerate(header) if label == name and k] for name in requested
    }
    needed = ["0", *(position for name_positions in positions.values() for position in name_positions)]
    names = [str(k) for k in range(len(header))]
    for _, batch in file.batches(names, list(dict.fromkeys(needed)), header=True):
        values = {position: column.to_pylist() for position, column in batch.items()}
        for row, node in enumerate(values["0"]):
            yield (
                node.strip(),
                {
                    name: next((v for p in reversed(name_positions) if (v := values[p][row].strip())), "")
                    for name, name_positions in positions.items()
                },
            )
