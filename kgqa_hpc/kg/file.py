"""kg.h5: a knowledge graph as one sealed file, exactly as it was read.

Groups `nodes` (id, name, type), `edges` (source, target, type), `node_types` and `edge_types` (name) and
`attributes` (key, value) are tables as in store/table.py; types are int32 rows of the type tables, source and
target of `nodes`. `node_properties` and `edge_properties` hold one group for each property. The 1 KiB header
repeats what a dataset's card needs. docs/reference/format.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from kgqa_hpc.kg.graph import TYPES, KnowledgeGraph, Properties, Strings, type_name
from kgqa_hpc.store.sealed import create_sealed, open_sealed
from kgqa_hpc.store.table import CHUNK_BYTES, COMPRESS_FROM, JSON, TEXT, Table, write_table

KIND = "knowledge-graph"

# Members that the header repeats, the most important first, and their largest size as JSON (a header has 1,023 bytes).
_IN_HEADER = ("source", "licence", "version", "licence_url", "licence_terms", "citation", "title", "package")
_HEADER_BYTES = 700


def write_graph(
    path: Path, graph: KnowledgeGraph, attrs: Mapping[str, str | int], origin: Mapping[str, str] | None = None
) -> None:
    """Write the graph with its own attributes and `attrs` (which take precedence). The same graph gives the
    same bytes.

    `origin` is stored in the header and identifies the run of the file (store/fingerprint.py).

    Raises DiskFull or StoreError; the file appears whole or not at all.
    """
    attributes = {**graph.attributes, **attrs}
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
        _write_properties(file.create_group("node_properties"), graph.num_nodes, graph.node_properties)
        _write_properties(file.create_group("edge_properties"), graph.num_edges, graph.edge_properties)


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


def _write_properties(group: h5py.Group, rows: int, columns: Properties) -> None:
    group.attrs["rows"] = np.int64(rows)
    for number, (name, column) in enumerate(columns.items()):
        member = group.create_group(f"{number:04d}")  # numbered: HDF5 reads "/" in a name as a path
        member.attrs["name"], member.attrs["type"] = name, type_name(column)
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
        options = {
            "chunks": (min(CHUNK_BYTES // values.itemsize, len(values)),),
            "compression": "gzip",
            "compression_opts": 4,
            "shuffle": values.itemsize > 1,
            "fletcher32": True,
        }
    group.create_dataset(name, data=values, track_times=False, **options)
