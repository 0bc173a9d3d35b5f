"""The identifier spaces of a recipe: the requested ids of each, and their names from tables or a web service.

Only the requested ids of local tables (TSV, CSV, JSON, JSON Lines, OBO) are kept in memory. A web service is queried
slowly, one id at a time, and each answer is on disk before the next request.

The answers of a space are in one append-only file of JSON Lines: `{"id", "name", "date"}`, with name null if the
service does not know the id. A torn last line is cut, so a killed hydration repeats no answered request. An id
without an answer is not written and is requested again next time.
"""

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.engines.http import TooLarge, answer_within
from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.kg.delimited import CSV, RAGGED
from kgqa_hpc.kg.sources.csv import read_table
from kgqa_hpc.kg.sources.obo import stanzas
from kgqa_hpc.plugins.biokg.recipe import Recipe, Resolver, Space
from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.text.streams import TextStream, json_objects, open_append, parse_json, read_bytes

LARGEST = 1 << 30  # bytes of a JSON document, which is read into memory whole
_LONGEST_ANSWER = 1 << 20  # bytes of a web service's answer; real answers have a few hundred
_FAILURES = (OSError, http.client.HTTPException, ValueError)
_AGENT = "kgqa_hpc hydration"
_EXAMPLES = 5
_TROUBLES = ("not_asked", "not_found", "another_id", "unreadable")


class Web:
    """A web service, with its answers so far in the file `path`."""

    def __init__(self, resolver: Resolver, path: Path) -> None:
        self._resolver, self._path = resolver, path
        self._next, self._in_vain = 0.0, 0
        self.known: dict[str, dict[str, Any]] = {}
        data = read_bytes(path) if path.exists() else b""
        end = data.rfind(b"\n") + 1
        if end < len(data):
            os.truncate(path, end)
        for line in data[:end].split(b"\n"):
            try:
                answer = parse_json(line)
                self.known.setdefault(str(answer["id"]), answer)
            except (orjson.JSONDecodeError, KeyError, TypeError):
                continue  # skip a damaged line: its id is requested again

    def ask_all(self, keys: Iterable[str], counts: Counter[str]) -> None:
        """Request each id that has no answer yet, in order; failures are counted.

        Stops after several failed requests in a row.
        """
        for key in keys:
            if key in self.known:
                continue
            if self._in_vain >= self._resolver.give_up_after:
                counts["unreachable"] += 1
                continue
            reason, name = self._ask(key)
            if reason:
                counts[reason] += 1
            if reason == "unreachable":
                self._in_vain += 1
                continue
            self._in_vain = 0
            # The answer is on disk before the next request.
            answer = {"id": key, "name": name, "date": datetime.now(UTC).date().isoformat()}
            make_folder(self._path.parent)
            with open(open_append(self._path), "ab", buffering=0) as file:
                file.write(orjson.dumps(answer) + b"\n")
                os.fsync(file.fileno())
            self.known[key] = answer

    def _ask(self, key: str) -> tuple[str, str | None]:
        """Reason of a failed request ("" if it succeeded), and the name; None if the service has no name."""
        url = self._resolver.url.replace("{id}", urllib.parse.quote(key, safe=""))
        request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": _AGENT})
        for attempt in range(self._resolver.attempts):
            # Keep to the allowed pace, and wait longer after each failure
            pause = max(0.0, self._next - time.monotonic()) + (2**attempt - 1) / self._resolver.per_second
            if pause:
                time.sleep(min(pause, 60.0))
            self._next = time.monotonic() + 1 / self._resolver.per_second
            try:
                body = answer_within(request, self._resolver.timeout, _LONGEST_ANSWER)
                return self._read(key, body)
            except TooLarge:
                return "unreadable", None
            except urllib.error.HTTPError as problem:
                problem.close()
                if problem.code in (404, 410):
                    return "not_found", None
            except _FAILURES:
                continue
        return "unreachable", None

    def _read(self, key: str, body: bytes) -> tuple[str, str | None]:
        try:
            answer = parse_json(body)
            name = reduce(getitem, self._resolver.name, answer)
            check = self._resolver.check
            if check is not None and str(reduce(getitem, check, answer)) != key:
                return "another_id", None
        except (ValueError, KeyError, IndexError, TypeError):
            return "unreadable", None
        return ("", name) if isinstance(name, str) and name.strip() else ("not_found", None)


