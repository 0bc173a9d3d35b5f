"""A knowledge graph as a file: kg.h5, exactly as it was read, and the formats of other programs.

kg.h5 is one sealed file. Its groups `nodes` (id, name, type), `edges` (source, target, type), `node_types` and
`edge_types` (name) and `attributes` (key, value) are tables as in store/table.py; types are int32 rows of the type
tables, source and target of `nodes`. `node_properties` and `edge_properties` hold one group for each property. The
1 KiB header repeats what a dataset's card needs. docs/reference/format.md.

Other programs get N-Triples, Turtle, GraphML, or two CSV tables. RDF holds types, names, relations and the properties
of nodes; the other forms hold the properties of edges as well, and can be read again (sources csv and graphml). The
queries of records name the IRIs of RDF.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

import h5py
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.graph import TYPES, KnowledgeGraph, Properties, Strings, type_name
from kgqa_hpc.kg.relations import LABEL, iri
from kgqa_hpc.kg.sources.csv import EDGE_COLUMNS, NODE_COLUMNS, unique
from kgqa_hpc.store.atomic import commit, disk_errors, make_folder, temp_file
from kgqa_hpc.store.sealed import create_sealed, open_sealed
from kgqa_hpc.store.table import CHUNK_BYTES, COMPRESS_FROM, JSON, TEXT, Table, packing, write_table
from kgqa_hpc.text.plain_text import csv_lines

KIND = "knowledge-graph"

# Members that the header repeats, the most important first, and their largest size as JSON (a header has 1,023 bytes).
_IN_HEADER = ("source", "licence", "version", "licence_url", "licence_terms", "citation", "title", "package")
_HEADER_BYTES = 700

RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CR = {"\r": "&#13;"}  # an XML reader would turn a plain CR into a line feed
_GRAPHML_TYPES = {"integer": "long", "decimal": "double", "boolean": "boolean", "text": "string"}
_Row = tuple[str, str, str, tuple[Any, ...]]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def write_graph(path: Path, graph: KnowledgeGraph, origin: Mapping[str, str] | None = None) -> None:
    """Write the graph; the same graph gives the same bytes. Raises DiskFull or StoreError.

    `origin` is stored in the header and identifies the run of the file (store/fingerprint.py). The file appears whole
    or not at all.
    """
    attributes = graph.attributes
    chosen: dict[str, str | int] = {}
    for key in _IN_HEADER:
        if key in attributes and len(orjson.dumps({**chosen, key: attributes[key]})) <= _HEADER_BYTES:
            chosen[key] = attributes[key]
    header = {"rows": graph.num_nodes, "edges": graph.num_edges, "attributes": chosen, **(origin or {})}
    with create_sealed(path, KIND, header=header) as file:
        nodes = _table(file, "nodes", graph.num_nodes)
        _write_texts(nodes.create_group("id"), graph.node_ids)
        _write_texts(nodes.create_group("name"), graph.names)
        _write_array(nodes, "type", graph.node_type)
        edges = _table(file, "edges", graph.num_edges)
        _write_array(edges, "source", graph.edge_source)
        _write_array(edges, "target", graph.edge_target)
        _write_array(edges, "type", graph.edge_type)
        for name, types in (("node_types", graph.node_types), ("edge_types", graph.edge_types)):
            write_table(file.create_group(name), {"name": TEXT}, [{"name": kind} for kind in types])
        pairs = [{"key": key, "value": value} for key, value in sorted(attributes.items())]
        write_table(file.create_group("attributes"), {"key": TEXT, "value": JSON}, pairs)
        _write_properties(_table(file, "node_properties", graph.num_nodes), graph.node_properties)
        _write_properties(_table(file, "edge_properties", graph.num_edges), graph.edge_properties)


def read_graph(path: Path) -> KnowledgeGraph:
    """The graph of a verified kg.h5. Raises CorruptFile or StoreError."""
    with open_sealed(path, KIND) as file:
        edges, attributes = Table(file["edges"]), Table(file["attributes"])
        return KnowledgeGraph(
            node_ids=_read_texts(file["nodes/id"]),
            names=_read_texts(file["nodes/name"]),
            node_type=Table(file["nodes"]).numbers("type"),
            node_types=tuple(Table(file["node_types"]).text("name")),
            edge_source=edges.numbers("source"),
            edge_target=edges.numbers("target"),
            edge_type=edges.numbers("type"),
            edge_types=tuple(Table(file["edge_types"]).text("name")),
            attributes=dict(zip(attributes.text("key"), attributes.json("value"), strict=True)),
            node_properties=_read_properties(file["node_properties"]),
            edge_properties=_read_properties(file["edge_properties"]),
        )


def _table(file: h5py.File, name: str, rows: int) -> h5py.Group:
    group = file.create_group(name)
    group.attrs["rows"] = np.int64(rows)
    return group


def _write_texts(group: h5py.Group, values: Strings) -> None:
    # Arrow's large_string has the layout of the table's text columns: one copy instead of a loop over rows.
    array = pa.array(values, pa.large_string())
    _, offsets, data = array.buffers()
    group.attrs["type"] = TEXT
    offsets = np.frombuffer(offsets, np.int64, len(array) + 1)
    _write_array(group, "offsets", offsets)
    _write_array(group, "bytes", np.frombuffer(data or b"", np.uint8, int(offsets[-1])))


def _read_texts(group: h5py.Group) -> Strings:
    offsets, data = group["offsets"][:], group["bytes"][:]
    array = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=object)


def _write_properties(group: h5py.Group, columns: Properties) -> None:
    for number, (name, column) in enumerate(columns.items()):
        member = group.create_group(f"{number:04d}")  # a number, because HDF5 takes "/" in a name for a path
        member.attrs["name"] = name.replace("\0", "\ufffd")  # HDF5's texts end at a NUL
        member.attrs["type"] = type_name(column)
        _write_array(member, "present", column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8))
        if member.attrs["type"] == "text":
            _write_texts(member, column.fill_null(""))
            member.attrs["type"] = "text"
        else:
            values = column.fill_null(False if column.type == pa.bool_() else 0)
            numbers = values.to_numpy(zero_copy_only=False)
            _write_array(member, "values", numbers.astype(np.uint8) if numbers.dtype == bool else numbers)


def _read_properties(group: h5py.Group) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    for _, member in sorted(group.items()):
        absent = member["present"][:] == 0
        kind = str(member.attrs["type"])
        values = _read_texts(member) if kind == "text" else member["values"][:]
        columns[str(member.attrs["name"])] = pa.array(
            values.astype(bool) if kind == "boolean" else values, TYPES[kind], mask=absent
        )
    return columns


def _write_array(group: h5py.Group, name: str, values: npt.NDArray[Any]) -> None:
    options: dict[str, Any] = {}
    if values.nbytes >= COMPRESS_FROM:
        options = packing(values.itemsize, min(CHUNK_BYTES // values.itemsize, len(values)))
    group.create_dataset(name, data=values, track_times=False, **options)


def literal(value: Any) -> str:
    """A text, integer, decimal or truth value as an RDF literal."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    kind = "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "double"
    return f'"{value_text(value)}"^^<{_XSD}{kind}>'


