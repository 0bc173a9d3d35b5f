"""A graph as two comma-separated files: nodes (id,name,type) and edges (source_id,target_id,type).

The first line names the columns; their order is free and other columns are ignored. Everything is text: an id
007 or a gene called NA stays what it is. Plain or gzip, UTF-8, fields with commas or line ends in double
quotes.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import EdgeTable, Lines, NodeTable, Policy, assemble
from kgqa_hpc.kg.delimited import CSV, DelimitedFile
from kgqa_hpc.kg.graph import KnowledgeGraph

NODE_COLUMNS = ("id", "name", "type")
EDGE_COLUMNS = ("source_id", "target_id", "type")


def read_csv(nodes: Path, edges: Path, policy: Policy = Policy()) -> KnowledgeGraph:  # noqa: B008 - frozen
    """Read both files; nodes and edges keep the order of their lines.

    Raises GraphFormatError with file and line, EmptyGraphError, or InputError when a file cannot be read.
    """
    return assemble(
        read_nodes(nodes),
        read_edges(edges),
        policy,
        {"source": "csv", "files": f"{nodes.name}, {edges.name}"},
    )


def read_nodes(path: Path) -> NodeTable:
    """The node table of a file with the columns id, name, type."""
    columns, line_of = _table(path, NODE_COLUMNS)
    return NodeTable(path.name, columns["id"], columns["name"], columns["type"], line_of)


def read_edges(path: Path) -> EdgeTable:
    """The edge table of a file with the columns source_id, target_id, type."""
    columns, line_of = _table(path, EDGE_COLUMNS)
    return EdgeTable(path.name, columns["source_id"], columns["target_id"], columns["type"], line_of)


def _table(path: Path, wanted: Sequence[str]) -> tuple[dict[str, pa.Array], Lines]:
    file = DelimitedFile.open(path, CSV)
    names = _header(file, wanted)
    return file.columns(names, wanted, header=True), partial(file.line_of, header=True)


def _header(file: DelimitedFile, wanted: Sequence[str]) -> list[str]:
    """Distinct column names; those that are not wanted may be empty or repeated in the file."""
    names = [name.strip() for name in file.first.fields]
    where = f"{file.file} line {file.first.line:,}"
    for column in wanted:
        if column not in names:
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
            raise GraphFormatError(
                f"{where}: column {column!r} is missing" + (f", did you mean {near[0]!r}?" if near else ""),
                _header_cure(names, wanted),
            )
        if Counter(names)[column] > 1:
            raise GraphFormatError(f"{where}: column {column!r} stands twice", "rename one of them")
    return [name if name in wanted else f"{position}:{name}" for position, name in enumerate(names)]


def _header_cure(names: Sequence[str], wanted: Sequence[str]) -> str:
    for separator, word in (("\t", "tabs"), (";", "semicolons")):
        if len(names) == 1 and separator in names[0]:
            return f"the file is separated by {word}; separate it by commas"
    return f"the first line must name the columns {','.join(wanted)}; it names {','.join(names)[:100]}"
