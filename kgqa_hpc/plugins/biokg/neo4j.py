"""Neo4j graphs as files: neo4j-admin's import CSV, BioCypher's, APOC's exports (CSV and JSON Lines), CKG's
import tables, and the query export that kgw writes.

The layout is derived from the header, separator and quote from the text, unless they are given. Headers may be in
separate files (`X-header.csv` for `X.csv.gz`, `X-part000.csv` …). With id spaces, ids are unique only within their
space, so a node's id is `Space/id`. Labels and types stay as written; several labels are one type unless `labels`
says otherwise. If a file has no column for labels or types, its name gives them (`Disease_has_parent.tsv`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.kg.assemble import Assembly, Buffer
from kgqa_hpc.kg.delimited import DelimitedFile, Dialect, Rows
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.kg.sources.csv import constant, unique
from kgqa_hpc.plugins.biokg.exchange import NAMES, first_of, json_names, members
from kgqa_hpc.text.streams import json_objects, text_lines

_ENDINGS = {".csv", ".tsv", ".txt", ".jsonl", ".json"}
# `name:ID(Space){label:Gene}`: name of the property, role of the column, id space, options.
_ROLE = re.compile(r"([^:]*):(ID|LABEL|START_ID|END_ID|TYPE|IGNORE)(?:\(([^)]*)\))?(?:\{([^}]*)\})?")
_APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
_QUERY_NODES = {"id": "ID", "type": "LABEL", "properties": "JSON"}
_QUERY_EDGES = {"source_id": "START_ID", "target_id": "END_ID", "type": "TYPE"}
_CKG = {"ID": "ID", "START_ID": "START_ID", "END_ID": "END_ID", "TYPE": "TYPE", ":LABEL": "LABEL"}
LONGEST_COLUMN = 10_000  # characters of a column's name


class Neo4jSettings(SourceSettings):
    """Settings: either `path`, or `nodes` and `edges`; separators if they cannot be detected."""

    path: str | None = Field(None, description="File with all rows, or folder of files.")
    nodes: Files | None = Field(None, description="Files of nodes, and of their headers.")
    edges: Files | None = Field(None, description="Files of relationships, and of their headers.")
    delimiter: str | None = Field(None, description="Field separator: character or TAB; default: detected.")
    quote: str | None = Field(None, description="Quotation mark of fields; default: detected.")
    array_delimiter: str | None = Field(None, max_length=1, description="Separator of several labels.")
    labels: Literal["all", "first", "last"] = Field(
        "all", description="Type of a node with several labels: all (joined) or one of them."
    )
    name: list[str] = Field(
        NAMES, min_length=1, description="Properties that may hold the name; the first existing one counts."
    )
    properties: list[str] = Field(default_factory=list, description="Properties to keep.")
    paths = ("path", "nodes", "edges")

    @model_validator(mode="after")
    def _files(self) -> Neo4jSettings:
        tables = self.nodes is not None and self.edges is not None
        if (self.path is None) != tables or (self.path and (self.nodes or self.edges)):
            raise ValueError("source neo4j needs path, or nodes and edges")
        if self.delimiter not in (None, "TAB") and not re.fullmatch("[\t -~]", self.delimiter):
            raise ValueError("delimiter is one ASCII character, or TAB")
        if self.quote and not re.fullmatch("[\t -~]", self.quote):
            raise ValueError("quote is one ASCII character, or empty for none")
        return self


@dataclass(frozen=True)
class Layout:
    """The columns of a file with their roles.

    `columns`: all column names in order, distinct; `roles`: role (ID, LABEL, START_ID, END_ID, TYPE, or JSON for
    properties) to column; `spaces`: role to id space, "" for none; `label`: the label in the header's options.
    """

    dialect: Dialect
    columns: tuple[str, ...]
    roles: dict[str, str]
    spaces: dict[str, str]
    names: dict[str, str]  # property -> column
    label: str = ""

    @property
    def has_edges(self) -> bool:
        return "START_ID" in self.roles and "END_ID" in self.roles


def layout_of(header: str, dialect: Dialect) -> Layout | None:
    """The layout of a header line, or None if it is not from a Neo4j export."""
    try:
        fields = next(csv.reader([header], delimiter=dialect.separator, quotechar=dialect.quote or '"'), [])
    except csv.Error:  # a field beyond csv's limit
        return None
    if max(map(len, fields), default=0) > LONGEST_COLUMN:
        return None
    fields = [field.strip() for field in fields]
    columns = tuple(unique(fields))
    if any(map(_ROLE.fullmatch, fields)) and not set(fields) & {"ID", "START_ID"}:
        roles, spaces, names, label = dict[str, str](), dict[str, str](), dict[str, str](), ""
        for field, column in zip(fields, columns, strict=True):
            match = _ROLE.fullmatch(field)
            if match is None:
                names.setdefault(re.sub(r"[:{].*$", "", field), column)
            elif match[2] != "IGNORE":
                roles[match[2]], spaces[match[2]] = column, match[3] or ""
                if option := re.search(r"label:\s*([^,}]+)", match[4] or ""):
                    label = option[1].strip()
        return Layout(dialect, columns, roles, spaces, names, label)
    fitting = (roles for roles in (_APOC, _QUERY_EDGES, _QUERY_NODES) if roles.keys() <= set(fields))
    if (roles_of := next(fitting, None)) is None:
        if "ID" not in fields and not {"START_ID", "END_ID"} <= set(fields):
            return None
        # CKG's tables use a backslash as escape character.
        roles_of, dialect = _CKG, Dialect(dialect.separator, dialect.quote or '"', escape="\\")
    roles = {role: field for field, role in roles_of.items() if field in fields}
    names = {field: field for field in fields if field not in roles_of}
    return Layout(dialect, columns, roles, dict.fromkeys(roles, ""), names)


def guess_dialect(path: Path, header: str, separator: str | None, quote: str | None) -> Dialect:
    """Separator and quote, as given, or guessed from the header and the first 50 rows."""
    if separator is None:
        bare = re.sub(r'"[^"]*"|\{[^}]*\}', "", header)
        separator = max(",;\t|", key=bare.count)
        if not bare.count(separator):
            separator = ","
    elif separator == "TAB":
        separator = "\t"
    if quote is not None:
        return Dialect(separator, quote)
    # Single quotes if they enclose fields of the first rows and double quotes enclose none
    rows = [line.split(separator) for _, line in islice(text_lines(path), 50)]
    is_double = any(field.startswith('"') for row in rows for field in row)
    is_single = any(any(f.startswith("'") for f in row) and any(f.endswith("'") for f in row) for row in rows)
    return Dialect(separator, "'" if is_single and not is_double else '"')


def _first_line(path: Path) -> str:
    """The first line that is not blank."""
    return next((text for _, text in text_lines(path) if text.strip()), "")


class Table(NamedTuple):
    """One file of rows; without a layout it is JSON Lines."""

    path: Path
    layout: Layout | None
    own_header: bool = True


def open_tables(files: Sequence[Path], settings: Neo4jSettings) -> list[Table]:
    """The data files among `files`, each with its layout, from its own first line or from a header file."""
    headers = [path for path in files if re.search(r"[-_]header$", path.name.split(".")[0])]
    tables = []
    for path in (file for file in files if file not in headers):
        line = _first_line(path)
        if line.lstrip().startswith("{"):
            tables.append(Table(path, None))
            continue
        # The header file that matches the start of the file's name, the longest if several match
        part = r"([-_]?(part)?[-_]?\d*)"
        stems = {file: re.escape(file.name.split(".")[0][:-7]) for file in headers}
        fitting = [file for file in headers if re.fullmatch(stems[file] + part, path.name.split(".")[0])]
        header = max(fitting, key=lambda file: len(file.name), default=None)
        names = line if header is None else _first_line(header)
        layout = layout_of(names, guess_dialect(path, names, settings.delimiter, settings.quote))
        if layout is None or not ("ID" in layout.roles or layout.has_edges):
            problem = f"{(header or path).name} line 1: no header of a Neo4j export: {names[:80]!r}"
            cure = "a header has columns such as :ID and :LABEL, or :START_ID, :END_ID and :TYPE"
            raise GraphFormatError(problem, cure)
        tables.append(Table(path, layout, header is None))
    return tables


def _add_nodes(assembly: Assembly, table: Table, settings: Neo4jSettings) -> None:
    """Add the nodes of a file, if it has any. Raises GraphFormatError with the line."""
    if (layout := table.layout) is None:
        _add_json(assembly, table.path, settings, "node")
    elif "ID" in layout.roles:
        for rows in _rows(table, layout, settings, "ID"):
            if "JSON" in layout.roles:
                names = json_names(rows, rows[layout.roles["JSON"]], settings.name)
            else:
                names = constant("", len(rows))
                for name in reversed([name for name in settings.name if name in layout.names]):
                    column = rows[layout.names[name]]
                    names = pc.if_else(pc.equal(column, ""), names, column)
            kinds = _kinds(table, layout, rows, "LABEL", layout.label)
            if settings.labels != "all":
                signs = settings.array_delimiter or ("|" if layout.dialect.separator == ";" else ";")
                signs = re.escape(signs) + ":"
                pattern = rf"(?s)[{signs}].*$" if settings.labels == "first" else rf"(?s)^.*[{signs}]"
                kinds = pc.replace_substring_regex(pc.utf8_trim(kinds, characters=":"), pattern, "")
            assembly.nodes(rows.file, _ids(layout, rows, "ID"), names, kinds, rows.line_of, rows.properties)


def _add_edges(assembly: Assembly, table: Table, settings: Neo4jSettings) -> None:
    """Add the relationships of a file, if it has any. Raises GraphFormatError with the line."""
    if (layout := table.layout) is None:
        _add_json(assembly, table.path, settings, "relationship")
    elif layout.has_edges:
        for rows in _rows(table, layout, settings, "START_ID"):
            ends = _ids(layout, rows, "START_ID"), _ids(layout, rows, "END_ID")
            kinds = _kinds(table, layout, rows, "TYPE")
            assembly.edges(rows.file, *ends, kinds, rows.line_of, rows.properties)


def _rows(table: Table, layout: Layout, settings: Neo4jSettings, role: str) -> Iterator[Rows]:
    """The rows of a file; of a table that holds nodes and edges, those with a value in the role's column."""
    names = [*settings.name, *settings.properties]
    columns = [*layout.roles.values(), *(layout.names[name] for name in names if name in layout.names)]
    file = DelimitedFile.open(table.path, layout.dialect)
    selected = {name: layout.names[name] for name in settings.properties if name in layout.names}
    for rows in file.rows(layout.columns, list(dict.fromkeys(columns)), header=table.own_header):
        rows.properties.update({name: rows[column] for name, column in selected.items()})
        mixed = "ID" in layout.roles and layout.has_edges
        yield rows.where(pc.not_equal(rows[layout.roles[role]], "")) if mixed else rows


