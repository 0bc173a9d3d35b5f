"""Hetionet v1.0 and other hetnets: one JSON document, or a table of nodes and a SIF file of edges.

An identifier is unique within its kind only and a number for genes, so a node's id is `Kind::identifier`, as
in the table of nodes. The JSON names edges in full (treats), the SIF file by abbreviations (CtD), which
metaedges.tsv spells out. Himmelstein et al., eLife 6:e26726, 2017; github.com/hetio/hetionet.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field, model_validator

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.delimited import TSV
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.rows import Buffer, members
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.kg.tables import read_table
from kgqa_hpc.plugins.biokg.sources.json_members import json_members


class HetionetSettings(SourceSettings):
    """Either `path`, or `nodes` and `edges`."""

    path: str | None = Field(None, description="hetionet-v1.0.json, packed or not.")
    nodes: Files | None = Field(None, description="The table of nodes: id, name, kind.")
    edges: Files | None = Field(None, description="The SIF file: source, metaedge, target.")
    metaedges: str | None = Field(
        None, description="metaedges.tsv, which spells out the edge types of a SIF file."
    )
    properties: list[str] = Field(
        default_factory=list,
        description="Members of `data` to keep, and an edge's direction; of the JSON only.",
    )
    paths = ("path", "nodes", "edges", "metaedges")

    @model_validator(mode="after")
    def _files(self) -> HetionetSettings:
        tables = self.nodes is not None and self.edges is not None
        if (self.path is None) != tables or (self.path and (self.nodes or self.edges)):
            raise ValueError("source hetionet needs path (JSON), or nodes and edges")
        return self


class Hetionet:
    """Hetionet and other hetnets."""

    name = "hetionet"
    specific_relations = True
    licence = "CC0 1.0 for the compilation; its sources' terms are mixed, see each node's and edge's licence"
    description = "Hetionet v1.0 and other hetnets, as JSON or as TSV and SIF."
    Settings = HetionetSettings

    def read(self, settings: HetionetSettings) -> KnowledgeGraph:
        """The graph of the document or of the tables, in their order."""
        assembly = Assembly(Policy.of(settings))
        if settings.path is not None:
            files = [Path(settings.path)]
            _read_json(files[0], assembly, settings.properties)
        else:
            nodes, edges = listed(settings.nodes), listed(settings.edges)
            files = [*nodes, *edges]
            long = {} if settings.metaedges is None else _long_names(Path(settings.metaedges))
            for path in nodes:
                for rows in read_table(path, TSV, ("id", "name", "kind")):
                    assembly.nodes(rows.file, rows["id"], rows["name"], rows["kind"], rows.line_of)
            for path in edges:
                for rows in read_table(path, TSV, ("source", "metaedge", "target")):
                    kinds = rows["metaedge"]
                    if long:
                        spelt = [long.get(kind, kind) for kind in kinds.to_pylist()]
                        kinds = pa.array(spelt, pa.large_string())
                    assembly.edges(rows.file, rows["source"], rows["target"], kinds, rows.line_of)
        names = ", ".join(file.name for file in files)
        return assembly.finish({"source": self.name, "files": names, "licence": self.licence})


def _read_json(path: Path, assembly: Assembly, properties: list[str]) -> None:
    rows = Buffer(assembly, path.name)
    for member, line, item in json_members(path, ("nodes", "edges")):
        try:
            selected = members({"direction": item.get("direction")} | (item.get("data") or {}), properties)
            if member == "nodes":
                identifier = _id(item["kind"], item["identifier"])
                rows.node(line, identifier, str(item["name"] or ""), item["kind"], selected)
            else:
                rows.edge(line, _id(*item["source_id"]), _id(*item["target_id"]), item["kind"], selected)
        except (KeyError, TypeError) as problem:
            raise GraphFormatError(
                f"{path.name} line {line:,}: not a {member[:-1]} of a hetnet: {problem}", "export it again"
            ) from None
    rows.flush()


def _id(kind: Any, identifier: Any) -> str:
    return f"{kind}::{identifier}"


def _long_names(path: Path) -> dict[str, str]:
    names: dict[str, str] = {}
    for rows in read_table(path, TSV, ("metaedge", "abbreviation")):
        for short, name in zip(rows["abbreviation"].to_pylist(), rows["metaedge"].to_pylist(), strict=True):
            parts = re.split(" [-<>] ", name)  # Compound - treats - Disease, Gene > regulates > Gene
            names[short] = parts[1] if len(parts) == 3 else name
    return names
