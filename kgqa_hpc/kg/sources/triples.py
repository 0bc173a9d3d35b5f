"""A graph as one file of triples: subject, predicate, object, separated by tabs, commas, semicolons or bars.

Tab-separated files have no quoting: each tab ends a field, each line end a triple. With other separators,
fields that contain the separator are in double quotes. The separator is read off the first line, or set by
`delimiter`. A first line that names the columns (subject or head or source …) is skipped. Without a node file
the nodes are the subjects and objects in order of appearance, each named by its id and of type "entity"; with
one (id,name,type as for `csv`) it declares them.
"""

from pathlib import Path

from pydantic import Field

from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.delimited import TSV, DelimitedFile, Dialect
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.kg.sources.csv import NodeColumns, Separator, add_nodes, named_by_id
from kgqa_hpc.kg.tables import rows_of
from kgqa_hpc.settings import later_key

_FIRST_NAMES = {"subject", "head", "source", "source_id", "from", "s", "h", "x_id", "start"}
_LAST_NAMES = {"object", "tail", "target", "target_id", "to", "o", "t", "y_id", "end"}


class TriplesSettings(SourceSettings):
    """Settings of the source triples: a file of triples, and a table of named nodes if there is one."""

    path: str = Field(description="The file: subject, predicate, object.")
    nodes: str | None = Field(None, description="A CSV file with id,name,type that declares the nodes.")
    delimiter: Separator | None = later_key(
        "Field separator; default: tab, comma, semicolon or bar, read off the first line."
    )
    columns: NodeColumns | None = later_key("Names of the columns in the node file.")
    paths = ("path", "nodes")


class Triples:
    """One table of triples."""

    name = "triples"
    licence = ""
    description = "One file of triples: subject, predicate, object."
    Settings = TriplesSettings

    def read(self, settings: TriplesSettings) -> KnowledgeGraph:
        """The graph of the files of a configuration."""
        path, assembly = Path(settings.path), Assembly(Policy.of(settings))
        nodes = None if settings.nodes is None else Path(settings.nodes)
        if nodes is not None:
            add_nodes(assembly, nodes, settings.columns)
        add_triples(assembly, path, dialect=_dialect(path, settings.delimiter))
        files = path.name if nodes is None else f"{nodes.name}, {path.name}"
        declare = named_by_id if nodes is None else None
        return assembly.finish({"source": "triples", "files": files}, declare=declare)


def _dialect(path: Path, delimiter: str | None) -> Dialect:
    """The file's dialect: tabs, unless only another separator gives three fields in the first line."""
    for separator in (delimiter,) if delimiter else ("\t", ",", ";", "|"):
        dialect = TSV if separator == "\t" else Dialect(separator, quote='"')
        if delimiter or len(DelimitedFile.open(path, dialect).first_record.fields) == 3:
            return dialect
    return TSV


def add_triples(
    assembly: Assembly, path: Path, *, may_have_header: bool = True, dialect: Dialect = TSV
) -> None:
    """Add the edges of a file of triples; skip its header line if the settings allow one and it is there."""
    file = DelimitedFile.open(path, dialect)
    names = [name.strip().lstrip("#").lower() for name in file.first_record.fields]
    is_header = len(names) == 3 and names[0] in _FIRST_NAMES and names[2] in _LAST_NAMES
    header = may_have_header and is_header
    for rows in rows_of(file, ("source", "type", "target"), ("source", "target", "type"), header=header):
        source, target, kind = rows.columns.values()
        assembly.edges(rows.file, source, target, kind, rows.line_of)
