"""Neo4j graphs as files: neo4j-admin's import CSV, BioCypher's, APOC's exports (CSV and JSON Lines), CKG's
import tables, and the query export that kgw writes.

The layout is told by the header, separator and quote by the text, unless they are given. Headers may stand in
files of their own (`X-header.csv` for `X.csv.gz`, `X-part000.csv` …). With id spaces, ids are unique within
their space only, so a node's id is `Space/id`. Labels and types stay as written; several labels are one type
unless `labels` says otherwise. A file without labels or types is named after them (`Disease_has_parent.tsv`).
"""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import listed
from kgqa_hpc.kg.sources.neo4j_tables import Neo4jSettings, Tables, open_tables

_ENDINGS = (".csv", ".tsv", ".txt", ".jsonl", ".json")


class Neo4j:
    """Exports of Neo4j data bases."""

    name = "neo4j"
    licence = ""
    description = "Neo4j graphs as files of neo4j-admin, BioCypher, APOC, CKG or kgw."
    Settings = Neo4jSettings

    def read(self, settings: Neo4jSettings) -> KnowledgeGraph:
        """The graph of all files: first all files of nodes, then of relationships, each by its name."""
        tables = open_tables(_files(settings), settings)
        if not tables:
            where = settings.path or listed(settings.nodes)[0].parent
            raise InputError(f"{where}: has no file of a Neo4j export", "is it the right folder?")
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
    return [
        p for p in sorted(path.iterdir()) if set(p.suffixes) & set(_ENDINGS) and not p.name.startswith(".")
    ]
