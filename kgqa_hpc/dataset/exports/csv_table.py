"""A table for spreadsheets: one row per record, nested columns as JSON text.

A cell that begins with =, +, -, @, a tab or a carriage return would be a formula in a spreadsheet program; it gets an
apostrophe in front, which such programs hide.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.exports.source import ExportSource

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CsvTable:
    """SPLIT.csv (UTF-8, RFC 4180) with every column of the records."""

    name = "csv"

    def write(self, source: ExportSource, folder: Path) -> None:
        for split in source.splits:
            with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                for number, record in enumerate(source.records(split)):
                    if number == 0:
                        writer.writerow(record)
                    writer.writerow([_cell(value) for value in record.values()])


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, dict | list):
        return orjson.dumps(value).decode()
    return value