def _ids(layout: Layout, rows: Rows, role: str) -> pa.Array:
    ids, space = rows[layout.roles[role]], layout.spaces[role]
    # An empty id stays empty, so that a later check refuses it.
    return pc.if_else(pc.equal(ids, ""), ids, pc.utf8_replace_slice(ids, 0, 0, f"{space}/")) if space else ids


def _kinds(table: Table, layout: Layout, rows: Rows, role: str, label: str = "") -> pa.Array:
    """Labels or types of the rows; without such a column `label`, or the file's name without suffix and part number."""
    if role in layout.roles:
        return rows[layout.roles[role]]
    stem = re.sub(r"[-_]?part[-_]?\d*$", "", table.path.name.split(".")[0])
    return constant(label or stem, len(rows))


def _add_json(assembly: Assembly, path: Path, settings: Neo4jSettings, member: str) -> None:
    """Add the nodes or relationships of a file of APOC's JSON Lines, which mixes both."""
    buffer = Buffer(assembly, path.name)
    for line, item in json_objects(path, GraphFormatError):
        try:
            if item["type"] != member:
                continue
            properties = item.get("properties") or {}
            selected = members(properties, settings.properties)
            if member == "node":
                labels = [str(label) for label in item.get("labels", [])]
                labels = {"all": labels, "first": labels[:1], "last": labels[-1:]}[settings.labels]
                name = first_of(properties, settings.name)
                buffer.node(line, item["id"], name, ":".join(labels), selected)
            else:
                buffer.edge(line, item["start"]["id"], item["end"]["id"], item["label"], selected)
        except (AttributeError, KeyError, TypeError) as problem:
            text = f"{path.name} line {line:,}: not a {member} as APOC writes it: {problem}"
            raise GraphFormatError(text, "export it again") from None
    buffer.flush()


class Neo4j:
    """Exports of Neo4j data bases."""

    name = "neo4j"
    licence = ""
    description = "Neo4j graphs as files of neo4j-admin, BioCypher, APOC, CKG or kgw."
    Settings = Neo4jSettings

    def read(self, settings: Neo4jSettings) -> KnowledgeGraph:
        """The graph of all files: first all files of nodes, then of relationships, each by its name."""
        files = [*listed(settings.nodes), *listed(settings.edges)]
        if settings.path is not None:
            path = Path(settings.path)
            inside = sorted(path.iterdir()) if path.is_dir() else []
            files = [p for p in inside if set(p.suffixes) & _ENDINGS and not p.name.startswith(".")]
            files = files if path.is_dir() else [path]
        tables = open_tables(files, settings)
        if not tables:
            location = settings.path or listed(settings.nodes)[0].parent
            raise InputError(f"{location}: has no file of a Neo4j export", "is it the right folder?")
        assembly = Assembly(settings)
        for add in (_add_nodes, _add_edges):
            for table in tables:
                add(assembly, table, settings)
        names = [table.path.name for table in tables]
        text = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        return assembly.finish({"source": self.name, "files": text})
