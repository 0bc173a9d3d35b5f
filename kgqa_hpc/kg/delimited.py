"""Comma- and tab-separated tables as a stream of batches; errors name the exact line.

Arrow parses blocks of rows but does not count lines. Only for an error message the file is read again, record
by record, with the standard library, which counts them.
"""

from __future__ import annotations

import csv
import io
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Lines
from kgqa_hpc.text.streams import COLUMNS, LINE_BYTES, TextStream, refuse_other_encodings

# Bytes of a block of Arrow's reader; a quoted record must fit into two blocks, which even long descriptions do.
_BLOCK_BYTES = 2 << 20
# Longest wait until Arrow's threads release the stream, which usually takes milliseconds.
RELEASE_SECONDS = 10.0

Batch = dict[str, pa.Array]


@dataclass(frozen=True)
class Dialect:
    """How fields are separated.

    `quote`: the character around fields that contain separators or line ends; "" for none. `escape`: makes
    the next character literal; "" for none. `ragged`: a row may lack its last fields (only without quotes).
    """

    separator: str
    quote: str = ""
    escape: str = ""
    ragged: bool = False


CSV = Dialect(",", quote='"')
TSV = Dialect("\t")
RAGGED = Dialect("\t", ragged=True)


@dataclass(frozen=True)
class Record:
    """A record with its first and last line, counted from 1."""

    line: int
    last_line: int
    fields: list[str]
    text: str


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
        columns = {name: values.filter(keep) for name, values in self.columns.items()}
        properties = {name: values.filter(keep) for name, values in self.properties.items()}
        lines, numbers = self.line_of, np.flatnonzero(keep.to_numpy(zero_copy_only=False)).astype(np.int32)
        return Rows(self.file, columns, lambda row: lines(int(numbers[row])), properties)


