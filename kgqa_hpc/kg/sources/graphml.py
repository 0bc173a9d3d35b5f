"""A graph as GraphML, plain or gzip, as networkx, igraph, Gephi, Neo4j, LightRAG and others write it.

Each tool has its own attribute names. The first of these that a node or edge has is used, ignoring case:

    a node's name    name, label, title, entity_name, entity_id, displayname
    a node's type    type, kind, labels, node_type, entity_type, category, class
    an edge's type   type, kind, relation, relationship, predicate, label, edge_type, edge label

from `<data>` by the `attr.name` of its key (by the key itself when it is not declared), else from the XML
attributes `label` and `labels` of the element; all other `<data>` are properties. A key's `<default>` is
respected. Neo4j's ":Gene:Entity" is the type Gene. When no node of the file has a name, ids are the names;
without any type, nodes are of type "entity", edges "related_to". Nested graphs are flattened, ports ignored,
hyperedges refused.

A DOCTYPE is refused unread: XML attacks use its entities, and GraphML needs none. The standard library's
expat is used directly because it knows the line of every element.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import pyarrow as pa
from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.text.streams import TextStream, refuse_other_encodings

_NAMES = ("name", "label", "title", "entity_name", "entity_id", "displayname")
_NODE_TYPES = ("type", "kind", "labels", "node_type", "entity_type", "category", "class")
_EDGE_TYPES = ("type", "kind", "relation", "relationship", "predicate", "label", "edge_type", "edge label")
_ABSENT = 99  # the rank of a missing value
_PIECE = 1 << 20
_BATCH = 100_000  # elements held as Python objects


class GraphMlSettings(SourceSettings):
    """Settings of the source graphml: one document."""

    path: str = Field(description="The GraphML file.")
    paths = ("path",)


class GraphMl:
    """GraphML as many tools write it."""

    name = "graphml"
    licence = ""
    description = "GraphML of networkx, igraph, Gephi, Neo4j and others."
    Settings = GraphMlSettings

    def read(self, settings: GraphMlSettings) -> KnowledgeGraph:
        """The graph of the file of a configuration."""
        return read_graphml(Path(settings.path), Policy.of(settings))


def read_graphml(path: Path, policy: Policy = Policy()) -> KnowledgeGraph:  # noqa: B008 - frozen
    """Read the file; nodes and edges keep its order, an undirected edge points as it is written.

    Raises GraphFormatError with file and line, EmptyGraphError, or InputError when the file cannot be read.
    """
    assembly = Assembly(policy)
    Document(path, assembly).read()
    return assembly.finish({"source": "graphml", "files": path.name}, defaults=("entity", "related_to"))


@dataclass(slots=True)
class _Column:
    """Values of one property for all nodes or edges; `rank` is the priority of the last value's attribute."""

    names: tuple[str, ...]  # attributes that may give the value, best first; empty: a property
    values: list[str] = field(default_factory=list)
    rank: int = _ABSENT
    default: str = ""
    default_rank: int = _ABSENT

    def offer(self, rank: int, value: str) -> None:
        """Set the last value, unless a better value is set already."""
        if rank < self.rank:
            self.rank = rank
            self.values[-1] = value

    def labels(self) -> list[str]:
        """The values as types; of Neo4j's ":Gene:Entity" the first label."""
        return [value.split(":")[1] if value.startswith(":") else value for value in self.values]


@dataclass(slots=True)
class _Elements:
    """The nodes or edges of the current batch, and the first line of each."""

    element: str
    required: dict[str, list[str]]
    columns: tuple[_Column, ...]
    lines: array[int] = field(default_factory=lambda: array("q"))
    slots: dict[str, tuple[_Column, int]] = field(default_factory=dict)  # by key, filled as keys occur
    properties: dict[str, _Column] = field(default_factory=dict)

    def slot(self, attribute: str) -> tuple[_Column, int]:
        """The column of an attribute and its rank there; any other attribute becomes a property column."""
        for column in self.columns:
            if attribute.lower() in column.names:
                return column, column.names.index(attribute.lower())
        if attribute not in self.properties:
            self.properties[attribute] = _Column((), [""] * len(self.lines))
        return self.properties[attribute], 0

    def begin(self, line: int) -> None:
        self.lines.append(line)
        for column in (*self.columns, *self.properties.values()):
            column.values.append(column.default)
            column.rank = _ABSENT  # any value of the element itself takes precedence over a default

    def clear(self) -> None:
        self.lines = array("q")
        for values in (*self.required.values(), *(column.values for column in self.columns)):
            values.clear()
        for column in self.properties.values():
            column.values.clear()


