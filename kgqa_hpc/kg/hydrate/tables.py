"""Names out of local tables: TSV, CSV, JSON, JSON Lines and OBO, read for the ids that are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.delimited import CSV, Dialect
from kgqa_hpc.kg.hydrate.recipe import Space
from kgqa_hpc.kg.jsonfile import json_lines
from kgqa_hpc.kg.sources.obo import stanzas
from kgqa_hpc.kg.tables import read_table
from kgqa_hpc.kg.textfile import TextStream

_TSV = Dialect("\t", ragged=True)
LARGEST = 1 << 30  # bytes of a JSON document, which is held in memory as a whole


@dataclass
class Found:
    """The names of a table for the wanted ids; of several names of one id the first counts."""

    file: str
    names: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # id -> all its names, where they differ
    missing: bool = False  # there is no such file

    def add(self, key: str, name: str) -> None:
        first = self.names.setdefault(key, name)
        if first != name and (name not in self.conflicts.setdefault(key, [first])):
            self.conflicts[key].append(name)


def read_names(space: Space, path: Path, wanted: set[str]) -> Found:
    """The names of the wanted ids. Raises GraphFormatError with file and line; no file is no error."""
    found = Found(path.name, missing=not path.exists())
    for key, name in () if found.missing else _rows(space, path):
        if name.strip() and (key := space.local(key)) in wanted:
            found.add(key, name)
    return found


def _rows(space: Space, path: Path) -> Iterator[tuple[str, str]]:
    if space.obo is not None:
        for stanza in stanzas(path):
            if stanza.kind == "Term" and stanza.first("is_obsolete") != "true":
                yield stanza.first("id"), stanza.first("name")
    elif {".jsonl", ".ndjson"} & set(path.suffixes):
        for _, item in json_lines(path):
            yield str(item.get(space.id, "")), str(item.get(space.name) or "")
    elif ".json" in path.suffixes:
        yield from _json_object(space, path)
    else:
        dialect = CSV if ".csv" in path.suffixes else _TSV
        for rows in read_table(path, dialect, (space.id, space.name)):
            yield from zip(rows[space.id].to_pylist(), rows[space.name].to_pylist(), strict=True)


def _json_object(space: Space, path: Path) -> Iterator[tuple[str, str]]:
    """{id: name}, {id: {name: …}} or [{id: …, name: …}]; such a file is held in memory, up to a bound."""
    data = bytearray()
    with TextStream(path) as stream:
        while len(data) <= LARGEST and (piece := stream.read(1 << 20)):
            data += piece
    if len(data) > LARGEST:
        raise GraphFormatError(f"{path.name}: is larger than 1 GiB", "write it as JSON Lines")
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        line = 1 + data[: problem.pos].count(b"\n")
        raise GraphFormatError(
            f"{path.name} line {line:,}: not JSON: {problem.msg}", "export it again"
        ) from None
    rows = content.items() if isinstance(content, dict) else ((None, item) for item in content)
    for key, value in rows:
        if isinstance(value, dict):
            yield str(value.get(space.id, "") if key is None else key), str(value.get(space.name) or "")
        elif key is not None and isinstance(value, str):
            yield key, value
