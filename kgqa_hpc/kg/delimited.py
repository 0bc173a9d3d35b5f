"""Comma- and tab-separated tables: fast columns, and the exact line when something is wrong.

Arrow parses all rows at once but does not know lines. So only when a line is asked for, the same bytes are
walked record by record with the standard library, which does: a file in order never pays for it.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.textfile import read_text, refuse_other_encodings

# A record must fit into two blocks; long descriptions in columns we ignore do.
_BLOCK_BYTES = 8 << 20
_NOT_A_LINE_END = re.compile(rb"[^\r\n]")


@dataclass(frozen=True)
class Dialect:
    """`quoted`: fields may stand in double quotes and then hold separators and line ends."""

    separator: str
    quoted: bool


CSV = Dialect(",", quoted=True)
TSV = Dialect("\t", quoted=False)


@dataclass(frozen=True)
class Record:
    """One record and the lines it stands on, counted from 1."""

    line: int
    last_line: int
    fields: list[str]
    text: str


@dataclass(frozen=True, eq=False, repr=False)
class DelimitedFile:
    """A file's text, its first record (the header, if it has one), and where that ends in bytes."""

    file: str
    data: bytes
    dialect: Dialect
    first: Record
    first_end: int

    @classmethod
    def open(cls, path: Path, dialect: Dialect) -> DelimitedFile:
        """Read the file. Raises InputError or GraphFormatError as `read_text`."""
        data = read_text(path)
        # Lines are decoded one by one, so that a foreign byte further down is reported with its own line.
        lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape", newline="")
        used: list[str] = []
        for record in _records(_kept(lines, used), dialect):
            if any("\udc80" <= letter <= "\udcff" for letter in record.text):
                refuse_other_encodings(data, path.name)
            end = len("".join(used).encode("utf-8", "surrogateescape"))
            return cls(path.name, data, dialect, record, end)
        raise GraphFormatError(f"{path.name}: is empty", "is it the right file?")

    def columns(self, names: Sequence[str], wanted: Sequence[str], *, header: bool) -> dict[str, pa.Array]:
        """The wanted columns as large_string arrays; every record must have one field for each of `names`.

        `names` are the columns in their order (distinct), `header` says that the first record is not data.
        Raises GraphFormatError with the line of a record with too few or too many fields, an open quote, or a
        byte that is not UTF-8.
        """
        begin = self.first_end if header else 0
        if _NOT_A_LINE_END.search(self.data, begin) is None:
            return {name: pa.array([], pa.large_string()) for name in wanted}
        self._refuse_open_quote()
        try:
            table = pa.csv.read_csv(
                pa.py_buffer(self.data)[begin:],
                read_options=pa.csv.ReadOptions(column_names=list(names), block_size=_BLOCK_BYTES),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.dialect.separator,
                    quote_char='"' if self.dialect.quoted else False,
                    # Without a single quote in the file rows can be told apart in parallel.
                    newlines_in_values=self.dialect.quoted and b'"' in self.data,
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.large_string()),
                    include_columns=list(wanted),
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as problem:
            self._refuse_malformed(len(names))
            raise GraphFormatError(f"{self.file}: cannot be parsed: {problem}") from None
        return {name: table.column(name).combine_chunks() for name in wanted}

    def line_of(self, row: int, *, header: bool) -> int:
        """The line on which a row of `columns` begins."""
        for number, record in enumerate(self.records()):
            if number == row + header:
                return record.line
        raise IndexError(f"{self.file} has no row {row}")

    def records(self) -> Iterator[Record]:
        """All records from the start, blank lines skipped, as Arrow does."""
        text = io.StringIO(self.data.decode("utf-8"), newline="")
        return _records(text, self.dialect)

    def _refuse_malformed(self, width: int) -> None:
        refuse_other_encodings(self.data, self.file)
        for record in self.records():
            if len(record.fields) == width:
                continue
            if self.dialect.quoted and _quote_is_open(record.text):
                raise self._open_quote(record)
            where = f"line {record.line:,}"
            if record.last_line > record.line:
                where = f"lines {record.line:,} to {record.last_line:,}"
            raise GraphFormatError(
                f"{self.file} {where}: expected {width} fields, found {len(record.fields)}",
                "put fields that contain a comma in double quotes"
                if self.dialect.quoted
                else "separate them with one tab each",
            )

    def _refuse_open_quote(self) -> None:
        # Arrow takes a quote that is still open at the end of the file for the last field; half the table can
        # be in it.
        if not self.dialect.quoted or self.data.count(b'"') % 2 == 0:
            return
        refuse_other_encodings(self.data, self.file)
        record = self.first
        for record in self.records():  # noqa: B007 - only the last one is wanted
            pass
        if _quote_is_open(record.text):
            raise self._open_quote(record)

    def _open_quote(self, record: Record) -> GraphFormatError:
        return GraphFormatError(
            f"{self.file} line {record.line:,}: a quote opened here is never closed",
            'close it, or write a quote inside a quoted field as ""',
        )


def _records(lines: Iterator[str], dialect: Dialect) -> Iterator[Record]:
    used: list[str] = []
    reader = csv.reader(
        _kept(lines, used),
        delimiter=dialect.separator,
        quoting=csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE,
    )
    begin = 0
    limit = csv.field_size_limit(sys.maxsize)
    try:
        for fields in reader:
            if fields:
                yield Record(begin + 1, reader.line_num, fields, "".join(used))
            begin = reader.line_num
            used.clear()
    finally:
        csv.field_size_limit(limit)


def _kept(lines: Iterator[str], used: list[str]) -> Iterator[str]:
    """Pass lines through and remember them in `used`."""
    for line in lines:
        used.append(line)
        yield line


def _quote_is_open(text: str) -> bool:
    """Whether one record's text ends inside a quoted field."""
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as problem:
        return "unexpected end of data" in str(problem)
    return False
