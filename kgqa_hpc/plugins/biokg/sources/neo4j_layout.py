"""The layout of a Neo4j export file: separator, quote, and the role of each column."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgqa_hpc.kg.delimited import Dialect
from kgqa_hpc.kg.tables import unique
from kgqa_hpc.text.streams import text_lines

# `name:ID(Space){label:Gene}`: name of the property, role of the column, id space, options.
_ROLE = re.compile(r"([^:]*):(ID|LABEL|START_ID|END_ID|TYPE|IGNORE)(?:\(([^)]*)\))?(?:\{([^}]*)\})?")
_APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
_QUERY_NODES = {"id": "ID", "type": "LABEL", "properties": "JSON"}
_QUERY_EDGES = {"source_id": "START_ID", "target_id": "END_ID", "type": "TYPE"}
_CKG = {"ID": "ID", "START_ID": "START_ID", "END_ID": "END_ID", "TYPE": "TYPE", ":LABEL": "LABEL"}
LONGEST_COLUMN = 10_000  # characters of a column's name


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
    def has_nodes(self) -> bool:
        return "ID" in self.roles

    @property
    def has_edges(self) -> bool:
        return "START_ID" in self.roles and "END_ID" in self.roles


def layout_of(header: str, dialect: Dialect) -> Layout | None:
    """The layout of a header line, or None if it is not from a Neo4j export."""
    reader = csv.reader([header], delimiter=dialect.separator, quotechar=dialect.quote or '"')
    try:
        fields = next(reader, [])
    except csv.Error:  # a field beyond csv's limit
        return None
    if max(map(len, fields), default=0) > LONGEST_COLUMN:
        return None
    fields = [field.strip() for field in fields]
    if any(_ROLE.fullmatch(field) for field in fields) and not set(fields) & {"ID", "START_ID"}:
        return _admin(fields, dialect)
    for columns_of in (_APOC, _QUERY_EDGES, _QUERY_NODES):
        if columns_of.keys() <= set(fields):
            return _by_name(fields, columns_of, dialect)
    if set(fields) & {"ID"} or {"START_ID", "END_ID"} <= set(fields):
        # CKG's tables use a backslash as escape character.
        escaping = Dialect(dialect.separator, dialect.quote or '"', escape="\\")
        return _by_name(fields, _CKG, escaping)
    return None


def _admin(fields: Sequence[str], dialect: Dialect) -> Layout:
    columns = unique(fields)
    roles: dict[str, str] = {}
    spaces: dict[str, str] = {}
    names: dict[str, str] = {}
    label = ""
    for field, column in zip(fields, columns, strict=True):
        match = _ROLE.fullmatch(field)
        if match is None:
            names.setdefault(re.sub(r"[:{].*$", "", field), column)
        elif match[2] != "IGNORE":
            roles[match[2]], spaces[match[2]] = column, match[3] or ""
            if option := re.search(r"label:\s*([^,}]+)", match[4] or ""):
                label = option[1].strip()
    return Layout(dialect, tuple(columns), roles, spaces, names, label)


def _by_name(fields: Sequence[str], roles_of: dict[str, str], dialect: Dialect) -> Layout:
    roles = {role: field for field, role in roles_of.items() if field in fields}
    names = {field: field for field in fields if field not in roles_of}
    return Layout(dialect, tuple(unique(fields)), roles, dict.fromkeys(roles, ""), names)


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
    quote = '"'
    for number, line in text_lines(path):
        fields = line.split(separator)
        if any(field.startswith('"') for field in fields):
            return Dialect(separator, '"')
        if any(f.startswith("'") for f in fields) and any(f.endswith("'") for f in fields):
            quote = "'"
        if number >= 50:
            break
    return Dialect(separator, quote)


def first_line(path: Path) -> str:
    """The first line that is not blank."""
    return next((text for _, text in text_lines(path) if text.strip()), "")


def header_for(path: Path, headers: Sequence[Path]) -> Path | None:
    """The header file that matches the start of the data file's name, the longest if several match; or None."""
    stem = path.name.split(".")[0]
    part = r"([-_]?(part)?[-_]?\d*)"
    fitting = [h for h in headers if re.fullmatch(re.escape(h.name.split(".")[0][:-7]) + part, stem)]
    return max(fitting, key=lambda header: len(header.name), default=None)
