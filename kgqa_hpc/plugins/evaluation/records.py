"""Reader of dataset records for the statistics: from a merged run, or from any file of JSON lines.

Records are read line by line, so memory does not grow with their number. docs/reference/record.md lists their fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.where import Where
from kgqa_hpc.dataset.whole import require_whole
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.bounded_json import json_objects

FILES = ("accepted.jsonl", "rejected.jsonl")


def record_files(source: Path) -> list[Path]:
    """The JSON lines of a run folder's dataset, or `source` itself when it is a file.

    Raises InputError when there is none.
    """
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise InputError(f"{source}: no such run or file")
    files = [source / "dataset" / name for name in FILES]
    if missing := [path for path in files if not path.is_file()]:
        raise InputError(f"{missing[0]}: is not there", f"first: kgqa merge {source}")
    require_whole(source / "dataset", *FILES)
    return files


def records(source: Path, where: str | None = None) -> Iterator[dict[str, Any]]:
    """Each record of a run's dataset (accepted first) or of a file of JSON lines.

    `where`: an SQL expression that selects records of a run. Raises InputError for a wrong expression, and with file
    and line for a line that is no JSON object with an `id`.
    """
    if where and source.is_file():
        raise InputError(f"{source}: --where needs a merged run", "name the run's folder")
    for path in record_files(source):
        holds = Where(where or "").selector(path.parent, path.stem)
        for line, record in json_objects(path):
            if not isinstance(record.get("id"), str | int):
                raise InputError(f"{path} line {line}: no id", "every line is an object with an id")
            record["id"] = str(record["id"])
            if holds(record):
                yield record


def group_of(record: dict[str, Any], column: str = "group") -> str:
    """The value of a column as text; `group` of a record without it is its shape.

    Raises InputError when the record has no such column.
    """
    value = record.get(column)
    if value is None and column == "group" and record.get("graphlet_id") is not None:
        return f"shape {record['graphlet_id']}"
    if column not in record and not (column == "group"):
        raise InputError(f"record {record['id']!r} has no column {column!r}", f"it has: {', '.join(record)}")
    return "none" if value is None else str(value)
