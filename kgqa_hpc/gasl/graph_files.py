"""Where a script's graph comes from: two CSV files with typed columns, or the kg.h5 of a run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.gasl.graph import PropertyGraph
from kgqa_hpc.gasl.literals import number
from kgqa_hpc.kg.assemble import positions
from kgqa_hpc.kg.delimited import CSV, DelimitedFile
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.sources.csv import EDGE_COLUMNS, NODE_COLUMNS

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_BOOLEAN = r"^(?i:true|false)$"


def read_tables(nodes: Path, edges: Path) -> PropertyGraph:
    """The graph of nodes.csv and edges.csv; further columns become properties.

    Raises GraphFormatError with file and line for a missing or doubled column, a doubled id, an unknown end.
    """
    node_file, node_columns = _table(nodes, NODE_COLUMNS)
    edge_file, edge_columns = _table(edges, EDGE_COLUMNS)
    ids = node_columns.pop("id")
    _refuse_doubled(node_file, ids)
    ends = [_ends(edge_file, edge_columns.pop(name), ids) for name in EDGE_COLUMNS[:2]]
    digest = hashlib.sha256()
    for data in (node_file.data, edge_file.data):
        digest.update(hashlib.sha256(data).digest())
    return PropertyGraph(
        ids=ids.to_pylist(),
        names=node_columns.pop("name").to_pylist(),
        types=node_columns.pop("type").to_pylist(),
        sources=ends[0],
        targets=ends[1],
        edge_types=edge_columns.pop("type").to_pylist(),
        node_properties=_typed(node_columns),
        edge_properties=_typed(edge_columns),
        digest=digest.hexdigest(),
    )


def from_run(graph: KnowledgeGraph, digest: str) -> PropertyGraph:
    """The graph of a run's kg.h5, with its typed properties where it has some."""
    node_types = np.asarray(graph.node_types, dtype=object)
    edge_types = np.asarray(graph.edge_types, dtype=object)
    return PropertyGraph(
        ids=graph.node_ids.tolist(),
        names=graph.names.tolist(),
        types=node_types[graph.node_type].tolist(),
        sources=graph.edge_source,
        targets=graph.edge_target,
        edge_types=edge_types[graph.edge_type].tolist(),
        node_properties=_columns(getattr(graph, "node_properties", {})),
        edge_properties=_columns(getattr(graph, "edge_properties", {})),
        digest=digest,
    )


def _table(path: Path, wanted: Sequence[str]) -> tuple[DelimitedFile, dict[str, pa.Array]]:
    file = DelimitedFile.open(path, CSV)
    names = [name.strip() for name in file.first.fields]
    where = f"{file.file} line {file.first.line:,}"
    for name in wanted:
        if name not in names:
            cure = (
                f"the first line must name the columns {','.join(wanted)}; it names {','.join(names)[:100]}"
            )
            raise GraphFormatError(f"{where}: column {name!r} is missing", cure)
    for name, times in Counter(names).items():
        if times > 1:
            raise GraphFormatError(f"{where}: column {name[:100]!r} stands twice", "rename one of them")
    return file, file.columns(names, names, header=True)


def _refuse_doubled(file: DelimitedFile, ids: pa.Array) -> None:
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    codes = ids.dictionary_encode().indices.to_numpy()
    highest = np.maximum.accumulate(np.append(-1, codes[:-1]))
    row = int(np.argmax(codes <= highest))
    where = f"{file.file} line {file.line_of(row, header=True):,}"
    raise GraphFormatError(f"{where}: node id {ids[row].as_py()[:80]!r} stands twice", "delete one of them")


def _ends(file: DelimitedFile, values: pa.Array, ids: pa.Array) -> np.ndarray:
    found = positions(values, ids)
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        where = f"{file.file} line {file.line_of(row, header=True):,}"
        message = f"{where}: {values[row].as_py()[:80]!r} is not in the file of nodes"
        raise GraphFormatError(message, "add it there, or delete the line")
    return found


def _typed(columns: Mapping[str, pa.Array]) -> dict[str, list[Any]]:
    """The columns that any row fills, each with values of one kind; None where a row leaves it out."""
    typed = {name: _typed_column(values) for name, values in columns.items()}
    return {name: values for name, values in typed.items() if any(value is not None for value in values)}


def _typed_column(values: pa.Array) -> list[Any]:
    cells = [value or None for value in values.to_pylist()]
    filled = values.filter(pc.not_equal(values, ""))
    if _all_match(filled, _NUMBER):
        numbers = [None if cell is None else number(cell) for cell in cells]
        if all((made is None) == (cell is None) for made, cell in zip(numbers, cells, strict=True)):
            whole = _all_match(filled, _INTEGER)
            return numbers if whole else [None if made is None else float(made) for made in numbers]
    if _all_match(filled, _BOOLEAN):
        return [None if cell is None else cell.lower() == "true" for cell in cells]
    return cells


def _all_match(filled: pa.Array, pattern: str) -> bool:
    # Arrow matches with RE2, in linear time.
    return bool(pc.all(pc.match_substring_regex(filled, pattern), min_count=0).as_py())


def _columns(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    made = {name: [_plain(value) for value in values] for name, values in columns.items()}
    return {name: values for name, values in made.items() if any(value is not None for value in values)}


def _plain(value: Any) -> Any:
    """A property as JSON: numpy's numbers as Python's, NaN (no value) as None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and value != value else value
