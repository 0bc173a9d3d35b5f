"""The identifier spaces of a recipe: the requested ids of each, and their names.

Names stand in local tables (TSV, CSV, JSON, JSON Lines, OBO), read for the wanted ids only, or come from a web
service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.kg.delimited import CSV, RAGGED
from kgqa_hpc.kg.sources.obo import stanzas
from kgqa_hpc.kg.tables import read_table
from kgqa_hpc.plugins.biokg.hydrate.recipe import Recipe, Space
from kgqa_hpc.plugins.biokg.hydrate.resolver import Answers, Web
from kgqa_hpc.text.bounded_json import json_objects
from kgqa_hpc.text.streams import TextStream

LARGEST = 1 << 30  # bytes of a JSON document, which is held in memory as a whole


@dataclass
class Found:
    """The names of a table for the wanted ids; of several names of one id the first counts."""

    file: str
    names: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # id -> all its names, where they differ
    missing: bool = False  # there is no such file

    def add(self, key: str, name: str) -> None:
        registered = self.names.setdefault(key, name)
        if registered != name and (name not in self.conflicts.setdefault(key, [registered])):
            self.conflicts[key].append(name)


def read_names(space: Space, path: Path, keys: set[str]) -> Found:
    """The names of the wanted ids. Raises GraphFormatError with file and line; no file is no error."""
    names = Found(path.name, missing=not path.exists())
    for key, name in () if names.missing else _rows(space, path):
        if name.strip() and (key := space.local(key)) in keys:
            names.add(key, name)
    return names


def _rows(space: Space, path: Path) -> Iterator[tuple[str, str]]:
    if space.obo is not None:
        for stanza in stanzas(path):
            if stanza.kind == "Term" and stanza.first("is_obsolete") != "true":
                yield stanza.first("id"), stanza.first("name")
    elif {".jsonl", ".ndjson"} & set(path.suffixes):
        for _, item in json_objects(path, GraphFormatError):
            yield str(item.get(space.id, "")), str(item.get(space.name) or "")
    elif ".json" in path.suffixes:
        yield from _json_object(space, path)
    else:
        dialect = CSV if ".csv" in path.suffixes else RAGGED
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


_EXAMPLES = 5
_TROUBLES = ("not_asked", "not_found", "another_id", "unreadable")


class Spaces:
    """Names by space and id. Tables are read once, for all ids that were wanted before the first question."""

    def __init__(self, recipe: Recipe, cache: Path | None, *, web: bool) -> None:
        self._recipe, self._cache, self._web = recipe, cache, web
        self._wanted: dict[str, set[str]] = {name: set() for name in recipe.spaces}
        self._tables: dict[str, Found] = {}
        self._answers: dict[str, Answers] = {}
        self._webs: dict[str, Web] = {}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in recipe.spaces}

    def want(self, space: str, keys: Iterable[str]) -> None:
        """These ids will be asked for."""
        self._wanted[space].update(keys)

    def ask(self, space: str, keys: list[str]) -> None:
        """Request unknown ids from the web service of an identifier space, if it has one and web access is allowed."""
        described = self._recipe.spaces[space]
        if described.resolver is None:
            return
        answers = self._answers_of(space)
        if not self._web:
            self._counts[space]["not_asked"] += len({key for key in keys if key not in answers.known})
            return
        web = self._webs.setdefault(space, Web(described.resolver, answers))
        web.ask_all(list(dict.fromkeys(keys)), self._counts[space])

    def name(self, space: str, key: str) -> tuple[str, str, str] | None:
        """Name, table and date, or None."""
        described = self._recipe.spaces[space]
        if described.resolver is not None:
            answer = self._answers_of(space).known.get(key)
            if answer is None or not answer.get("name"):
                return None
            return str(answer["name"]), described.resolver.url, str(answer.get("date", ""))
        if space not in self._tables:
            path = self._recipe.path(str(described.table or described.obo))
            self._tables[space] = read_names(described, path, self._wanted[space])
        table = self._tables[space]
        name = table.names.get(key)
        return None if name is None else (name, table.file, described.date)

    def report(self) -> dict[str, dict[str, Any]]:
        """By space: licence, how many ids were wanted and have a name, conflicts, what went wrong."""
        report = {}
        for name, space in self._recipe.spaces.items():
            table = self._tables.get(name, Found(""))
            counts = self._counts[name]
            report[name] = {
                "licence": space.licence,
                "table": table.file or (space.resolver.url if space.resolver else space.table or space.obo),
                "date": space.date,
                "table_is_missing": table.missing,
                "wanted": len(self._wanted[name]),
                "conflicts": len(table.conflicts),
                "examples_of_conflicts": dict(list(table.conflicts.items())[:_EXAMPLES]),
                "unreachable": counts["unreachable"],
                **{key: counts[key] for key in _TROUBLES if counts[key]},
            }
        return report

    def _answers_of(self, space: str) -> Answers:
        if space not in self._answers:
            if self._cache is None:
                raise InputError(
                    f"space {space}: no place for the answers of a web service", "set cache in the recipe"
                )
            name = "".join(letter if letter.isalnum() else "_" for letter in space)
            self._answers[space] = Answers(self._cache / f"{name}.jsonl")
        return self._answers[space]
