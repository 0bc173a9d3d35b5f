"""A graph as GraphML, plain or gzip, as networkx, igraph, Gephi, Neo4j, LightRAG and others write it.

Each tool has its own attribute names. Per node or edge the first of these that is there counts, whatever the
case:

    a node's name    name, label, title, entity_name, entity_id, displayname
    a node's type    type, kind, labels, node_type, entity_type, category, class
    an edge's type   type, kind, relation, relationship, predicate, label, edge_type, edge label

from `<data>` by the `attr.name` of its key (by the key itself when it is not declared), else from the XML
attributes `label` and `labels` of the element; a key's `<default>` is respected. Neo4j's ":Gene:Entity" is
the type Gene. When no node of the file has a name, ids are the names; without any type, nodes are of type
"entity", edges "related_to". Nested graphs are flattened, ports ignored, hyperedges refused.

A DOCTYPE is refused before anything of it is expanded: entities are how XML attacks work, and GraphML needs
none. The standard library's expat is used directly because it knows the line of every element.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import pyarrow as pa

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.readers.assemble import EdgeTable, NodeTable, Policy, assemble
from kgqa_hpc.kg.readers.textfile import read_text, refuse_other_encodings

_NAMES = ("name", "label", "title", "entity_name", "entity_id", "displayname")
_NODE_TYPES = ("type", "kind", "labels", "node_type", "entity_type", "category", "class")
_EDGE_TYPES = ("type", "kind", "relation", "relationship", "predicate", "label", "edge_type", "edge label")
_ABSENT = 99  # the rank of a value nobody gave


def read_graphml(path: Path, policy: Policy = Policy()) -> KnowledgeGraph:  # noqa: B008 - frozen
    """Read the file; nodes and edges keep its order, an undirected edge points as it is written.

    Raises GraphFormatError with file and line, EmptyGraphError, or InputError when the file cannot be read.
    """
    document = _Document(path.name)
    document.read(read_text(path))
    nodes, edges = document.nodes, document.edges
    ids = _array(nodes.columns["id"])
    named = nodes.has_any("name")
    node_types = nodes.columns["type"] if nodes.has_any("type") else ["entity"] * len(ids)
    edge_types = edges.columns["type"] if edges.has_any("type") else ["related_to"] * len(edges.lines)
    return assemble(
        NodeTable(
            path.name,
            ids,
            _array(nodes.columns["name"]) if named else ids,
            _array(node_types),
            nodes.lines.__getitem__,
        ),
        EdgeTable(
            path.name,
            _array(edges.columns["source"]),
            _array(edges.columns["target"]),
            _array(edge_types),
            edges.lines.__getitem__,
        ),
        policy,
        {"source": "graphml", "files": path.name},
    )


@dataclass
class _Elements:
    """All nodes or all edges so far: one list per column, and the line each element begins on."""

    required: tuple[str, ...]
    wanted: dict[str, tuple[str, ...]]  # column -> the attribute names it may have, best first
    columns: dict[str, list[str]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)  # of what the last element has been given
    defaults: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns = {name: [] for name in (*self.required, *self.wanted)}

    def slot(self, attribute: str) -> tuple[str, int] | None:
        """The column an attribute belongs to and its rank there."""
        for column, names in self.wanted.items():
            if attribute.lower() in names:
                return column, names.index(attribute.lower())
        return None

    def begin(self, line: int) -> None:
        self.lines.append(line)
        for column in self.wanted:
            self.columns[column].append(self.defaults.get(column, (_ABSENT, ""))[1])
            # A default counts less than anything the element itself says.
            self.ranks[column] = _ABSENT

    def offer(self, column: str, rank: int, value: str) -> None:
        """Set a value of the last element, unless a better one is there."""
        if rank < self.ranks[column]:
            self.ranks[column] = rank
            self.columns[column][-1] = _first_label(value) if column == "type" else value

    def has_any(self, column: str) -> bool:
        return any(self.columns[column])


class _Document:
    """The state of one parse: where we are, and what was found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.nodes = _Elements(("id",), {"name": _NAMES, "type": _NODE_TYPES})
        self.edges = _Elements(("source", "target"), {"type": _EDGE_TYPES})
        self.keys: dict[str, str] = {}  # key id -> attr.name
        self.slots: dict[tuple[int, str], tuple[str, int] | None] = {}
        self.open: list[_Elements | None] = []  # the nodes and edges around the present position
        self.inside_data = 0
        self.text: list[str] = []
        self.finish: Callable[[str], None] | None = (
            None  # who wants the text of the present <data> or <default>
        )
        self.key: tuple[str, str] | None = None  # id and domain of the present <key>
        self.parser = expat.ParserCreate()

    def read(self, data: bytes) -> None:
        parser = self.parser
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._root
        parser.EndElementHandler = self._end
        try:
            parser.Parse(data, True)
        except (expat.ExpatError, LookupError, ValueError) as problem:
            declared = re.search(rb"encoding=[\"']([^\"']+)", data[:200])
            if declared is None or declared[1].lower() in (b"utf-8", b"utf8"):
                refuse_other_encodings(data, self.file)
            line = getattr(problem, "lineno", parser.CurrentLineNumber)
            reason = str(problem).split(": line")[0]
            raise GraphFormatError(f"{self.file} line {line:,}: not well-formed XML: {reason}") from None

    def _fail(self, what: str, cure: str) -> GraphFormatError:
        return GraphFormatError(f"{self.file} line {self.parser.CurrentLineNumber:,}: {what}", cure)

    def _doctype(self, *_: object) -> None:
        raise self._fail(
            "a DOCTYPE is not allowed", "delete the <!DOCTYPE …> declaration; GraphML does not need it"
        )

    def _root(self, tag: str, attributes: dict[str, str]) -> None:
        if _local(tag) != "graphml":
            raise self._fail(f"the document is {_local(tag)!r}, not GraphML", "export it as GraphML")
        self.parser.StartElementHandler = self._start

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if self.inside_data:
            self.inside_data += 1
            return
        name = _local(tag)
        if name == "data":
            self.inside_data = 1
            self._start_data(attributes.get("key", ""))
        elif name == "node":
            self._element(self.nodes, attributes)
            if "labels" in attributes:
                self.nodes.offer("type", _ABSENT - 1, attributes["labels"])
            if "label" in attributes:
                self.nodes.offer("name", _ABSENT - 1, attributes["label"])
        elif name == "edge":
            self._element(self.edges, attributes)
            if "label" in attributes:
                self.edges.offer("type", _ABSENT - 1, attributes["label"])
        elif name == "graph":
            self.open.append(None)  # its own <data> is not that of a node around it
        elif name == "key":
            self.key = attributes.get("id", ""), attributes.get("for", "all")
            self.keys[self.key[0]] = attributes.get("attr.name", self.key[0])
        elif name == "default" and self.key is not None:
            self.inside_data = 1
            self._listen(self._default)
        elif name == "hyperedge":
            raise self._fail("hyperedges are not supported", "write each as edges between pairs of nodes")

    def _element(self, elements: _Elements, attributes: dict[str, str]) -> None:
        for required in elements.required:
            value = attributes.get(required)
            if value is None:
                what = "node" if elements is self.nodes else "edge"
                raise self._fail(f"the {what} has no attribute {required!r}", "add it")
            elements.columns[required].append(value)
        elements.begin(self.parser.CurrentLineNumber)
        self.open.append(elements)

    def _start_data(self, key: str) -> None:
        elements = self.open[-1] if self.open else None
        if elements is None:
            return
        cached = id(elements), key
        if cached not in self.slots:
            self.slots[cached] = elements.slot(self.keys.get(key, key))
        slot = self.slots[cached]
        if slot is not None:
            column, rank = slot
            self._listen(lambda text: elements.offer(column, rank, text))

    def _listen(self, finish: Callable[[str], None]) -> None:
        self.finish = finish
        self.text = []
        self.parser.CharacterDataHandler = self.text.append

    def _end(self, tag: str) -> None:
        if self.inside_data:
            self.inside_data -= 1
            if not self.inside_data and self.finish is not None:
                self.parser.CharacterDataHandler = None
                self.finish("".join(self.text))
                self.finish = None
            return
        name = _local(tag)
        if name in ("node", "edge", "graph"):
            self.open.pop()
        elif name == "key":
            self.key = None

    def _default(self, text: str) -> None:
        assert self.key is not None
        key, domain = self.key
        for elements, own in ((self.nodes, "node"), (self.edges, "edge")):
            slot = elements.slot(self.keys[key]) if domain in (own, "all") else None
            if slot is not None and slot[1] < elements.defaults.get(slot[0], (_ABSENT, ""))[0]:
                elements.defaults[slot[0]] = slot[1], text


def _local(tag: str) -> str:
    return tag[tag.rfind(":") + 1 :]


def _first_label(value: str) -> str:
    return value.split(":")[1] if value.startswith(":") else value


def _array(values: list[str]) -> pa.Array:
    return pa.array(values, pa.large_string())
