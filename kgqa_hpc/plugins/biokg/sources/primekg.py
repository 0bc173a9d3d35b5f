"""PrimeKG, kg.csv: one row an edge with both its ends in full.

A node is its number (x_index, y_index): ids of the sources (x_id) are numbers without prefix and not unique.
Every edge stands twice, x and y exchanged: direction means nothing. Chandak, Huang, Zitnik, Scientific Data
10:67, 2023; Harvard Dataverse IXA7BM.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.delimited import CSV
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.intern import Interner
from kgqa_hpc.kg.relations import first_of_runs
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.kg.tables import Rows, read_table

_END = ("index", "id", "type", "name", "source")


class PrimeKgSettings(SourceSettings):
    """Settings: one file, and the column that names an edge's type."""

    path: str = Field(description="kg.csv.")
    edge_type: Literal["relation", "display_relation"] = Field(
        "relation", description="Column of the edge type: 30 kinds, or 18 in words."
    )
    mirrored: Literal["keep", "drop"] = Field(
        "keep",
        description="Treatment of mirrored edges: each edge is in the file twice; drop keeps the first.",
    )
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
        assembly, interner = Assembly(Policy.of(settings)), Interner()
        columns = [f"{side}_{column}" for column in _END for side in "xy"]
        for rows in read_table(path, CSV, [*columns, kind]):
            # Where nodes stand that are not known yet, as 2 * row + (1 for the right end), in that
            # order
            before = len(interner)
            codes = np.stack(interner.pairs(rows["x_index"], rows["y_index"]), axis=1).ravel()
            fresh = np.flatnonzero(codes >= before)
            _, first_rows = np.unique(codes[fresh], return_index=True)
            _add_nodes(assembly, rows, fresh[np.sort(first_rows)])
            assembly.edges(rows.file, rows["x_index"], rows["y_index"], rows[kind], rows.line_of)
        graph = assembly.finish({"source": self.name, "files": path.name, "licence": self.licence})
        return graph if settings.mirrored == "keep" else graph.with_edges(_first_of_mirrored(graph))


def _add_nodes(assembly: Assembly, rows: Rows, positions: npt.NDArray[np.int64]) -> None:
    rows_taken = pa.array(positions // 2 + (positions % 2) * len(rows))
    columns = {
        name: pa.concat_arrays([rows[f"x_{name}"], rows[f"y_{name}"]]).take(rows_taken) for name in _END
    }
    lines = rows.line_of
    properties = {"source_id": columns["id"], "source": columns["source"]}
    assembly.nodes(
        rows.file, columns["index"], columns["name"], columns["type"],
        lambda row: lines(int(positions[row]) // 2), properties,
    )  # fmt: skip


def _first_of_mirrored(graph: KnowledgeGraph) -> npt.NDArray[np.bool_]:
    low = np.minimum(graph.edge_source, graph.edge_target)
    high = np.maximum(graph.edge_source, graph.edge_target)
    order = np.lexsort((graph.edge_type, high, low))  # stable: of equal ones the first in the file is first
    keep = np.zeros(len(order), dtype=bool)
    for values in (low, high, graph.edge_type):
        keep[order] |= first_of_runs(values[order])
    return keep
