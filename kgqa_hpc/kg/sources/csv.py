"""A graph as two comma-separated files: nodes (id,name,type) and edges (source_id,target_id,type).

The first line names the columns; their order is free, and further columns are properties. Ids, names and
types are text: an id 007 or a gene called NA stays what it is. Plain or compressed, UTF-8, fields with commas
or line ends in double quotes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.delimited import CSV
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.kg.tables import read_table

NODE_COLUMNS = ("id", "name", "type")
EDGE_COLUMNS = ("source_id", "target_id", "type")


class CsvSettings(SourceSettings):
    """Two tables, each in one file or several."""

    nodes: Files = Field(description="Files with columns id,name,type.")
    edges: Files = Field(description="Files with columns source_id,target_id,type.")
    paths = ("nodes", "edges")


class Csv:
    """Two comma-separated tables."""

    name = "csv"
    licence = ""
    description = "Two comma-separated tables: nodes (id,name,type) and edges (source_id,target_id,type)."
    Settings = CsvSettings

    def read(self, settings: CsvSettings) -> KnowledgeGraph:
        """The graph of the files of a configuration."""
        return _read(listed(settings.nodes), listed(settings.edges), Policy.of(settings))


def read_csv(nodes: Path, edges: Path, policy: Policy = Policy()) -> KnowledgeGraph:  # noqa: B008 - frozen
    """Read both files; nodes and edges keep the order of their lines.

    Raises GraphFormatError with file and line, EmptyGraphError, or InputError when a file cannot be read.
    """
    return _read([nodes], [edges], policy)


def _read(nodes: Iterable[Path], edges: Iterable[Path], policy: Policy) -> KnowledgeGraph:
    assembly = Assembly(policy)
    names = []
    for path in nodes:
        names.append(path.name)
        add_nodes(assembly, path)
    for path in edges:
        names.append(path.name)
        for rows in read_table(path, CSV, EDGE_COLUMNS, properties=None):
            ends = rows["source_id"], rows["target_id"]
            assembly.edges(rows.file, *ends, rows["type"], rows.line_of, rows.properties)
    return assembly.finish({"source": "csv", "files": ", ".join(names)})


def add_nodes(assembly: Assembly, path: Path) -> None:
    """Take in the nodes of a file with the columns id, name, type."""
    for rows in read_table(path, CSV, NODE_COLUMNS, properties=None):
        assembly.nodes(rows.file, rows["id"], rows["name"], rows["type"], rows.line_of, rows.properties)
