"""Exchange formats: KGX, the tables of the package kgw, and GraphML of nano-graphrag and LightRAG.

KGX stores Biolink graphs (Monarch, ROBOKOP, RTX-KG2 …) as TSV, CSV or JSON Lines. Columns are in any order: nodes
have `id`, `category` and usually `name`, edges `subject`, `predicate` and `object`. TSV has no quoting, only a line
feed ends a line, and a row may lack its last fields, as KGX itself writes them; CSV is quoted. Several categories
are one type, joined by `|`. Of several rows with the same id, the first is used. Edges with `negated: true` are
dropped by default.

Exports of kgw, and query exports of a Neo4j dump, are two comma-separated tables. Nodes: id, type, properties;
edges: source_id, target_id, type, properties. `properties` is JSON and contains the name.

nano-graphrag and LightRAG write graphs that a language model extracted from texts. A node's id is its name, often
with literal double quotes at one or both ends; quotes are removed from names and types, ids stay as written. Edges
have a sentence instead of a type; LightRAG's `keywords` serve as type. Descriptions, chunks and files are properties.
"""

import dataclasses
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Buffer
from kgqa_hpc.kg.delimited import CSV, RAGGED, Rows
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import Files, SourceSettings, listed
from kgqa_hpc.kg.sources.csv import constant, read_table
from kgqa_hpc.kg.sources.graphml import add_graphml
from kgqa_hpc.text.streams import LINE_BYTES, TextStream, json_objects, parse_json, refuse_other_encodings

NAMED_THING = "biolink:NamedThing"
_ENDS = ("subject", "predicate", "object")
_JSON = {".jsonl", ".ndjson", ".json"}


class KgxSettings(SourceSettings):
    """Settings: tables of nodes and edges, and the choice of the type among several categories."""

    nodes: Files | None = Field(None, description="Node files; default: the edges' ends, unnamed.")
    edges: Files = Field(description="Edge files.")
    category: Literal["all", "first", "last"] = Field(
        "all", description="Type of a node with several categories: all (joined by |) or one."
    )
    negated: Literal["drop", "keep"] = Field("drop", description="Treatment of negated statements.")
    properties: list[str] = Field(default_factory=list, description="Further columns, or members, to keep.")
    duplicate_nodes: Literal["error", "first"] = Field("first", description="Duplicate node ids.")
    paths = ("nodes", "edges")


class Kgx:
    """Biolink graphs in KGX format."""

    name = "kgx"
    licence = ""
    description = "KGX, Biolink graphs such as Monarch's, as TSV, CSV or JSON Lines."
    Settings = KgxSettings

    def read(self, settings: KgxSettings) -> KnowledgeGraph:
        """The graph of all files, in their order."""
        nodes, edges = listed(settings.nodes), listed(settings.edges)
        assembly, negated = Assembly(settings), 0
        for path in nodes:
            (_json_nodes if _JSON & set(path.suffixes) else _table_nodes)(assembly, path, settings)
        for path in edges:
            add = _json_edges if _JSON & set(path.suffixes) else _table_edges
            negated += add(assembly, path, settings)
        attributes = {"source": self.name, "files": ", ".join(path.name for path in (*nodes, *edges))}
        return assembly.finish(
            attributes | ({"dropped_negated_edges": negated} if negated else {}),
            declare=None if nodes else lambda ids: (constant("", len(ids)), constant(NAMED_THING, len(ids))),
        )


def _table_nodes(assembly: Assembly, path: Path, settings: KgxSettings) -> None:
    columns, properties = ("id", "category"), settings.properties
    dialect = CSV if ".csv" in path.suffixes else RAGGED
    for rows in read_table(path, dialect, columns, optional=("name",), properties=properties):
        kinds = rows["category"]
        kinds = pc.if_else(pc.equal(kinds, ""), NAMED_THING, kinds)
        if settings.category != "all":
            pattern = r"(?s)\|.*$" if settings.category == "first" else r"(?s)^.*\|"
            kinds = pc.replace_substring_regex(kinds, pattern, "")
        assembly.nodes(rows.file, rows["id"], rows["name"], kinds, rows.line_of, rows.properties)


def _table_edges(assembly: Assembly, path: Path, settings: KgxSettings) -> int:
    """Add the edges of a table; returns the number of negated edges, which were left out."""
    negated, properties = 0, settings.properties
    dialect = CSV if ".csv" in path.suffixes else RAGGED
    for rows in read_table(path, dialect, _ENDS, optional=("negated",), properties=properties):
        if settings.negated == "drop":
            false = pc.equal(pc.utf8_lower(rows["negated"]), "true")
            if count := pc.sum(false).as_py():
                negated += count
                rows = rows.where(pc.invert(false))
        source, kind, target = (rows[name] for name in _ENDS)
        assembly.edges(rows.file, source, target, kind, rows.line_of, rows.properties)
    return negated


