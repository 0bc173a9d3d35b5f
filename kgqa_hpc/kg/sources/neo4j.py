"""Neo4j graphs as files: neo4j-admin's import CSV, BioCypher's, APOC's exports (CSV and JSON Lines), CKG's
import tables, and the query export that kgw writes.

The layout is told by the header, separator and quote by the text, unless they are given. Headers may stand in
files of their own (`X-header.csv` for `X.csv.gz`, `X-part000.csv` …). With id spaces, ids are unique within
their space only, so a node's id is `Space/id`. Labels and types stay as written; several labels are one type
unless `labels` says otherwise. A file without labels or types is named after them (`Disease_has_parent.tsv`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import Files, GraphConfig, SourceSettings, listed
from kgqa_hpc.kg.sources.kgw import NAMES
from kgqa_hpc.kg.sources.neo4j_tables import Tables, open_tables

_ENDINGS = (".csv", ".tsv", ".txt", ".jsonl", ".json")


class Neo4jSettings(SourceSettings):
    """Either `path`, or `nodes` and `edges`; how fields are told apart where it cannot be seen."""

    path: str | None = Field(None, description="A file that holds all, or a folder of files.")
    nodes: Files | None = Field(None, description="Files of nodes, and of their headers.")
    edges: Files | None = Field(None, description="Files of relationships, and of their headers.")
    delimiter: str | None = Field(None, description="Between fields: one character, or TAB.")
    quote: str | None = Field(None, max_length=1, description="Around fields.")
    array_delimiter: str | None = Field(None, max_length=1, description="Between several labels.")
    labels: Literal["all", "first", "last"] = Field(
        "all", description="Of several labels, which are the type."
    )
    name: list[str] = Field(NAMES, min_length=1, description="The name: the first property that is there.")
    properties: list[str] = Field(default_factory=list, description="Properties to keep.")
    paths = ("path", "nodes", "edges")

    @model_validator(mode="after")
    def _files(self) -> Neo4jSettings:
        tables = self.nodes is not None and self.edges is not None
        if (self.path is None) != tables or (self.path and (self.nodes or self.edges)):
            raise ValueError("source neo4j needs path, or nodes and edges")
        if self.delimiter is not None and self.delimiter != "TAB" and len(self.delimiter) != 1:
            raise ValueError("delimiter is one character, or TAB")
        return self


class _Section(Neo4jSettings, GraphConfig):
    """What `read` is given."""


class Neo4j:
    """Exports of Neo4j data bases."""

    name = "neo4j"
    licence = ""
    description = "Neo4j graphs as files of neo4j-admin, BioCypher, APOC, CKG or kgw."
    Settings = Neo4jSettings

    def read(self, settings: _Section) -> KnowledgeGraph:
        """The graph of all files: first all files of nodes, then of relationships, each by its name."""
        files = _files(settings)
        tables = open_tables(files, settings)
        if not tables:
            raise InputError(f"{files[0].parent}: has no file of a Neo4j export", "is it the right folder?")
        assembly = Assembly(Policy.of(settings))
        reader = Tables(assembly, settings)
        for table in tables:
            reader.nodes(table)
        for table in tables:
            reader.edges(table)
        names = [table.path.name for table in tables]
        text = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        return assembly.finish({"source": self.name, "files": text})


def _files(settings: Neo4jSettings) -> list[Path]:
    if settings.path is None:
        return [*listed(settings.nodes), *listed(settings.edges)]
    path = Path(settings.path)
    if not path.is_dir():
        return [path]
    found = [
        p for p in sorted(path.iterdir()) if set(p.suffixes) & set(_ENDINGS) and not p.name.startswith(".")
    ]
    if not found:
        raise InputError(f"{path}: has no file of a Neo4j export", "is it the right folder?")
    return found
