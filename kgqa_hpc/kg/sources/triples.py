"""A graph as one tab-separated file of triples: subject, predicate, object.

No quoting: a tab separates, a line end ends. A first line that names the columns (subject or head or source
…) is skipped. Without a node file the nodes are the subjects and objects in order of appearance, each named
by its id and of type "entity"; with one (id,name,type as for `csv`) it declares them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.kg.assemble import EdgeTable, NodeTable, Policy, assemble
from kgqa_hpc.kg.delimited import TSV, DelimitedFile
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.sources.csv import read_nodes

COLUMNS = ("subject", "predicate", "object")
NODE_TYPE = "entity"

_FIRST_NAMES = {"subject", "head", "source", "source_id", "from", "s", "h", "x_id", "start"}
_LAST_NAMES = {"object", "tail", "target", "target_id", "to", "o", "t", "y_id", "end"}


def read_triples(path: Path, nodes: Path | None = None, policy: Policy = Policy()) -> KnowledgeGraph:  # noqa: B008 - frozen
    """Read the file; edges keep the order of its lines.

    Raises GraphFormatError with file and line, EmptyGraphError, or InputError when a file cannot be read.
    """
    file = DelimitedFile.open(path, TSV)
    header = _is_header(file.first.fields)
    columns = file.columns(COLUMNS, COLUMNS, header=header)
    edges = EdgeTable(
        path.name,
        columns["subject"],
        columns["object"],
        columns["predicate"],
        partial(file.line_of, header=header),
    )
    files = path.name if nodes is None else f"{nodes.name}, {path.name}"
    table = _nodes_of(edges) if nodes is None else read_nodes(nodes)
    return assemble(table, edges, policy, {"source": "triples", "files": files})


def _is_header(fields: list[str]) -> bool:
    names = [name.strip().lstrip("#").lower() for name in fields]
    return len(names) == 3 and names[0] in _FIRST_NAMES and names[2] in _LAST_NAMES


def _nodes_of(edges: EdgeTable) -> NodeTable:
    """The ends of all edges, each once, in the order in which a reader of the file meets them."""
    rows = len(edges.sources)
    ends = pa.concat_arrays([edges.sources, edges.targets])
    alternating = np.arange(2 * rows).reshape(2, rows).T.ravel()
    # An end of an edge cannot be unknown, duplicate or unnamed here, and an empty one is found as the edge's.
    met = ends.take(pa.array(alternating)).unique()
    ids = met.filter(pc.not_equal(pc.utf8_trim_whitespace(met), ""))
    types = pa.array([NODE_TYPE], pa.large_string()).take(pa.array(np.zeros(len(ids), dtype=np.int64)))
    return NodeTable(edges.file, ids, ids, types, lambda row: row + 1)