def value_text(value: Any) -> str:
    """A property's value as the text of its literal; a decimal without fraction has no point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def export_graph(graph: KnowledgeGraph, excluded: Iterable[str], path: Path) -> list[Path]:
    """Write the graph without edges of the `excluded` types, in the format of the file's ending.

    `.csv` gives two files, NAME.nodes.csv and NAME.edges.csv. Returns the files. Raises InputError for
    another ending, DiskFull or StoreError; a file appears whole or not at all.
    """
    codes = [code for code, name in enumerate(graph.edge_types) if name in set(excluded)]
    graph = graph.with_edges(~np.isin(graph.edge_type, codes))
    writers = _WRITERS.get(path.suffix)
    if writers is None:
        raise InputError(f"{path}: no form of a graph ends in {path.suffix!r}", f"use {', '.join(_WRITERS)}")
    files = []
    for part, lines in writers.items():
        file = path.with_suffix(f"{part}{path.suffix}")
        files.append(file)
        make_folder(file.parent)
        with temp_file(file) as (fd, temp), disk_errors(file):
            with open(os.dup(fd), "w", encoding="utf-8", newline="") as sink:
                sink.writelines(lines(graph))
            commit(fd, temp, file, exclusive=False)
    return files


def _triples(graph: KnowledgeGraph) -> Iterator[tuple[str, str, str]]:
    """The distinct triples in RDF's notation, ordered by subject."""
    types = [iri("type", kind) for kind in graph.node_types]
    relations = [iri("relation", kind) for kind in graph.edge_types]
    nodes = [iri("node", node) for node in graph.node_ids]
    columns = [(iri("property", name), column.to_pylist()) for name, column in graph.node_properties.items()]
    edges = np.unique(np.stack([graph.edge_source, graph.edge_type, graph.edge_target]), axis=1).T.tolist()
    rows = {source: list(group) for source, group in groupby(edges, key=lambda edge: edge[0])}
    for position, node in enumerate(nodes):
        yield node, RDF_TYPE, types[graph.node_type[position]]
        if graph.names[position].strip():
            yield node, LABEL, literal(graph.names[position])
        for name, values in columns:
            if values[position] is not None:
                yield node, name, literal(values[position])
        for _, kind, target in rows.get(position, ()):
            yield node, relations[kind], nodes[target]


