"""Collects single rows, and passes them to an assembly in batches."""

import json
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly

_BATCH = 100_000  # rows held as Python objects
_NONE: Mapping[str, Any] = {}
_Row = tuple[str, str, str, int, Mapping[str, Any]]


@dataclass
class Buffer:
    """Nodes and edges of one file, each with its line and its properties."""

    assembly: Assembly
    file: str
    _nodes: list[_Row] = field(default_factory=list)
    _edges: list[_Row] = field(default_factory=list)

    def node(self, line: int, node: str, name: str, kind: str, properties: Mapping[str, Any] = _NONE) -> None:
        self._nodes.append((node, name, kind, line, properties))
        if len(self._nodes) >= _BATCH:
            self._hand_on(self._nodes, self.assembly.nodes)

    def edge(
        self, line: int, source: str, target: str, kind: str, properties: Mapping[str, Any] = _NONE
    ) -> None:
        self._edges.append((source, target, kind, line, properties))
        if len(self._edges) >= _BATCH:
            self._hand_on(self._edges, self.assembly.edges)

    def flush(self) -> None:
        """Pass on the remaining rows; call it at the end of the file."""
        self._hand_on(self._nodes, self.assembly.nodes)
        self._hand_on(self._edges, self.assembly.edges)

    def _hand_on(self, rows: list[_Row], take: Callable[..., None]) -> None:
        columns = [self._column(rows, [row[field] for row in rows]) for field in range(3)]
        names = dict.fromkeys(name for row in rows for name in row[4])
        properties = {name: self._column(rows, [cell(row[4].get(name)) for row in rows]) for name in names}
        # Line numbers of the rows (8 bytes a row), kept instead of the rows.
        line_of = array("q", [row[3] for row in rows]).__getitem__
        take(self.file, *columns, line_of, properties)
        rows.clear()

    def _column(self, rows: list[_Row], texts: list[Any]) -> pa.Array:
        """Arrow strings of the values. Raises GraphFormatError with the line for a value that is not text."""
        try:
            column = pa.array(texts, pa.large_string())
        except (TypeError, ValueError):
            column = None
        if column is None or column.null_count:
            line, text = next(
                (row[3], text) for row, text in zip(rows, texts, strict=True) if not _is_text(text)
            )
            raise GraphFormatError(
                f"{self.file} line {line:,}: expected a text, found {repr(text)[:60]}", "mend it"
            )
        return column


def _is_text(value: Any) -> bool:
    try:
        value.encode("utf-8")
    except (AttributeError, UnicodeEncodeError):  # not a text, or a text with a lone surrogate
        return False
    return True


def members(item: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The members of a JSON object that `names` lists and that exist."""
    return {name: item[name] for name in names if item.get(name) is not None}


def first_of(item: Mapping[str, Any], names: Iterable[str]) -> str:
    """The first existing member among `names`; the text "Null", which some exports write, counts as missing."""
    values = (item.get(name) for name in names)
    return next((str(value) for value in values if value and value != "Null"), "")


def cell(value: Any) -> str:
    """A JSON value as the cell of a column: a text as it is, the items of a list between bars, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(member, list | dict) for member in value):
        return "|".join(map(cell, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)
