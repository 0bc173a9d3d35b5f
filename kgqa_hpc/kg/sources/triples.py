"""A graph as one tab-separated file of triples: subject, predicate, object.

No quoting: a tab separates, a line end ends. A first line that names the columns (subject or head or source
…) is skipped. Without a node file the nodes are the subjects and objects in order of appearance, each named
by its id and of type "entity"; with one (id,name,type as for `csv`) it declares them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pydantic import Field

from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.delimited import TSV, DelimitedFile
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.kg.sources.csv import add_nodes
from kgqa_hpc.kg.tables import constant, rows_of

COLUMNS = ("subject", "predicate", "object")
NODE_TYPE = "entity"

_FIRST_NAMES = {"subject", "head", "source", "source_id", "from", "s", "h", "x_id", "start"}
_LAST_NAMES = {"object", "tail", "target", "target_id", "to", "o", "t", "y_id", "end"}


class TriplesSettings(SourceSettings):
    """One file of triples, and nodes if they are named."""

    path: str = Field(description="The file: subject, predicate, object, separated by tabs.")
    nodes: str | None = Field(None, description="A CSV file with id,name,type that declares the nodes.")
    paths = ("path", "nodes")


class Triples:
    """One table of triples."""

    name = "triples"
    licence = ""
    description = "One tab-separated file: subject, predicate, object."
    Settings = TriplesSettings

    def read(self, settings: TriplesSettings) -> KnowledgeGraph:
        """The graph of the files of a configuration."""
        nodes = None if settings.nodes is None else Path(settings.nodes)
        return read_triples(Path(settings.path), nodes, Policy.of(settings))


def read_triples(path: Path, nodes: Path | None = None, policy: Policy = Policy()) -> KnowledgeGraph:  # noqa: B008 - frozen
    """Read the file; edges keep the order of its lines.

    Raises GraphFormatError with file and line, EmptyGraphError, or InputError when a file cannot be read.
    """
    assembly = Assembly(policy)
    if nodes is not None:
        add_nodes(assembly, nodes)
    add_triples(assembly, path)
    files = path.name if nodes is None else f"{nodes.name}, {path.name}"
    declare = _entities if nodes is None else None
    return assembly.finish({"source": "triples", "files": files}, declare=declare)


def add_triples(assembly: Assembly, path: Path, *, may_have_header: bool = True) -> None:
    """Take in the edges of a file of triples, its header left out if it may have and has one."""
    file = DelimitedFile.open(path, TSV)
    header = may_have_header and _is_header(file.first.fields)
    for rows in rows_of(file, COLUMNS, COLUMNS, header=header):
        assembly.edges(rows.file, rows["subject"], rows["object"], rows["predicate"], rows.line_of)


def _is_header(fields: list[str]) -> bool:
    names = [name.strip().lstrip("#").lower() for name in fields]
    return len(names) == 3 and names[0] in _FIRST_NAMES and names[2] in _LAST_NAMES


def _entities(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    return ids, constant(NODE_TYPE, len(ids))