def _turtle(graph: KnowledgeGraph) -> Iterator[str]:
    for subject, group in groupby(_triples(graph), key=lambda triple: triple[0]):
        lines = [f"{predicate} {object_}" for _, predicate, object_ in group]
        yield f"{subject} " + " ;\n    ".join(lines) + " .\n"


def _graphml(graph: KnowledgeGraph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    keys = {"node": ("name", "type"), "edge": ("type",)}
    for domain, properties in (("node", graph.node_properties), ("edge", graph.edge_properties)):
        for name in keys[domain]:
            yield f'<key id="{domain}.{name}" for="{domain}" attr.name="{name}" attr.type="string"/>\n'
        names = unique([*keys[domain], *properties])[len(keys[domain]) :]
        for number, (name, column) in enumerate(zip(names, properties.values(), strict=True)):
            kind = _GRAPHML_TYPES[type_name(column)]
            yield f'<key id="{domain}{number}" for="{domain}" attr.name={_quoted(name)} attr.type="{kind}"/>\n'
    yield '<graph edgedefault="directed">\n'
    for node, name, kind, cells in _rows(graph, "node"):
        data = _data([("node.name", name), ("node.type", kind)], "node", cells)
        yield f"<node id={_quoted(node)}>{data}</node>\n"
    for source, target, kind, cells in _rows(graph, "edge"):
        data = _data([("edge.type", kind)], "edge", cells)
        yield f"<edge source={_quoted(source)} target={_quoted(target)}>{data}</edge>\n"
    yield "</graph>\n</graphml>\n"


def _data(keys: list[tuple[str, str]], domain: str, cells: tuple[Any, ...]) -> str:
    further = [(f"{domain}{k}", value_text(cell)) for k, cell in enumerate(cells) if cell is not None]
    return "".join(f'<data key="{key}">{escape(_xml(text), _CR)}</data>' for key, text in (*keys, *further))


@lru_cache(maxsize=1 << 16)
def _quoted(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def _csv(columns: Iterable[str], rows: Iterator[_Row]) -> Iterator[str]:
    texts = ((*row, *("" if cell is None else value_text(cell) for cell in cells)) for *row, cells in rows)
    return csv_lines(chain([columns], texts))


def _rows(graph: KnowledgeGraph, domain: Literal["node", "edge"]) -> Iterator[_Row]:
    """Id, name, type and properties of each node, or ids of source and target, type and properties of each edge."""
    if domain == "node":
        texts, codes, types = (graph.node_ids, graph.names), graph.node_type, graph.node_types
        columns = graph.node_properties
    else:
        texts = graph.node_ids[graph.edge_source], graph.node_ids[graph.edge_target]
        codes, types, columns = graph.edge_type, graph.edge_types, graph.edge_properties
    values = [column.to_pylist() for column in columns.values()]
    cells = zip(*values, strict=True) if values else repeat((), len(codes))
    return zip(*texts, (types[code] for code in codes), cells, strict=True)


# Output formats by file ending: the writer of each file, by what its name adds to the stem.
_WRITERS: dict[str, dict[str, Callable[[KnowledgeGraph], Iterator[str]]]] = {
    ".nt": {"": lambda graph: (f"{' '.join(triple)} .\n" for triple in _triples(graph))},
    ".ttl": {"": _turtle},
    ".graphml": {"": _graphml},
    ".csv": {
        ".nodes": lambda graph: _csv(unique([*NODE_COLUMNS, *graph.node_properties]), _rows(graph, "node")),
        ".edges": lambda graph: _csv(unique([*EDGE_COLUMNS, *graph.edge_properties]), _rows(graph, "edge")),
    },
}
