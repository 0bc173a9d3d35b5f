"""Rows with line numbers: delimited files with a header (columns by name, in any order), and single rows that are
passed to an assembly in batches.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly
from kgqa_hpc.kg.delimited import DelimitedFile, Dialect, Rows
from kgqa_hpc.registry import did_you_mean

_BATCH = 20_000  # rows held as Python objects
_Properties = Mapping[str, Any] | None
_Row = tuple[str, str, str, int, _Properties]


def read_table(
    path: Path,
    dialect: Dialect,
    required: Sequence[str],
    *,
    optional: Sequence[str] = (),
    properties: Sequence[str] | None = (),
    cure: str = "",
) -> Iterator[Rows]:
    """The columns `required` and `optional` (empty where the file lacks them) of a file with a header.

    `properties`: further columns to give; None for all. Of columns with one name the first counts. `cure`: what
    to do when a column is missing.
    Raises GraphFormatError with file and line.
    """
    file = DelimitedFile.open(path, dialect)
    names = header_names(file, required, cure)
    present = [*dict.fromkeys(required), *(name for name in optional if name in names)]
    further = [name for name in dict.fromkeys(names) if name and name not in present]
    further = [name for name in further if properties is None or name in properties]
    for rows in file.rows(unique(names), [*present, *further], header=True):
        columns = {name: constant("", len(rows)) for name in optional}
        columns |= {name: rows[name] for name in present}
        yield replace(rows, columns=columns, properties={name: rows[name] for name in further})


def constant(value: str, size: int) -> pa.Array:
    """An array that repeats one text."""
    return pa.repeat(pa.scalar(value, pa.large_string()), size)


def unique(names: Sequence[str]) -> list[str]:
    """The names; a repeated or empty name is prefixed with its position."""
    positions = {name: position for position, name in reversed(list(enumerate(names))) if name}
    return [name if positions.get(name) == k else f"{k}:{name}" for k, name in enumerate(names)]


def header_names(file: DelimitedFile, columns: Sequence[str], cure: str = "") -> list[str]:
    """The stripped names of the columns; each of `columns` must occur once. Raises GraphFormatError."""
    names = [name.strip() for name in file.first_record.fields]
    position = f"{file.file} line {file.first_record.line:,}"
    for column in columns:
        if column not in names:
            raise GraphFormatError(
                f"{position}: column {column!r} is missing{did_you_mean(column, names)}",
                cure or _header_cure(names, columns, file.dialect.separator),
            )
        if names.count(column) > 1:
            raise GraphFormatError(f"{position}: column {column!r} stands twice", "rename one of them")
    return names


def _header_cure(names: Sequence[str], columns: Sequence[str], separator: str) -> str:
    words = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    for sign, word in words.items():
        if sign != separator and len(names) == 1 and sign in names[0]:
            return f"the file is separated by {word}; separate it by {words.get(separator, separator)}"
    return f"the first line must name the columns {','.join(columns)}; it names {','.join(names)[:100]}"


@dataclass
class Buffer:
    """Nodes and edges of one file, each with its line and its properties, passed to an assembly in batches.

    Rows without properties hold texts and numbers only, which the garbage collector need not visit.
    """

    assembly: Assembly
    file: str
    _nodes: list[_Row] = field(default_factory=list)
    _edges: list[_Row] = field(default_factory=list)

    def node(self, line: int, node: str, name: str, kind: str, properties: _Properties = None) -> None:
        self._nodes.append((node, name, kind, line, properties or None))
        if len(self._nodes) >= _BATCH:
            self._pass_on(self._nodes, self.assembly.nodes)

    def edge(self, line: int, source: str, target: str, kind: str, properties: _Properties = None) -> None:
        self._edges.append((source, target, kind, line, properties or None))
        if len(self._edges) >= _BATCH:
            self._pass_on(self._edges, self.assembly.edges)

    def flush(self) -> None:
        """Pass on the remaining rows; call it at the end of the file."""
        self._pass_on(self._nodes, self.assembly.nodes)
        self._pass_on(self._edges, self.assembly.edges)

    def _pass_on(self, rows: list[_Row], take: Callable[..., None]) -> None:
        columns = [self._column(rows, [row[position] for row in rows]) for position in range(3)]
        names = dict.fromkeys(name for row in rows if row[4] for name in row[4])
        cells = {name: [cell(row[4].get(name)) if row[4] else "" for row in rows] for name in names}
        properties = {name: self._column(rows, texts) for name, texts in cells.items()}
        # Line numbers of the rows (8 bytes a row), kept instead of the rows.
        take(self.file, *columns, array("q", [row[3] for row in rows]).__getitem__, properties)
        rows.clear()

    def _column(self, rows: list[_Row], values: list[Any]) -> pa.Array:
        """Arrow strings of the values. Raises GraphFormatError with the line for a value that is not text."""
        try:
            column = pa.array(values, pa.large_string())
        except (TypeError, ValueError):
            column = None
        if column is None or column.null_count:
            row, value = next(pair for pair in zip(rows, values, strict=True) if not _is_text(pair[1]))
            problem = f"{self.file} line {row[3]:,}: expected a text, found {repr(value)[:60]}"
            raise GraphFormatError(problem, "mend it")
        return column


def _is_text(value: Any) -> bool:
    """Whether a value is a text without a lone surrogate."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def cell(value: Any) -> str:
    """A JSON value as the cell of a column: a text as it is, the items of a list between bars, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(member, list | dict) for member in value):
        return "|".join(map(cell, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)
