"""Graphs as separated tables: the source csv (nodes and edges with named columns) and the source triples.

csv reads nodes (id, name, type) and edges (source_id, target_id, type), or edges alone. The first line names the
columns; their order is free, `columns` and `edge_columns` map other names, and further columns are properties. The
separator is read off the first line. Ids, names and types are text: an id 007 or a gene called NA stays as it is.
Plain or compressed, UTF-8, fields with separators or line ends in double quotes. Without a node table the nodes are
the ends of the edges, named by their ids.

triples reads one file of subject, predicate and object. Tab-separated files have no quoting: each tab ends a field,
each line end a triple. With other separators, fields that contain the separator are in double quotes. The separator
is read off the first line, or set by `delimiter`. A first line that names the columns (subject or head or source …)
is skipped. Without a node file the nodes are the subjects and objects in order of appearance, each named by its id
and of type "entity"; with one (id,name,type as for csv) it declares them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly
from kgqa_hpc.kg.delimited import TSV, DelimitedFile, Dialect, Rows
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.settings import Settings, later_key

NODE_COLUMNS = ("id", "name", "type")
EDGE_COLUMNS = ("source_id", "target_id", "type")
Separator = Annotated[str, Field(min_length=1, max_length=1)]
# Names of the columns in the first line of a file of triples
_FIRST_NAMES = {"subject", "head", "source", "source_id", "from", "s", "h", "x_id", "start"}
_LAST_NAMES = {"object", "tail", "target", "target_id", "to", "o", "t", "y_id", "end"}


class NodeColumns(Settings):
    """The columns of the node table."""

    id: str = Field("id", description="Column with the node's id.")
    name: str = Field("name", description="Column with the node's name.")
    type: str = Field("type", description="Column with the node's type, such as gene.")


class EdgeColumns(Settings):
    """The columns of the edge table."""

    source: str = Field("source_id", description="Column with the id of the edge's source node.")
    target: str = Field("target_id", description="Column with the id of the edge's target node.")
    type: str = Field("type", description="Column with the edge's type (the relation).")


class CsvSettings(SourceSettings):
    """Settings of the source csv: tables of nodes and edges, each in one or several files."""

    nodes: Files | None = Field(
        None,
        description="Files with id,name,type; default: the ends of the edges.",
    )
    edges: Files = Field(description="Files with source_id,target_id,type.")
    delimiter: Separator | None = later_key("Field separator; default: read off the first line.")
    columns: NodeColumns | None = later_key("Names of the columns in the node files.")
    edge_columns: EdgeColumns | None = later_key("Names of the columns in the edge files.")
    paths = ("nodes", "edges")


class Csv:
    """Tables of nodes and edges."""

    name = "csv"
    licence = ""
    description = "Tables of nodes (id,name,type) and edges (source_id,target_id,type), or of edges alone."
    Settings = CsvSettings

    def read(self, settings: CsvSettings) -> KnowledgeGraph:
        """The graph of the files of a configuration.

        Raises GraphFormatError with file and line, EmptyGraphError, or InputError when a file cannot be read.
        """
        nodes, edges = listed(settings.nodes), listed(settings.edges)
        assembly = Assembly(settings)
        for path in nodes:
            add_nodes(assembly, path, settings.columns, settings.delimiter)
        columns = settings.edge_columns or EdgeColumns()
        for path in edges:
            for rows in _read(path, columns, "edge_columns", settings.delimiter):
                ends = rows["source"], rows["target"]
                assembly.edges(rows.file, *ends, rows["type"], rows.line_of, rows.properties)
        files = ", ".join(path.name for path in (*nodes, *edges))
        return assembly.finish({"source": "csv", "files": files}, declare=None if nodes else named_by_id)


def add_nodes(
    assembly: Assembly, path: Path, columns: NodeColumns | None = None, delimiter: str | None = None
) -> None:
    """Add the nodes of a file to the assembly."""
    for rows in _read(path, columns or NodeColumns(), "columns", delimiter):
        assembly.nodes(rows.file, rows["id"], rows["name"], rows["type"], rows.line_of, rows.properties)


def named_by_id(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Names and types of nodes that only edges mention."""
    return ids, constant("entity", len(ids))


def _read(path: Path, columns: NodeColumns | EdgeColumns, key: str, delimiter: str | None) -> Iterator[Rows]:
    """The rows with our names of the columns.

    The separator is that with which the first line has all columns, otherwise that which gives most columns.
    Raises GraphFormatError, for a missing column with the key to name it.
    """
    mapping: dict[str, str] = columns.model_dump()
    signs = (delimiter,) if delimiter else (",", ";", "\t", "|")
    files = {sign: DelimitedFile.open(path, Dialect(sign, '"')) for sign in signs}
    headers = {sign: [name.strip() for name in file.first_record.fields] for sign, file in files.items()}
    fitting = [sign for sign, names in headers.items() if set(mapping.values()) <= set(names)]
    separator = fitting[0] if fitting else max(signs, key=lambda sign: len(headers[sign]))
    names, keys = headers[separator], ", ".join(f"{ours}: …" for ours in mapping)
    cure = (
        f"the first line must name the columns; it reads {','.join(names)[:200]}; if these are the names, set "
        f"graph.{key}: {{{keys}}}"
        + (", or set graph.delimiter" if len(names) == 1 else "")
        + ("; source: triples reads subject, predicate, object without them" if key == "edge_columns" else "")
    )
    dialect, required = Dialect(separator, '"'), list(mapping.values())
    for rows in read_table(path, dialect, required, properties=None, cure=cure):
        yield replace(rows, columns={ours: rows[theirs] for ours, theirs in mapping.items()})


