"""Exports of the package kgw, and of the queries others run on a Neo4j dump: two comma-separated tables.

Nodes: id, type, properties; edges: source_id, target_id, type, properties. `properties` is JSON and holds the
name.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.delimited import CSV
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.rows import first_of
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.kg.tables import Rows, read_table
from kgqa_hpc.text import bounded_json

NAMES = ["name", "preferred_name", "title", "symbol", "label"]


class KgwSettings(SourceSettings):
    """Two tables, and which property is the name."""

    nodes: Files = Field(description="Nodes: id, type, properties.")
    edges: Files = Field(description="Edges: source_id, target_id, type, properties.")
    name: list[str] = Field(NAMES, min_length=1, description="The name: the first property that is there.")
    paths = ("nodes", "edges")


class Kgw:
    """Exports of kgw."""

    name = "kgw"
    licence = ""
    description = "Exports of the package kgw, and query exports of Neo4j dumps such as CKG's."
    Settings = KgwSettings

    def read(self, settings: KgwSettings) -> KnowledgeGraph:
        """The graph of both tables, in their order."""
        assembly = Assembly(Policy.of(settings))
        nodes, edges = listed(settings.nodes), listed(settings.edges)
        for path in nodes:
            add_nodes(assembly, path, settings.name)
        for path in edges:
            add_edges(assembly, path)
        files = ", ".join(path.name for path in (*nodes, *edges))
        return assembly.finish({"source": self.name, "files": files})


def add_nodes(assembly: Assembly, path: Path, names: list[str]) -> None:
    """Take in a table of nodes."""
    for rows in read_table(path, CSV, ("id", "type", "properties")):
        names_read = json_names(rows, rows["properties"], names)
        assembly.nodes(rows.file, rows["id"], names_read, rows["type"], rows.line_of)


def add_edges(assembly: Assembly, path: Path) -> None:
    """Take in a table of edges."""
    for rows in read_table(path, CSV, ("source_id", "target_id", "type")):
        assembly.edges(rows.file, rows["source_id"], rows["target_id"], rows["type"], rows.line_of)


def json_names(rows: Rows, cells: pa.Array, names: list[str]) -> pa.Array:
    """The first of some members of each cell's JSON object. Raises GraphFormatError with the line."""
    result = []
    for row, text in enumerate(cells.to_pylist()):
        try:
            result.append(first_of(bounded_json.loads(text or "{}"), names))
        except (orjson.JSONDecodeError, AttributeError) as problem:
            reason = f"not JSON: {problem.msg}" if isinstance(problem, ValueError) else "no JSON object"
            raise GraphFormatError(
                f"{rows.file} line {rows.line_of(row):,}: properties are {reason}", "export it again"
            ) from None
    return pa.array(result, pa.large_string())