def _json_nodes(assembly: Assembly, path: Path, settings: KgxSettings) -> None:
    buffer = Buffer(assembly, path.name)
    for line, item in _objects(path, "nodes"):
        kinds = item.get("category") or [NAMED_THING]
        kinds = [str(kind) for kind in (kinds if isinstance(kinds, list) else [kinds])]
        kind = {"all": "|".join(kinds), "first": kinds[0], "last": kinds[-1]}[settings.category]
        selected = members(item, settings.properties)
        buffer.node(line, _text(item, "id", path, line), str(item.get("name") or ""), kind, selected)
    buffer.flush()


def _json_edges(assembly: Assembly, path: Path, settings: KgxSettings) -> int:
    """Add the edges of a JSON file; returns the number of negated edges, which were left out."""
    buffer, negated = Buffer(assembly, path.name), 0
    for line, item in _objects(path, "edges"):
        if settings.negated == "drop" and str(item.get("negated", "")).lower() == "true":
            negated += 1
            continue
        source, kind, target = (_text(item, key, path, line) for key in _ENDS)
        buffer.edge(line, source, target, kind, members(item, settings.properties))
    buffer.flush()
    return negated


def _objects(path: Path, member: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if ".json" not in path.suffixes:
        return json_objects(path, GraphFormatError)
    return ((line, item) for _, line, item in json_members(path, (member,)))


def _text(item: dict[str, Any], key: str, path: Path, line: int) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise GraphFormatError(f"{path.name} line {line:,}: {key!r} is missing or no text", "export it again")
    return value


def members(item: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The members of a JSON object that `names` lists and that exist."""
    return {name: item[name] for name in names if item.get(name) is not None}


def first_of(item: Mapping[str, Any], names: Iterable[str]) -> str:
    """The first existing member among `names`; the text "Null", which some exports write, counts as missing."""
    values = (item.get(name) for name in names)
    return next((str(value) for value in values if value and value != "Null"), "")


NAMES = ["name", "preferred_name", "title", "symbol", "label"]


class KgwSettings(SourceSettings):
    """Settings: two tables, and the properties that hold the name."""

    nodes: Files = Field(description="Node tables with id, type, properties.")
    edges: Files = Field(description="Edge tables with source_id, target_id, type.")
    name: list[str] = Field(
        NAMES, min_length=1, description="Properties that may hold the name; the first existing one counts."
    )
    paths = ("nodes", "edges")


class Kgw:
    """Exports of the package kgw."""

    name = "kgw"
    licence = ""
    description = "Exports of the package kgw, and query exports of Neo4j dumps such as CKG's."
    Settings = KgwSettings

    def read(self, settings: KgwSettings) -> KnowledgeGraph:
        """The graph of both tables, in their order."""
        assembly = Assembly(settings)
        nodes, edges = listed(settings.nodes), listed(settings.edges)
        for path in nodes:
            for rows in read_table(path, CSV, ("id", "type", "properties")):
                names = json_names(rows, rows["properties"], settings.name)
                assembly.nodes(rows.file, rows["id"], names, rows["type"], rows.line_of)
        for path in edges:
            for rows in read_table(path, CSV, ("source_id", "target_id", "type")):
                assembly.edges(rows.file, rows["source_id"], rows["target_id"], rows["type"], rows.line_of)
        files = ", ".join(path.name for path in (*nodes, *edges))
        return assembly.finish({"source": self.name, "files": files})


def json_names(rows: Rows, cells: pa.Array, names: list[str]) -> pa.Array:
    """For each JSON object in `cells`, its first member among `names`. Raises GraphFormatError with the line."""
    result = []
    for row, text in enumerate(cells.to_pylist()):
        try:
            result.append(first_of(parse_json(text or "{}"), names))
        except (orjson.JSONDecodeError, AttributeError) as problem:
            reason = f"not JSON: {problem.msg}" if isinstance(problem, ValueError) else "no JSON object"
            text = f"{rows.file} line {rows.line_of(row):,}: properties are {reason}"
            raise GraphFormatError(text, "export it again") from None
    return pa.array(result, pa.large_string())


_QUOTES = '"` \t\r\n'  # without the apostrophe, which can be part of a name: 5'-3'


class NanoGraphRagSettings(SourceSettings):
    """Settings: one document, and the type of edges without a type."""

    path: str = Field(description="The file graph_chunk_entity_relation.graphml.")
    edge_type: str = Field("", description="Type of edges without a type.")
    paths = ("path",)


class NanoGraphRag:
    """Graphs of nano-graphrag and LightRAG."""

    name = "nano-graphrag"
    licence = ""
    description = "GraphML of nano-graphrag and LightRAG."
    Settings = NanoGraphRagSettings

    def read(self, settings: NanoGraphRagSettings) -> KnowledgeGraph:
        """The graph of the document, in its order; names are its ids without quotes."""
        import pandas as pd

        path = Path(settings.path)
        assembly = Assembly(settings)
        add_graphml(assembly, path, names=(), node_types=("entity_type",), edge_types=("keywords",))
        graph = assembly.finish({"source": self.name, "files": path.name}, defaults=("UNKNOWN", ""))
        # Types that differ in their quotes alone become one.
        codes, kinds = pd.factorize(np.array([kind.strip(_QUOTES) for kind in graph.node_types], object))
        edge_kinds = [kind.strip(_QUOTES) or settings.edge_type for kind in graph.edge_types]
        edge_codes, edge_types = pd.factorize(np.array(edge_kinds, object))
        return dataclasses.replace(
            graph,
            names=np.array([name.strip(_QUOTES) for name in graph.node_ids], dtype=object),
            node_type=codes[graph.node_type].astype(np.int32),
            node_types=tuple(kinds),
            edge_type=edge_codes[graph.edge_type].astype(np.int32),
            edge_types=tuple(edge_types),
        )


_PIECE = 1 << 20
_BLANKS = re.compile(r"[ \t\r\n]*")


def json_members(path: Path, members: Collection[str]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(name, line, item) for each item of the arrays named in `members` of one large JSON object.

    Only one item is in memory at a time, so memory does not grow with the document. Raises GraphFormatError with the
    line of the first error.
    """
    window = _Window(path)
    window.expect("{")
    while window.peek() != "}":
        name = window.value()
        window.expect(":")
        if name not in members:
            window.value()
        else:
            window.expect("[")
            while window.peek() != "]":
                line, item = window.line, window.value()
                if not isinstance(item, dict):
                    raise window.malformed("not an object")
                yield name, line, item
                if window.peek() != "]":
                    window.expect(",")
            window.expect("]")
        if window.peek() != "}":
            window.expect(",")
    window.expect("}")
    if window.peek():
        problem = f"{path.name} line {window.line:,}: text after the end of the document"
        raise GraphFormatError(problem, "if each line is an object, name the file .jsonl")
    window.file.close()


class _Window:
    """A sliding window over a document, which keeps only the unparsed part of the text in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.file = io.TextIOWrapper(io.BufferedReader(TextStream(path), _PIECE), "utf-8", newline="")
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False
        self.line = 1

    def peek(self) -> str:
        """The next non-blank character, which is not consumed; "" at the end."""
        while True:
            self._advance(_BLANKS.match(self._text, self._at).end())  # type: ignore[union-attr]
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.malformed(f"expected {sign!r}")
        self._advance(self._at + 1)

    def value(self) -> Any:
        """Parse and consume the next JSON value. Raises GraphFormatError."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as problem:
                # An error near the end of the window may be due to the cut; an earlier error is real.
                if (problem.pos < len(self._text) - _PIECE) or not self._more():
                    raise self.malformed(problem.msg) from None
                continue
            except RecursionError:
                raise self.malformed("nested too deeply") from None
            if end == len(self._text) and self._more():
                continue  # a number or literal may continue after the window
            self._advance(end)
            return value

    def malformed(self, reason: str) -> GraphFormatError:
        problem = f"{self._path.name} line {self.line:,}: not the expected JSON: {reason}"
        return GraphFormatError(problem, "export it again")

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _more(self) -> bool:
        if self._ended:
            return False
        unread = self._text[self._at :]
        if len(unread) > (limit := LINE_BYTES.value):
            raise self.malformed(f"a value of more than {limit:,} letters (the limit {LINE_BYTES.variable})")
        try:
            # Double the size each time: a long value is then reparsed only a few times.
            piece = self.file.read(max(_PIECE, len(unread)))
        except UnicodeDecodeError:
            refuse_other_encodings(self._path)
            raise
        self._ended = not piece
        self._text, self._at = unread + piece, 0
        return bool(piece)