class TriplesSettings(SourceSettings):
    """Settings of the source triples: a file of triples, and a table of named nodes if there is one."""

    path: str = Field(description="The file: subject, predicate, object.")
    nodes: str | None = Field(None, description="CSV file with id,name,type that declares the nodes.")
    delimiter: Separator | None = later_key("Field separator; default: read off the first line.")
    columns: NodeColumns | None = later_key("Names of the columns in the node file.")
    paths = ("path", "nodes")


class Triples:
    """One table of triples."""

    name = "triples"
    licence = ""
    description = "One file of triples: subject, predicate, object."
    Settings = TriplesSettings

    def read(self, settings: TriplesSettings) -> KnowledgeGraph:
        """The graph of the files of a configuration.

        Fields are separated by tabs, unless only another separator gives three fields in the first line.
        """
        path, assembly = Path(settings.path), Assembly(settings)
        nodes = None if settings.nodes is None else Path(settings.nodes)
        if nodes is not None:
            add_nodes(assembly, nodes, settings.columns)
        signs = (settings.delimiter,) if settings.delimiter else ("\t", ",", ";", "|")
        dialects = [TSV if sign == "\t" else Dialect(sign, quote='"') for sign in signs]
        fitting = (
            dialect for dialect in dialects if len(DelimitedFile.open(path, dialect).first_record.fields) == 3
        )
        add_triples(assembly, path, dialect=next(fitting, dialects[0]))
        files = path.name if nodes is None else f"{nodes.name}, {path.name}"
        declare = named_by_id if nodes is None else None
        return assembly.finish({"source": "triples", "files": files}, declare=declare)


def add_triples(
    assembly: Assembly, path: Path, *, may_have_header: bool = True, dialect: Dialect = TSV
) -> None:
    """Add the edges of a file of triples; with `may_have_header`, skip a header line."""
    file = DelimitedFile.open(path, dialect)
    names = [name.strip().lstrip("#").lower() for name in file.first_record.fields]
    is_header = len(names) == 3 and names[0] in _FIRST_NAMES and names[2] in _LAST_NAMES
    header = may_have_header and is_header
    for rows in file.rows(("source", "type", "target"), ("source", "target", "type"), header=header):
        source, target, kind = rows.columns.values()
        assembly.edges(rows.file, source, target, kind, rows.line_of)


def read_table(
    path: Path,
    dialect: Dialect,
    required: Sequence[str],
    *,
    optional: Sequence[str] = (),
    properties: Sequence[str] | None = (),
    cure: str = "",
) -> Iterator[Rows]:
    """The columns `required` and `optional` (empty where the file lacks them) of a file with a header.

    `properties`: further columns to give; None for all. Of columns with one name the first counts. `cure`: what
    to do when a column is missing.
    Raises GraphFormatError with file and line.
    """
    file = DelimitedFile.open(path, dialect)
    names = header_names(file, required, cure)
    present = [*dict.fromkeys(required), *(name for name in optional if name in names)]
    further = [name for name in dict.fromkeys(names) if name and name not in present]
    further = [name for name in further if properties is None or name in properties]
    for rows in file.rows(unique(names), [*present, *further], header=True):
        columns = {name: constant("", len(rows)) for name in optional}
        columns |= {name: rows[name] for name in present}
        yield replace(rows, columns=columns, properties={name: rows[name] for name in further})


def constant(value: str, size: int) -> pa.Array:
    """An array that repeats one text."""
    return pa.repeat(pa.scalar(value, pa.large_string()), size)


def unique(names: Sequence[str]) -> list[str]:
    """The names; a repeated or empty name is prefixed with its position."""
    positions = {name: position for position, name in reversed(list(enumerate(names))) if name}
    return [name if positions.get(name) == k else f"{k}:{name}" for k, name in enumerate(names)]


def header_names(file: DelimitedFile, columns: Sequence[str], cure: str = "") -> list[str]:
    """The stripped names of the columns; each of `columns` must occur once. Raises GraphFormatError."""
    names = [name.strip() for name in file.first_record.fields]
    position = f"{file.path.name} line {file.first_record.line:,}"
    for column in columns:
        if column not in names:
            raise GraphFormatError(
                f"{position}: column {column!r} is missing{did_you_mean(column, names)}",
                cure or _header_cure(names, columns, file.dialect.separator),
            )
        if names.count(column) > 1:
            raise GraphFormatError(f"{position}: column {column!r} stands twice", "rename one of them")
    return names


def _header_cure(names: Sequence[str], columns: Sequence[str], separator: str) -> str:
    words = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    for sign, word in words.items():
        if sign != separator and len(names) == 1 and sign in names[0]:
            return f"the file is separated by {word}; separate it by {words.get(separator, separator)}"
    return f"the first line must name the columns {','.join(columns)}; it names {','.join(names)[:100]}"
