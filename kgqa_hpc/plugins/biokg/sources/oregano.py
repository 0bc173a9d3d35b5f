"""OREGANO v2.1: a folder with the triples (OREGANO_V2.1.tsv) and one table for each class of entity.

An id is `TYPE:number`, the type its part before the colon in lower case; what has no colon is an ATC code.
Names come from the tables' own columns of names; all other classes are named by hydration
(configs/hydrate_oregano.yaml). Edges of the type has_code are left out in reduction, as published.
Boudin et al. 2023; figshare 23553114 version 3.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.kg.sources.triples import add_triples
from kgqa_hpc.kg.tables import read_columns

NO_NAME_EDGES = "has_code"
# Which column of which table holds names (not identifiers).
NAMES = {
    "COMPOUND": "WIKIPEDIA",
    "ACTIVITY": "NAME_DRUGBANK",
    "EFFECT": "NAME_DRUGBANK",
    "SIDE_EFFECT": "NAME",
    "INDICATION": "NAME",
}


class OreganoSettings(SourceSettings):
    """The folder with the project's files."""

    path: str = Field(description="The folder with OREGANO_V2.1.tsv and the tables of entities.")
    exclude_edge_types: list[str] = Field(
        [NO_NAME_EDGES], description="Edge types left out before reduction."
    )
    paths = ("path",)


class Oregano:
    """The OREGANO knowledge graph."""

    name = "oregano"
    licence = "CC BY 4.0"
    description = "OREGANO v2.1, drugs and what they act on: triples and tables of entities."
    Settings = OreganoSettings

    def read(self, settings: OreganoSettings) -> KnowledgeGraph:
        """The graph as it stands in the files: repeated rows and ATC codes included."""
        folder = Path(settings.path)
        triples = _triples_file(folder)
        assembly = Assembly(Policy.of(settings))
        add_triples(assembly, triples, may_have_header=False)
        names = _names(folder)

        def declare(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
            names_of = pa.array([names.get(node, "") for node in ids.to_pylist()], pa.large_string())
            prefix = pc.utf8_lower(pc.replace_substring_regex(ids, r"(?s):.*$", ""))
            return names_of, pc.if_else(
                pc.match_substring(ids, ":"), prefix, pa.scalar("code", pa.large_string())
            )

        graph = assembly.finish(
            {
                "source": self.name,
                "title": "OREGANO",
                "files": triples.name,
                "licence": self.licence,
                "citation": "Boudin M, et al. The OREGANO knowledge graph for computational drug repurposing."
                " Scientific Data 10:871, 2023.",
            },
            declare=declare,
        )
        # Always among the types, even of a part of the graph: the default excludes it, and refuses unknown types.
        if NO_NAME_EDGES in graph.edge_types:
            return graph
        return dataclasses.replace(graph, edge_types=(*graph.edge_types, NO_NAME_EDGES))


def _triples_file(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder", "graph.path is the folder with OREGANO_V2.1.tsv")
    files = sorted(folder.glob("OREGANO*.tsv*"))
    if len(files) != 1:
        raise InputError(
            f"{folder}: has {len(files)} files named OREGANO*.tsv", "put the one with the triples there"
        )
    return files[0]


def _names(folder: Path) -> dict[str, str]:
    """Names by id, of the tables that are there."""
    names: dict[str, str] = {}
    for table, column in NAMES.items():
        for path in sorted(folder.glob(f"{table}.tsv*"))[:1]:
            for node, values in read_columns(path, [column]):
                if values[column]:
                    names[node] = (
                        values[column].replace("_", " ") if column == "WIKIPEDIA" else values[column]
                    )
    return names