@dataclass
class TableNames:
    """The names of a table for the requested ids; if an id has several names, the first counts."""

    file: str
    names: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # id -> all its names, where they differ
    missing: bool = False  # the file does not exist


def read_names(space: Space, path: Path, keys: set[str]) -> TableNames:
    """The names of the requested ids; none if the file is missing. Raises GraphFormatError with file and line."""
    table = TableNames(path.name, missing=not path.exists())
    for key, name in () if table.missing else _rows(space, path):
        if name.strip() and (key := space.local(key)) in keys:
            registered = table.names.setdefault(key, name)
            if registered != name and name not in table.conflicts.setdefault(key, [registered]):
                table.conflicts[key].append(name)
    return table


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
    """(id, name) pairs of {id: name}, {id: {name: …}} or [{id: …, name: …}], read into memory up to LARGEST bytes."""
    pieces, size = list[bytes](), 0
    with TextStream(path) as stream:
        while size <= LARGEST and (piece := stream.read(1 << 20)):
            pieces.append(piece)
            size += len(piece)
    if size > LARGEST:
        raise GraphFormatError(f"{path.name}: is larger than 1 GiB", "write it as JSON Lines")
    data = b"".join(pieces)
    try:
        content = parse_json(data)
    except orjson.JSONDecodeError as problem:
        line = 1 + data[: problem.pos].count(b"\n")
        text = f"{path.name} line {line:,}: not JSON: {problem.msg}"
        raise GraphFormatError(text, "export it again") from None
    rows = content.items() if isinstance(content, dict) else ((None, item) for item in content)
    for key, value in rows:
        if isinstance(value, dict):
            yield str(value.get(space.id, "") if key is None else key), str(value.get(space.name) or "")
        elif key is not None and isinstance(value, str):
            yield key, value


class Spaces:
    """Names by space and id. A table is read once, at its first lookup, for all ids in `wanted` by then."""

    def __init__(self, recipe: Recipe, cache: Path | None, *, web: bool) -> None:
        self._recipe, self._cache, self._web = recipe, cache, web
        self.wanted: dict[str, set[str]] = {name: set() for name in recipe.spaces}
        self._tables: dict[str, TableNames] = {}
        self._webs: dict[str, Web] = {}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in recipe.spaces}

    def ask(self, space: str, keys: list[str]) -> None:
        """Request unknown ids from the web service of an identifier space, if it has one and web access is allowed."""
        if (resolver := self._recipe.spaces[space].resolver) is None:
            return
        web = self._web_of(space, resolver)
        if self._web:
            web.ask_all(dict.fromkeys(keys), self._counts[space])
        else:
            self._counts[space]["not_asked"] += len({key for key in keys if key not in web.known})

    def name(self, space: str, key: str) -> tuple[str, str, str] | None:
        """(name, table or URL, date) of an id in a space; None if it has no name."""
        described = self._recipe.spaces[space]
        if described.resolver is not None:
            answer = self._web_of(space, described.resolver).known.get(key)
            if answer is None or not answer.get("name"):
                return None
            return str(answer["name"]), described.resolver.url, str(answer.get("date", ""))
        if space not in self._tables:
            path = self._recipe.path(str(described.table or described.obo))
            self._tables[space] = read_names(described, path, self.wanted[space])
        table = self._tables[space]
        name = table.names.get(key)
        return None if name is None else (name, table.file, described.date)

    def report(self) -> dict[str, dict[str, Any]]:
        """For each space: licence, table, date, number of requested ids, conflicts and failures."""
        report = {}
        for name, space in self._recipe.spaces.items():
            table = self._tables.get(name, TableNames(""))
            counts = self._counts[name]
            report[name] = {
                "licence": space.licence,
                "table": table.file or (space.resolver.url if space.resolver else space.table or space.obo),
                "date": space.date,
                "table_is_missing": table.missing,
                "wanted": len(self.wanted[name]),
                "conflicts": len(table.conflicts),
                "examples_of_conflicts": dict(list(table.conflicts.items())[:_EXAMPLES]),
                "unreachable": counts["unreachable"],
                **{key: counts[key] for key in _TROUBLES if counts[key]},
            }
        return report

    def _web_of(self, space: str, resolver: Resolver) -> Web:
        if space not in self._webs:
            if self._cache is None:
                problem = f"space {space}: there is no folder for the answers of its web service"
                raise InputError(problem, "set cache in the recipe")
            self._webs[space] = Web(resolver, self._cache / f"{urllib.parse.quote(space, safe='')}.jsonl")
        return self._webs[space]