@dataclass(frozen=True, eq=False, repr=False)
class DelimitedFile:
    """A file and its first record (the header, if any)."""

    path: Path
    dialect: Dialect
    first_record: Record

    @classmethod
    def open(cls, path: Path, dialect: Dialect) -> DelimitedFile:
        """Read the first record. Raises InputError or GraphFormatError as `TextStream`."""
        for record in _records(path, dialect):
            if any("\udc80" <= letter <= "\udcff" for letter in record.text):
                refuse_other_encodings(path)
            if len(record.fields) > (limit := COLUMNS.value):
                raise GraphFormatError(
                    f"{path.name} line {record.line:,}: {len(record.fields):,} columns; {limit:,} are allowed",
                    f"is the separator right? {COLUMNS.cure}",
                )
            return cls(path, dialect, record)
        raise GraphFormatError(f"{path.name}: is empty", "is it the right file?")

    def rows(self, names: Sequence[str], columns: Sequence[str], *, header: bool) -> Iterator[Rows]:
        """The requested `columns` as large_string arrays, batch by batch.

        `names` are the columns in their order (distinct), `header` says that the first record is not data.
        Every record must have as many fields as `names`; in a ragged dialect it may have fewer. Raises
        GraphFormatError with the line of a record with too few or too many fields, an open quote, or a byte
        that is not UTF-8.
        """
        records = 0  # records of the file before the current table
        with TextStream(self.path) as stream:
            blocks = self._quoted if self.dialect.quote else self._plain
            for table in blocks(stream, names, columns):
                start = int(header and records == 0)
                if len(table) > start:
                    batch = {name: table.column(name).slice(start).combine_chunks() for name in columns}
                    yield Rows(self.path.name, batch, partial(self.line_of, records + start))
                records += len(table)
        if records <= header:  # an empty batch, so that the caller gets the columns of a file without rows
            batch = {name: pa.array([], pa.large_string()) for name in columns}
            yield Rows(self.path.name, batch, partial(self.line_of, records))

    def line_of(self, start: int, row: int) -> int:
        """First line (counted from 1) of record number `start` + `row`. Raises IndexError."""
        for number, record in enumerate(_records(self.path, self.dialect)):
            if number == start + row:
                return record.line
        raise IndexError(f"{self.path.name} has no record {start + row}")

    def _quoted(self, stream: TextStream, names: Sequence[str], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Parse with Arrow's streaming reader, which recognises line ends inside quotes.

        At the end its threads hold no reference to the stream: a thread that released a Python object while the
        interpreter ends would abort the program.
        """
        quotes = Counter[str]()
        source: _Counting | None = _Counting(stream, self.dialect.quote, quotes)
        in_use = weakref.ref(source)
        try:
            for batch in pa.csv.open_csv(source, **self._options(names, columns)):
                yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid as problem:
            self._refuse_malformed(len(names))
            if "straddling" in str(problem):
                problem_text = f"has a row of more than {_BLOCK_BYTES:,} bytes"
                raise GraphFormatError(f"{self.path.name}: {problem_text}", "is it the right file?") from None
            raise GraphFormatError(f"{self.path.name}: cannot be parsed: {problem}") from None
        finally:
            source = None
            until = time.monotonic() + RELEASE_SECONDS
            while in_use() is not None and time.monotonic() < until:
                time.sleep(0.001)
        if quotes[self.dialect.quote] % 2:
            # Arrow accepts a last field whose quote is never closed, and half of the table can be inside that field.
            refuse_other_encodings(self.path)
            (record,) = deque(_records(self.path, self.dialect), maxlen=1)
            if _quote_is_open(record.text, self.dialect):
                raise self._open_quote(record)

    def _plain(self, stream: TextStream, names: Sequence[str], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Parse blocks of whole lines, each with all cores."""
        partial_line, limit = b"", LINE_BYTES.value
        while piece := stream.read(_BLOCK_BYTES):
            lines, end, piece = piece.rpartition(b"\n")
            block, partial_line = (partial_line + lines + end, piece) if end else (b"", partial_line + piece)
            if len(partial_line) > limit:
                raise GraphFormatError(
                    f"{self.path.name}: has a line of more than {limit:,} bytes", LINE_BYTES.cure
                )
            if block.strip(b"\r\n"):
                yield self._plain_block(block, names, columns)
        if partial_line.strip(b"\r\n"):
            yield self._plain_block(partial_line, names, columns)

    def _plain_block(self, block: bytes, names: Sequence[str], columns: Sequence[str]) -> pa.Table:
        try:
            return pa.csv.read_csv(pa.py_buffer(block), **self._options(names, columns, len(block)))
        except pa.ArrowInvalid as problem:
            if not self.dialect.ragged:
                self._refuse_malformed(len(names))
                raise GraphFormatError(f"{self.path.name}: cannot be parsed: {problem}") from None
        # Parse as Arrow does, except that fields missing at the end of a row are empty and a lone CR is text.
        try:
            lines = block.decode("utf-8").split("\n")
        except UnicodeDecodeError:
            refuse_other_encodings(self.path)
            raise
        rows = [line.removesuffix("\r").split(self.dialect.separator) for line in lines]
        rows = [row for row in rows if row != [""]]
        if any(len(row) > len(names) for row in rows):
            self._refuse_malformed(len(names))
        at = {name: list(names).index(name) for name in columns}
        cells = {name: [row[k] if k < len(row) else "" for row in rows] for name, k in at.items()}
        return pa.table({name: pa.array(column, pa.large_string()) for name, column in cells.items()})

    def _options(self, names: Sequence[str], columns: Sequence[str], longest_row: int = 0) -> dict[str, Any]:
        block_size = max(_BLOCK_BYTES, longest_row)  # Arrow refuses a row beyond a block
        return {
            "read_options": pa.csv.ReadOptions(column_names=list(names), block_size=block_size),
            "parse_options": pa.csv.ParseOptions(
                delimiter=self.dialect.separator,
                quote_char=self.dialect.quote or False,
                double_quote=not self.dialect.escape,
                escape_char=self.dialect.escape or False,
                newlines_in_values=bool(self.dialect.quote),
            ),
            "convert_options": pa.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.large_string()),
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        }

    def _refuse_malformed(self, width: int) -> None:
        refuse_other_encodings(self.path)
        for record in _records(self.path, self.dialect):
            count = len(record.fields)
            if count == width or (self.dialect.ragged and count < width):
                continue
            if self.dialect.quote and _quote_is_open(record.text, self.dialect):
                raise self._open_quote(record)
            position = f"line {record.line:,}"
            if record.last_line > record.line:
                position = f"lines {record.line:,} to {record.last_line:,}"
            sign = self.dialect.separator
            word = {",": "comma", "\t": "tab", ";": "semicolon"}.get(sign, repr(sign))
            cure = f"put fields that contain a {word} in quotes"
            if not self.dialect.quote:
                cure = f"separate them with one {word} each"
            elif count < width:
                cure = f"give each row a field for every column; an empty field still needs its {word}"
            raise GraphFormatError(
                f"{self.path.name} {position}: expected {width} fields, found {count}", cure
            )

    def _open_quote(self, record: Record) -> GraphFormatError:
        return GraphFormatError(
            f"{self.path.name} line {record.line:,}: a quote opened here is never closed",
            'close it, or write a quote inside a quoted field as ""',
        )


