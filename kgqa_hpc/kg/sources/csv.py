"""A graph as tables: nodes (id, name, type) and edges (source_id, target_id, type), or edges alone.

The first line names the columns; their order is free, `columns` and `edge_columns` map other names, and
further columns are properties. The separator is read off the first line. Ids, names and types are text: an id
007 or a gene called NA stays as it is. Plain or compressed, UTF-8, fields with separators or line ends in
double quotes. Without a node table the nodes are the ends of the edges, named by their ids.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.delimited import DelimitedFile, Dialect
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.kg.tables import Rows, constant, read_table
from kgqa_hpc.settings import Settings, later_key

NODE_COLUMNS = ("id", "name", "type")
EDGE_COLUMNS = ("source_id", "target_id", "type")
Separator = Annotated[str, Field(min_length=1, max_length=1)]


class NodeColumns(Settings):
    """The columns of the node table."""

    id: str = Field("id", description="Node id, which edges refer to.")
    name: str = Field("name", description="Name of the node for readers.")
    type: str = Field("type", description="Node type, such as gene.")


class EdgeColumns(Settings):
    """The columns of the edge table."""

    source: str = Field("source_id", description="Id of the edge's source node.")
    target: str = Field("target_id", description="Id of the edge's target node.")
    type: str = Field("type", description="The relation.")


class CsvSettings(SourceSettings):
    """Settings of the source csv: tables of nodes and edges, each in one or several files."""

    nodes: Files | None = Field(
        None,
        description="Files with columns id,name,type; default: the ends of the edges, named by their ids.",
    )
    edges: Files = Field(description="Files with columns source_id,target_id,type.")
    delimiter: Separator | None = later_key(
        "Field separator; default: comma, semicolon, tab or bar, read off the first line."
    )
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
        assembly = Assembly(Policy.of(settings))
        for path in nodes:
            add_nodes(assembly, path, settings.columns, settings.delimiter)
        columns = settings.edge_columns or EdgeColumns()
        for path in edges:
            for rows in _read(path, columns, "edge_columns", settings.delimiter):
                ends = rows["source"], rows["target"]
                assembly.edges(rows.file, *ends, rows["type"], rows.line_of, rows.properties)
        files = ", ".join(path.name for path in (*nodes, *edges))
        return assembly.finish({"source": "csv", "files": files}, declare=None if nodes else named_by_id)


def read_csv(nodes: Path, edges: Path, policy: Policy = Policy()) -> KnowledgeGraph:  # noqa: B008 - frozen
    """Read both files; nodes and edges keep the order of their lines. Raises the errors of `Csv.read`."""
    return Csv().read(CsvSettings(source="csv", nodes=str(nodes), edges=str(edges), **vars(policy)))


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

    The separator is the one with which the first line has all columns; else the one that splits it most.
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
        f"graph.{key}: {{{keys}}}" + (", or set graph.delimiter" if len(names) == 1 else "")
    )
    dialect, required = Dialect(separator, '"'), list(mapping.values())
    for rows in read_table(path, dialect, required, properties=None, cure=cure):
        yield replace(rows, columns={ours: rows[theirs] for ours, theirs in mapping.items()})
