"""A graph as GraphML, plain or gzip, as networkx, igraph, Gephi, Neo4j, LightRAG and others write it.

Each tool has its own attribute names. The first of these that a node or edge has is used, ignoring case:

    a node's name    name, label, title, entity_name, entity_id, displayname
    a node's type    type, kind, labels, node_type, entity_type, category, class
    an edge's type   type, kind, relation, relationship, predicate, label, edge_type, edge label

from `<data>` by the `attr.name` of its key (by the key itself when it is not declared), else from the XML
attributes `label` and `labels` of the element; all other `<data>` are properties. A key's `<default>` is
respected. Neo4j's ":Gene:Entity" is the node type Gene. When no node of the file has a name, ids are the names;
without any type, nodes are of type "entity", edges "related_to". Nested graphs are flattened, ports ignored,
hyperedges refused.

A DOCTYPE is refused unread: XML attacks use its entities, and GraphML needs none. The standard library's
expat is used directly because it knows the line of every element.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Buffer
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.terminal import note
from kgqa_hpc.text.streams import TextStream, refuse_other_encodings

NAMES = ("name", "label", "title", "entity_name", "entity_id", "displayname")
NODE_TYPES = ("type", "kind", "labels", "node_type", "entity_type", "category", "class")
EDGE_TYPES = ("type", "kind", "relation", "relationship", "predicate", "label", "edge_type", "edge label")
_NAME, _TYPE = 0, 1  # keys of the columns name and type; a property's key is its name
_LAST_RANK = 99  # rank of the XML attributes label and labels, below all <data>
_Value = tuple[int, str, str]  # rank, text and attribute ("" for an attribute of the XML element)
_MISSING: _Value = 0, "", ""
_PIECE = 1 << 20


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
        path, assembly = Path(settings.path), Assembly(settings)
        add_graphml(assembly, path)
        attributes = {"source": self.name, "files": path.name}
        return assembly.finish(attributes, defaults=("entity", "related_to"))


def add_graphml(
    assembly: Assembly,
    path: Path,
    names: Iterable[str] = NAMES,
    node_types: Iterable[str] = NODE_TYPES,
    edge_types: Iterable[str] = EDGE_TYPES,
) -> None:
    """Add the nodes and edges of a file, in its order; an undirected edge points as it is written.

    The attributes that may give a name or a type are in order of preference. Raises GraphFormatError with file
    and line, or InputError when the file cannot be read.
    """
    ranked = [
        {attribute: (column, rank) for rank, attribute in enumerate(attributes)}
        for column, attributes in ((_NAME, names), (_TYPE, node_types), (_TYPE, edge_types))
    ]
    _Parser(path, assembly, {"node": ranked[1] | ranked[0], "edge": ranked[2]}).read()


@dataclass(slots=True)
class _Element:
    """A node or an edge: its first line, its id or ends, and the best value of each column with its rank."""

    domain: str
    line: int
    ids: tuple[str, ...]
    values: dict[int | str, _Value]
    complete: bool = False  # True once no more <data> may follow: for a node, when a nested graph begins


class _Parser:
    """The state of the parser: the elements around the current position, and the keys declared so far."""

    def __init__(
        self, path: Path, assembly: Assembly, columns: dict[str, dict[str, tuple[int, int]]]
    ) -> None:
        self.path, self.file, self.rows = path, path.name, Buffer(assembly, path.name)
        # For each domain and attribute: its column, and its rank among that column's attributes.
        self.columns = columns
        self.defaults: dict[str, dict[int | str, _Value]] = {"node": {}, "edge": {}}
        self.keys: dict[str, str] = {}  # key id -> attr.name
        self.declared: tuple[str, str] | None = None  # attribute and domain of the current <key>
        # Enclosing elements; None: a graph, whose <data> belongs to no node.
        self.open: list[_Element | None] = []
        self.depth = 0  # nesting depth, counted from <data> or <default>
        self.attribute = ""  # attribute of the current <data>
        self.text: list[str] = []
        self.prefix = ""
        self.parser = expat.ParserCreate()

    def read(self) -> None:
        """Parse the file and pass its nodes and edges to the assembly."""
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
        self.rows.flush()

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
        if self.depth:
            self.depth += 1
            return
        name = tag.removeprefix(self.prefix)
        if name == "data":
            self.depth = 1
            key = attributes.get("key", "")
            self.attribute = self.keys.get(key, key)
        elif name == "edge":
            element = self._element(name, attributes, "source", "target")
            if "label" in attributes:
                element.values[_TYPE] = _LAST_RANK, attributes["label"], ""
        elif name == "node":
            element = self._element(name, attributes, "id")
            for column, attribute in ((_NAME, "label"), (_TYPE, "labels")):
                if attribute in attributes:
                    element.values[column] = _LAST_RANK, attributes[attribute], ""
        elif name == "graph":
            if attributes.get("edgedefault") == "undirected" and not self.open:
                note(
                    f"note: {self.file}: undirected edges point as they are written, and answers follow that"
                    " direction, unless graph.symmetric_edge_types names their type"
                )
            if self.open and self.open[-1] is not None:
                self._pass_on(self.open[-1])
            self.open.append(None)
        elif name == "key":
            key = attributes.get("id", "")
            self.keys[key] = attributes.get("attr.name", key)
            self.declared = self.keys[key], attributes.get("for", "all")
        elif name == "default" and self.declared is not None:
            self.depth = 1
        elif name == "hyperedge":
            raise self._fail("hyperedges are not supported", "write each as edges between pairs of nodes")

    def _element(self, domain: str, attributes: dict[str, str], *required: str) -> _Element:
        try:
            ids = tuple(map(attributes.__getitem__, required))
        except KeyError as problem:
            raise self._fail(f"the {domain} has no attribute {problem}", "add it") from None
        element = _Element(domain, self.parser.CurrentLineNumber, ids, {})
        self.open.append(element)
        return element

    def _end(self, tag: str) -> None:
        if self.depth:
            self.depth -= 1
            if not self.depth:
                self._value("".join(self.text))
            return
        name = tag.removeprefix(self.prefix)
        if name in ("edge", "node", "graph"):
            element = self.open.pop()
            if element is not None and not element.complete:
                self._pass_on(element)
        elif name == "key":
            self.declared = None

    def _value(self, text: str) -> None:
        """Take the text of a <data> or <default>."""
        element = self.open[-1] if self.open else None
        if self.declared is not None:
            attribute, domain = self.declared
            for key, values in self.defaults.items():
                if domain in (key, "all"):
                    self._keep(key, attribute, values, text)
        elif element is not None:
            if element.complete:
                cure = "move it before the nested graph"
                raise self._fail("data of a node after the graph nested in it", cure)
            self._keep(element.domain, self.attribute, element.values, text)

    def _keep(self, domain: str, attribute: str, values: dict[int | str, _Value], text: str) -> None:
        """Store a text: a column keeps the first text of the best rank; other names and types become properties."""
        column, rank = self.columns[domain].get(attribute.lower(), (attribute, 0))
        best = values.get(column)
        if best is None or rank < best[0]:
            values[column] = rank, text, attribute
            _, text, attribute = best or _MISSING
        if attribute not in ("", column, values[column][2]):
            values.setdefault(attribute, (0, text, attribute))

    def _pass_on(self, element: _Element) -> None:
        element.complete = True
        values = element.values
        if defaults := self.defaults[element.domain]:
            values = defaults | values
        name, kind = values.pop(_NAME, _MISSING)[1], values.pop(_TYPE, _MISSING)[1]
        if kind.startswith(":") and element.domain == "node":  # Neo4j's ":Gene:Entity"
            kind = kind.split(":")[1]
        properties = {str(column): text for column, (_, text, _) in values.items()} if values else None
        if element.domain == "node":
            self.rows.node(element.line, element.ids[0], name, kind, properties)
        else:
            source, target = element.ids
            self.rows.edge(element.line, source, target, kind, properties)
