"""Read a script's graph: two CSV files with typed columns, or the kg.h5 of a run."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.delimited import CSV, DelimitedFile
from kgqa_hpc.kg.graph import INTEGER, KnowledgeGraph, typed
from kgqa_hpc.kg.sources.csv import EDGE_COLUMNS, NODE_COLUMNS
from kgqa_hpc.kg.tables import header_names, unique
from kgqa_hpc.plugins.gasl.graph import PropertyGraph
from kgqa_hpc.plugins.gasl.values import number
from kgqa_hpc.text.streams import TextStream


@dataclass(frozen=True)
class _Table:
    """The columns of a file by name, the properties typed; large_string arrays of one length otherwise."""

    file: DelimitedFile
    texts: dict[str, pa.Array]
    properties: dict[str, list[Any]]

    def where(self, row: int) -> str:
        return f"{self.file.file} line {self.file.line_of(row, header=True):,}"


def read_tables(nodes: Path, edges: Path) -> PropertyGraph:
    """The graph of nodes.csv and edges.csv; further columns become properties.

    Unlike a run's graph it may lack nodes or edges, and texts stay exactly as they are. Raises
    GraphFormatError with file and line for a missing or doubled column, a doubled id, an unknown end.
    """
    node_table, edge_table = _table(nodes, NODE_COLUMNS), _table(edges, EDGE_COLUMNS)
    ids = node_table.texts["id"]
    codes = ids.dictionary_encode().indices.to_numpy()
    # Codes are given in order of appearance, so a new id is one above everything before it.
    again = codes <= np.maximum.accumulate(np.append(-1, codes[:-1])) if len(codes) else codes
    if again.any():
        row = int(np.argmax(again))
        message = f"{node_table.where(row)}: node id {ids[row].as_py()[:80]!r} stands twice"
        raise GraphFormatError(message, "delete one of them")
    digest = hashlib.sha256()
    for path in (nodes, edges):
        with TextStream(path) as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return PropertyGraph(
        ids=ids.to_pylist(),
        names=node_table.texts["name"].to_pylist(),
        types=node_table.texts["type"].to_pylist(),
        sources=_ends(edge_table, "source_id", ids),
        targets=_ends(edge_table, "target_id", ids),
        edge_types=edge_table.texts["type"].to_pylist(),
        node_properties=node_table.properties,
        edge_properties=edge_table.properties,
        digest=digest.hexdigest(),
    )


def from_run(graph: KnowledgeGraph, digest: str) -> PropertyGraph:
    """The graph of a run's kg.h5."""
    node_types = np.asarray(graph.node_types, dtype=object)
    edge_types = np.asarray(graph.edge_types, dtype=object)
    return PropertyGraph(
        ids=graph.node_ids.tolist(),
        names=graph.names.tolist(),
        types=node_types[graph.node_type].tolist(),
        sources=graph.edge_source,
        targets=graph.edge_target,
        edge_types=edge_types[graph.edge_type].tolist(),
        node_properties=_plain(graph.node_properties),
        edge_properties=_plain(graph.edge_properties),
        digest=digest,
    )


def _table(path: Path, required: Sequence[str]) -> _Table:
    file = DelimitedFile.open(path, CSV)
    names = header_names(file, required)
    for name in names:
        if names.count(name) > 1:
            position = f"{file.file} line {file.first_record.line:,}"
            raise GraphFormatError(f"{position}: column {name[:100]!r} stands twice", "rename one of them")
    names = unique(names)
    batches = [batch for _, batch in file.batches(names, names, header=True)]
    columns = {name: pa.concat_arrays([batch[name] for batch in batches]) for name in names}
    texts = {name: columns.pop(name) for name in required}
    return _Table(file, texts, _plain({name: _typed(column) for name, column in columns.items()}))


def _typed(cells: pa.Array) -> pa.Array | list[Any]:
    """The column with the type that all its cells have; whole numbers of any size stay whole."""
    column = typed(cells)
    if pa.types.is_large_string(column.type):
        matches = pc.match_substring_regex(column, INTEGER)
        if column.null_count < len(column) and pc.all(matches, skip_nulls=True).as_py():
            numbers = [None if cell is None else number(cell) for cell in column.to_pylist()]
            if numbers.count(None) == column.null_count:  # none beyond 1e308
                return numbers
    return column


def _plain(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns that any node or edge has, as lists of JSON values and None."""
    lists = {
        name: column if isinstance(column, list) else column.to_pylist() for name, column in columns.items()
    }
    return {name: values for name, values in lists.items() if any(value is not None for value in values)}


def _ends(table: _Table, column: str, ids: pa.Array) -> np.ndarray:
    values = table.texts[column]
    positions = pc.fill_null(pc.index_in(values, value_set=ids), -1).to_numpy(zero_copy_only=False)
    if (positions < 0).any():
        row = int(np.argmax(positions < 0))
        message = f"{table.where(row)}: {values[row].as_py()[:80]!r} is not in the file of nodes"
        raise GraphFormatError(message, "add it there, or delete the line")
    return positions
