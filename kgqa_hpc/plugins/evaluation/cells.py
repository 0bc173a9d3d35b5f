"""CSV files that people open in a spreadsheet: safe to write, exact to read back.

A spreadsheet takes a cell that starts with = + - @ for a formula, and text of a language model may start so.
Such a cell is written behind an apostrophe and read back without it; no other text is changed.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kgqa_hpc.errors import InputError
from kgqa_hpc.text.limits import COLUMNS, LINE_BYTES
from kgqa_hpc.text.opener import NotRegular, read_bytes

_FORMULA = frozenset("=+-@\t\r")


def guard(text: str) -> str:
    """`text` as a cell that no spreadsheet evaluates. Undone by `unguard`."""
    return f"'{text}" if text.lstrip("'")[:1] in _FORMULA else text


def unguard(cell: str) -> str:
    """The text that `guard` received."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'")[:1] in _FORMULA else cell


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A UTF-8 CSV file (RFC 4180), every cell guarded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")  # quotes both characters inside a cell
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if cell is None else guard(str(cell)) for cell in row])
    return out.getvalue().encode("utf-8")


def read_csv(path: Path, *needed: str) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Header, and rows by column (in lower case) with their line numbers; commas or semicolons, with or without
    a byte order mark.

    Rows are read as they are asked for. Raises InputError: no such file, not UTF-8, no header, a `needed` column
    is missing, one is there twice (in any case), a row has another length.
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
    delimiter = ";" if header_line.count(";") > header_line.count(",") else ","
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
                raise InputError(
                    f"{path} line {line}: {len(row)} cells, but the header names {len(names)}",
                    "quote cells that hold the delimiter or a line break",
                )
            yield line, {name: unguard(cell) for name, cell in zip(names, row, strict=True)}
    except csv.Error as problem:
        raise InputError(f"{path} near line {line + 1}: {problem}", "save it as a CSV file again") from None
