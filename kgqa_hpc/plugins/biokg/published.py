"""Published graphs in formats of their own: OREGANO, PrimeKG, DRKG and Hetionet.

OREGANO v2.1 is a folder with the triples (OREGANO_V2.1.tsv) and one table for each class of entity. An id is
`TYPE:number`, the type its part before the colon in lower case; an id without a colon is an ATC code. Names come from
the tables' own columns of names; all other classes are named by hydration (configs/hydrate_oregano.yaml). Edges of the
type has_code are left out in reduction, as published. Boudin et al. 2023; figshare 23553114 version 3.

PrimeKG is kg.csv: one row an edge with both its ends in full. A node is its number (x_index, y_index): ids of the
sources (x_id) are numbers without prefix and not unique. Every edge stands twice, with x and y exchanged: its direction
has no meaning. Chandak, Huang, Zitnik, Scientific Data 10:67, 2023; Harvard Dataverse IXA7BM.

DRKG, the Drug Repurposing Knowledge Graph, is drkg.tsv: one row a triple, no header, no quoting. An entity is
`Type::local id` (the type ends at the first `::` and may hold blanks), a relation `SOURCE::name::Head:Tail`, both kept
as written. The file has no names: hydrate the graph, or let local ids be the names. Ioannidis et al., 2020,
github.com/gnn4dr/DRKG.

Hetionet v1.0 and other hetnets are one JSON document, or a table of nodes and a SIF file of edges. An identifier is
unique within its kind only and a number for genes, so a node's id is `Kind::identifier`, as in the table of nodes. The
JSON names edges in full (treats), the SIF file by abbreviations (CtD), which metaedges.tsv spells out. Himmelstein et
al., eLife 6:e26726, 2017; github.com/hetio/hetionet.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.kg.assemble import Assembly, Buffer
from kgqa_hpc.kg.delimited import CSV, RAGGED, TSV, DelimitedFile, Rows
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.kg.sources.csv import add_triples, constant, read_table
from kgqa_hpc.plugins.biokg.exchange import json_members, members
from kgqa_hpc.registry import did_you_mean

NO_NAME_EDGES = "has_code"
# The tables with names, and the column that holds them.
NAMES = {
    "COMPOUND": "WIKIPEDIA", "ACTIVITY": "NAME_DRUGBANK", "EFFECT": "NAME_DRUGBANK",
    "SIDE_EFFECT": "NAME", "INDICATION": "NAME",
}  # fmt: skip


class OreganoSettings(SourceSettings):
    """Settings: the folder with the project's files."""

    path: str = Field(description="Folder of the files.")
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
        """The graph exactly as in the files, with repeated rows and ATC codes."""
        folder = Path(settings.path)
        if not folder.is_dir():
            raise InputError(f"{folder}: is no folder", "graph.path is the folder with OREGANO_V2.1.tsv")
        files = sorted(folder.glob("OREGANO*.tsv*"))
        if len(files) != 1:
            problem = f"{folder}: has {len(files)} files named OREGANO*.tsv"
            raise InputError(problem, "keep one there: the file with the triples")
        assembly = Assembly(settings)
        add_triples(assembly, files[0], may_have_header=False)
        names = _names(folder)

        def declare(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
            names_of = pa.array([names.get(node, "") for node in ids.to_pylist()], pa.large_string())
            prefix = pc.utf8_lower(pc.replace_substring_regex(ids, r"(?s):.*$", ""))
            code = pa.scalar("code", pa.large_string())
            return names_of, pc.if_else(pc.match_substring(ids, ":"), prefix, code)

        attributes = {
            "source": self.name, "title": "OREGANO", "files": files[0].name, "licence": self.licence,
            "citation": "Boudin M, et al. The OREGANO knowledge graph for computational drug repurposing."
            " Scientific Data 10:871, 2023.",
        }  # fmt: skip
        graph = assembly.finish(attributes, declare=declare)
        # Declared even without such an edge: the default excludes the type, and unknown types are refused.
        if NO_NAME_EDGES in graph.edge_types:
            return graph
        return dataclasses.replace(graph, edge_types=(*graph.edge_types, NO_NAME_EDGES))


def _names(folder: Path) -> dict[str, str]:
    """Names by id, from the tables that exist."""
    names: dict[str, str] = {}
    for table, column in NAMES.items():
        for path in sorted(folder.glob(f"{table}.tsv*"))[:1]:
            for node, values in read_columns(path, [column]):
                if name := values[column]:
                    names[node] = name.replace("_", " ") if column == "WIKIPEDIA" else name
    return names


def read_columns(path: Path, requested: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a table of entities: the id, and the stripped values of the requested columns ("" for an empty cell).

    The format is OREGANO's: tab-separated, the id first, then names and identifiers of other databases;
    headers and values are padded with blanks. If several columns have the same stripped name, the last
    non-empty value counts. Raises GraphFormatError with file and line, and for a column the table does not have.
    """
    file = DelimitedFile.open(path, RAGGED)
    header = [name.strip() for name in file.first_record.fields]
    for name in requested:
        if name not in header[1:]:
            problem = f"{path.name} line 1: column {name!r} is missing{did_you_mean(name, header)}"
            raise GraphFormatError(problem, "is it the right table?")
    numbers = list(map(str, range(len(header))))
    # Of the columns with one name, the last comes first.
    same = {name: [k for k in numbers[:0:-1] if header[int(k)] == name] for name in requested}
    columns = dict.fromkeys(["0", *(k for positions in same.values() for k in positions)])
    for rows in file.rows(numbers, list(columns), header=True):
        cells = {k: [text.strip() for text in column.to_pylist()] for k, column in rows.columns.items()}
        for row, node in enumerate(cells["0"]):
            yield node, {name: next((v for k in ks if (v := cells[k][row])), "") for name, ks in same.items()}


_END = ("index", "id", "type", "name", "source")


class PrimeKgSettings(SourceSettings):
    """Settings: one file, and the column that gives the type of an edge."""

    path: str = Field(description="The file kg.csv.")
    edge_type: Literal["relation", "display_relation"] = Field(
        "relation", description="Column of the edge type."
    )
    mirrored: Literal["keep", "drop"] = Field("keep", description="Treatment of each edge's mirrored row.")
    paths = ("path",)


class PrimeKg:
    """Precision Medicine Knowledge Graph."""

    name = "primekg"
    specific_relations = True
    licence = "terms of the data set on Harvard Dataverse and of its 20 sources; code MIT"
    description = "PrimeKG, the Precision Medicine Knowledge Graph, kg.csv."
    Settings = PrimeKgSettings

    def read(self, settings: PrimeKgSettings) -> KnowledgeGraph:
        """The graph of kg.csv; nodes in the order in which its rows name them."""
        path, kind = Path(settings.path), settings.edge_type
        assembly, declared = Assembly(settings), set[str]()
        columns = [f"{side}_{column}" for column in _END for side in "xy"]
        for rows in read_table(path, CSV, [*columns, kind]):
            # Positions of new nodes in the rows, as 2 * row + (1 for the right end), ascending
            pairs = zip(rows["x_index"].to_pylist(), rows["y_index"].to_pylist(), strict=True)
            fresh = []
            for position, node in enumerate(chain.from_iterable(pairs)):
                if node not in declared:
                    declared.add(node)
                    fresh.append(position)
            _add_nodes(assembly, rows, np.array(fresh, np.int64))
            assembly.edges(rows.file, rows["x_index"], rows["y_index"], rows[kind], rows.line_of)
        graph = assembly.finish({"source": self.name, "files": path.name, "licence": self.licence})
        if settings.mirrored == "keep":
            return graph
        import pandas as pd

        ends = graph.edge_source, graph.edge_target
        keys = np.minimum(*ends), np.maximum(*ends), graph.edge_type
        return graph.with_edges(~pd.DataFrame(dict(enumerate(keys))).duplicated().to_numpy())


def _add_nodes(assembly: Assembly, rows: Rows, positions: npt.NDArray[np.int64]) -> None:
    numbers = pa.array(positions // 2 + (positions % 2) * len(rows))
    columns = {n: pa.concat_arrays([rows[f"x_{n}"], rows[f"y_{n}"]]).take(numbers) for n in _END}
    lines = rows.line_of
    properties = {"source_id": columns["id"], "source": columns["source"]}
    assembly.nodes(
        rows.file, columns["index"], columns["name"], columns["type"],
        lambda row: lines(int(positions[row]) // 2), properties,
    )  # fmt: skip


class DrkgSettings(SourceSettings):
    """One file of triples."""

    path: str = Field(description="The file drkg.tsv.")
    name_by_id: bool = Field(False, description="Use local ids as names of nodes without a name.")
    paths = ("path",)


class Drkg:
    """The Drug Repurposing Knowledge Graph."""

    name = "drkg"
    specific_relations = True
    licence = (
        "mixed, by source: GNBR, DrugBank, STRING and the bibliographic rows non-commercial; code Apache-2.0"
    )
    description = "The Drug Repurposing Knowledge Graph, drkg.tsv."
    Settings = DrkgSettings

    def read(self, settings: DrkgSettings) -> KnowledgeGraph:
        """The graph of drkg.tsv; nodes are in order of first appearance."""
        assembly = Assembly(settings)
        path = Path(settings.path)
        add_triples(assembly, path, may_have_header=False)
        attributes = {"source": self.name, "files": path.name, "licence": self.licence}

        def declare(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
            kinds = pc.replace_substring_regex(ids, r"(?s)::.*$", "")
            names = pc.replace_substring_regex(ids, r"(?s)^.*?::", "")
            return (names if settings.name_by_id else constant("", len(ids))), kinds

        return assembly.finish(attributes, declare=declare)


class HetionetSettings(SourceSettings):
    """Either `path`, or `nodes` and `edges`."""

    path: str | None = Field(None, description="hetionet-v1.0.json, packed or not.")
    nodes: Files | None = Field(None, description="The table of nodes: id, name, kind.")
    edges: Files | None = Field(None, description="The SIF file: source, metaedge, target.")
    metaedges: str | None = Field(None, description="metaedges.tsv, the names of a SIF file's edge types.")
    properties: list[str] = Field(
        default_factory=list,
        description="Members of `data` to keep; `direction` keeps that of edges (JSON only).",
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
        assembly = Assembly(settings)
        if settings.path is not None:
            files = [Path(settings.path)]
            _read_hetnet(files[0], assembly, settings.properties)
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


def _read_hetnet(path: Path, assembly: Assembly, properties: list[str]) -> None:
    rows = Buffer(assembly, path.name)
    for member, line, item in json_members(path, ("nodes", "edges")):
        try:
            selected = members({"direction": item.get("direction")} | (item.get("data") or {}), properties)
            if member == "nodes":
                identifier = f"{item['kind']}::{item['identifier']}"
                rows.node(line, identifier, str(item["name"] or ""), item["kind"], selected)
            else:
                source, target = (f"{kind}::{end}" for kind, end in (item["source_id"], item["target_id"]))
                rows.edge(line, source, target, item["kind"], selected)
        except (KeyError, TypeError, ValueError) as problem:
            text = f"{path.name} line {line:,}: not a {member[:-1]} of a hetnet: {problem}"
            raise GraphFormatError(text, "export it again") from None
    rows.flush()


def _long_names(path: Path) -> dict[str, str]:
    names: dict[str, str] = {}
    for rows in read_table(path, TSV, ("metaedge", "abbreviation")):
        for short, name in zip(rows["abbreviation"].to_pylist(), rows["metaedge"].to_pylist(), strict=True):
            parts = re.split(" [-<>] ", name)  # Compound - treats - Disease, Gene > regulates > Gene
            names[short] = parts[1] if len(parts) == 3 else name
    return names


# Metapaths for `anchors.patterns`: node types along the paths of a kind of question.
OREGANO = [
    ["compound", "protein", "gene"],
    ["compound", "gene", "disease"],
    ["compound", "gene", "pathway"],
    ["disease", "gene", "compound"],
    ["disease", "gene", "pathway"],
    ["disease", "compound", "protein"],
    ["gene", "protein", "compound"],
    ["pathway", "gene", "disease"],
    ["compound", "protein", "gene", "disease"],
]
PRIMEKG = [
    ["drug", "gene/protein", "disease"],
    ["drug", "gene/protein", "pathway"],
    ["disease", "gene/protein", "drug"],
    ["disease", "gene/protein", "pathway"],
    ["effect/phenotype", "disease", "drug"],
    ["effect/phenotype", "disease", "gene/protein"],
    ["drug", "disease", "effect/phenotype"],
    ["exposure", "disease", "gene/protein"],
    ["effect/phenotype", "disease", "gene/protein", "drug"],
]
HETIONET = [
    ["Compound", "Gene", "Disease"],
    ["Compound", "Gene", "Pathway"],
    ["Disease", "Gene", "Compound"],
    ["Disease", "Gene", "Pathway"],
    ["Symptom", "Disease", "Compound"],
    ["Compound", "Disease", "Symptom"],
    ["Side Effect", "Compound", "Disease"],
    ["Pharmacologic Class", "Compound", "Disease"],
    ["Symptom", "Disease", "Gene"],
    ["Pathway", "Gene", "Disease"],
    ["Symptom", "Disease", "Gene", "Compound"],
]
