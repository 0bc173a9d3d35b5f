"""Delimited files with a header: columns by name, in any order, as batches that know their lines; and tables of
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
    """Some rows of a file: the columns that were asked for, and further ones as properties.

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
        """The rows where a boolean array is true."""
        columns, properties = (
            {name: values.filter(keep) for name, values in each.items()}
            for each in (self.columns, self.properties)
        )
        lines, places = self.line_of, np.flatnonzero(keep.to_numpy(zero_copy_only=False)).astype(np.int32)
        return Rows(self.file, columns, lambda row: lines(int(places[row])), properties)


def rows_of(
    file: DelimitedFile, names: Sequence[str], wanted: Sequence[str], *, header: bool
) -> Iterator[Rows]:
    """The wanted columns, batch by batch; arguments and errors as in `DelimitedFile.batches`."""
    for first, columns in file.batches(names, wanted, header=header):
        yield Rows(file.file, columns, partial(file.line_of, first=first, header=header))


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
    present = [*wanted, *(name for name in optional if name in names)]
    rest = [
        name
        for name in dict.fromkeys(names)
        if name and name not in present and (properties is None or name in properties)
    ]
    for rows in rows_of(file, unique(names), [*present, *rest], header=True):
        columns = {name: rows[name] for name in present}
        columns |= {name: constant("", len(rows)) for name in lacking}
        yield replace(rows, columns=columns, properties={name: rows[name] for name in rest})


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
            raise GraphFormatError(
                f"{where}: column {column!r} is missing{did_you_mean(column, names)}",
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


def read_columns(path: Path, wanted: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row's id and its values in the wanted columns of a table of entities, stripped; "" where there is nothing.

    As OREGANO writes them: tab-separated, the id first, then names and identifiers of other data bases; headers
    and values padded with blanks. Of columns whose stripped names are one, the last value that is not empty
    counts. Raises GraphFormatError with file and line, and for a column the table does not have.
    """
    file = DelimitedFile.open(path, RAGGED)
    header = [name.strip() for name in file.first.fields]
    for name in wanted:
        if name not in header[1:]:
            raise GraphFormatError(
                f"{path.name} line 1: column {name!r} is missing{did_you_mean(name, header)}",
                "is it the right table?",
            )
    places = {name: [str(k) for k, each in enumerate(header) if each == name and k] for name in wanted}
    needed = ["0", *(place for each in places.values() for place in each)]
    names = [str(k) for k in range(len(header))]
    for _, batch in file.batches(names, list(dict.fromkeys(needed)), header=True):
        values = {place: column.to_pylist() for place, column in batch.items()}
        for row, node in enumerate(values["0"]):
            yield (
                node.strip(),
                {
                    name: next((v for p in reversed(each) if (v := values[p][row].strip())), "")
                    for name, each in places.items()
                },
            )