class Document:
    """Parser state: the current element, and the nodes and edges read so far."""

    def __init__(
        self,
        path: Path,
        assembly: Assembly,
        names: tuple[str, ...] = _NAMES,
        node_types: tuple[str, ...] = _NODE_TYPES,
        edge_types: tuple[str, ...] = _EDGE_TYPES,
    ) -> None:
        self.path, self.file = path, path.name
        self.assembly = assembly
        self.nodes = _Elements("node", {"id": []}, (_Column(names), _Column(node_types)))
        self.edges = _Elements("edge", {"source": [], "target": []}, (_Column(edge_types),))
        self.keys: dict[str, str] = {}  # key id -> attr.name
        self.key: tuple[str, str] | None = None  # id and domain of the current <key>
        # Open elements around the current position: nodes, edges, and None for graphs.
        self.open: list[_Elements | None] = []
        self.closed = False  # the node around has had its nested graph; it can get no more data
        self.inside_data = 0  # depth below and including <data> or <default>
        self.slot: tuple[_Column, int] | None = None  # destination of the text of the current <data>
        self.text: list[str] = []
        self.prefix = ""
        self.parser = expat.ParserCreate()

    def read(self) -> None:
        """Parse the file, and pass its elements on in batches."""
        parser = self.parser
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._root
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self.text.append
        try:
            with TextStream(self.path) as stream:
                head = piece = stream.read(_PIECE)
                while piece:
                    parser.Parse(piece, False)
                    piece = stream.read(_PIECE)
                parser.Parse(b"", True)
        except (expat.ExpatError, LookupError, ValueError) as problem:
            declared = re.search(rb"encoding=[\"']([^\"']+)", head[:200])
            if declared is None or declared[1].lower() in (b"utf-8", b"utf8"):
                refuse_other_encodings(self.path)
            line = getattr(problem, "lineno", parser.CurrentLineNumber)
            reason = str(problem).split(": line")[0]
            raise GraphFormatError(
                f"{self.file} line {line:,}: not well-formed XML: {reason}", "export or download it again"
            ) from None
        self._flush(self.nodes, self.assembly.nodes)
        self._flush(self.edges, self.assembly.edges)

    def _flush(self, elements: _Elements, take: Callable[..., None]) -> None:
        *columns, types = elements.columns
        texts = [*elements.required.values(), *(column.values for column in columns), types.labels()]
        properties = {name: _array(column.values) for name, column in elements.properties.items()}
        take(self.file, *map(_array, texts), elements.lines.__getitem__, properties)
        elements.clear()

    def _fail(self, reason: str, cure: str) -> GraphFormatError:
        return GraphFormatError(f"{self.file} line {self.parser.CurrentLineNumber:,}: {reason}", cure)

    def _doctype(self, *_: object) -> None:
        raise self._fail("a DOCTYPE is not allowed", "delete <!DOCTYPE …>; GraphML does not need it")

    def _root(self, tag: str, attributes: dict[str, str]) -> None:
        prefix, _, name = tag.rpartition(":")
        if name != "graphml":
            raise self._fail(f"the document is {name!r}, not GraphML", "export it as GraphML")
        self.prefix = f"{prefix}:" if prefix else ""
        self.parser.StartElementHandler = self._start

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        # Called millions of times, once per element: frequent elements are tested first, with few function calls.
        self.text.clear()
        if self.inside_data:
            self.inside_data += 1
            return
        name = tag.removeprefix(self.prefix)
        if name == "data":
            self.inside_data = 1
            elements = self.open[-1] if self.open else None
            if elements is not None:
                key = attributes.get("key", "")
                if key not in elements.slots:
                    elements.slots[key] = elements.slot(self.keys.get(key, key))
                self.slot = elements.slots[key]
        elif name == "edge":
            self._element(self.edges, attributes)
            if "label" in attributes:
                self.edges.columns[0].offer(_ABSENT - 1, attributes["label"])
        elif name == "node":
            self._element(self.nodes, attributes)
            for column, attribute in zip(self.nodes.columns, ("label", "labels"), strict=True):
                if attribute in attributes:
                    column.offer(_ABSENT - 1, attributes[attribute])
        else:
            self._rare(name, attributes)

    def _element(self, elements: _Elements, attributes: dict[str, str]) -> None:
        for name, values in elements.required.items():
            if name not in attributes:
                raise self._fail(f"the {elements.element} has no attribute {name!r}", "add it")
            values.append(attributes[name])
        elements.begin(self.parser.CurrentLineNumber)
        self.open.append(elements)
        self.closed = False

    def _rare(self, name: str, attributes: dict[str, str]) -> None:
        if name == "graph":
            self.open.append(None)  # <data> of a nested graph does not belong to the enclosing node
        elif name == "key":
            self.key = attributes.get("id", ""), attributes.get("for", "all")
            self.keys[self.key[0]] = attributes.get("attr.name", self.key[0])
        elif name == "default" and self.key is not None:
            self.inside_data = 1
        elif name == "hyperedge":
            raise self._fail("hyperedges are not supported", "write each as edges between pairs of nodes")

    def _end(self, tag: str) -> None:
        if self.inside_data:
            self.inside_data -= 1
            if not self.inside_data:
                text = "".join(self.text)
                if self.slot is not None:
                    (column, rank), self.slot = self.slot, None
                    if self.closed:
                        cure = "move it before the nested graph"
                        raise self._fail("data of a node after the graph nested in it", cure)
                    column.offer(rank, text)
                elif self.key is not None:
                    key, domain = self.key
                    for elements in (self.nodes, self.edges):
                        if domain not in (elements.element, "all"):
                            continue
                        column, rank = elements.slot(self.keys[key])
                        if rank < column.default_rank:
                            column.default, column.default_rank = text, rank
            return
        name = tag.removeprefix(self.prefix)
        if name in ("edge", "node", "graph"):
            self.open.pop()
            self.closed = name == "graph"
            if len(self.edges.lines) >= _BATCH:
                self._flush(self.edges, self.assembly.edges)
            if len(self.nodes.lines) >= _BATCH and not any(self.open):
                self._flush(self.nodes, self.assembly.nodes)
        elif name == "key":
            self.key = None


def _array(values: list[str]) -> pa.Array:
    return pa.array(values, pa.large_string())