class _Counting:
    """A stream for Arrow that counts the quotes in the bytes read."""

    closed = False

    def __init__(self, stream: TextStream, quote: str, quotes: Counter[str]) -> None:
        self._stream, self._quote, self._quotes = stream, quote, quotes

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._quotes[self._quote] += data.count(self._quote.encode())
        return data


def _records(path: Path, dialect: Dialect) -> Iterator[Record]:
    """All records except blank lines, which Arrow skips too.

    A byte that is not UTF-8 becomes a surrogate, to be reported with its line.
    """
    stream = io.BufferedReader(TextStream(path), 1 << 20)
    # In a ragged table such as KGX's, only \n ends a line.
    newline = "\n" if dialect.ragged else ""
    with io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline=newline) as file:
        lines = _lines(file, path.name)
        if dialect.quote:
            yield from _quoted_records(lines, dialect)
            return
        for number, line in enumerate(lines, 1):
            text = line.removesuffix("\n").removesuffix("\r")
            if text:
                yield Record(number, number, text.split(dialect.separator), line)


def _lines(file: io.TextIOWrapper, name: str) -> Iterator[str]:
    limit = LINE_BYTES.value
    while line := file.readline(limit):
        if len(line) == limit:
            raise GraphFormatError(f"{name}: has a line of more than {limit:,} letters", LINE_BYTES.cure)
        yield line


def _quoted_records(lines: Iterator[str], dialect: Dialect) -> Iterator[Record]:
    used: list[str] = []  # the lines of the current record

    def kept() -> Iterator[str]:
        for line in lines:
            used.append(line)
            yield line

    begin, reader = 0, csv.reader(kept(), **_csv_options(dialect))
    limit = csv.field_size_limit(LINE_BYTES.value)
    try:
        for fields in reader:
            if fields:
                yield Record(begin + 1, reader.line_num, fields, "".join(used))
            begin = reader.line_num
            used.clear()
    except csv.Error:  # a field beyond the size limit: the error lies in this record
        yield Record(begin + 1, begin + len(used), [], "".join(used[:1]))
    finally:
        csv.field_size_limit(limit)


def _quote_is_open(text: str, dialect: Dialect) -> bool:
    """Whether one record's text ends inside a quoted field."""
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True, **_csv_options(dialect)))
    except csv.Error as problem:
        return "unexpected end of data" in str(problem)
    return False


def _csv_options(dialect: Dialect) -> dict[str, Any]:
    return {
        "delimiter": dialect.separator,
        "quotechar": dialect.quote,
        "escapechar": dialect.escape or None,
        "doublequote": not dialect.escape,
    }
