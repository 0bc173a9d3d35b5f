#!/usr/bin/env python3
"""Convert a run of kgqa_hpc 0.1 to the present format.

    python tools/upgrade_v1.py OLD NEW

OLD stays as it is. NEW has its configuration, graph, anchors, shards, results, pins and statistics: status, explain,
merge, report and `anchors: {kind: records, from: NEW}` read it. Shards without a result stay unanswered; work on them
is refused, because the prompts of 0.1 are gone. Leases, journals, logs and the dataset are left out: merge again.
"""

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import h5py
import numpy as np

from kgqa_hpc.config import RunConfig, parse_config
from kgqa_hpc.engines import operational
from kgqa_hpc.errors import CorruptFile, InputError, KgqaError
from kgqa_hpc.kg.file import write_graph
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.store.canonical import read_document
from kgqa_hpc.store.fingerprint import Manifest, anchors_origin, fingerprint, graph_origin, write_manifest
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import require_plain
from kgqa_hpc.store.shards import count, write_anchors, write_result
from kgqa_hpc.store.table import Table

Record = dict[str, Any]


def upgrade(old: Path, new: Path) -> int:
    """Convert the run; returns the number of results. Raises InputError, CorruptFile, StoreError."""
    if new.exists():
        raise InputError(f"{new}: is there already", "name a new folder")
    with replaced_folder(new) as growing:
        return _convert(old, growing)


def _convert(old: Path, new: Path) -> int:
    source = RunFolder(old)
    if not source.manifest_file.exists():
        raise InputError(f"{old}: is not a run folder (no manifest.json)", "name the folder of a run")
    document = read_document(source.manifest_file, "run")
    recorded = document["fingerprint"]
    if not any(
        isinstance(step, str) for each in recorded["passes"]["values"].values() for step in each["steps"]
    ):
        raise InputError(
            f"{old}: was made by {document['program']}, and needs no conversion", "use it as it is"
        )
    config = _config(source)
    sections = fingerprint(config.plain(), recorded["prompts"]["values"]["modules"], operational)
    run = RunFolder.create(new, config.plain(), sections)
    manifest = Manifest(sections, {}, document["created"], document["program"])
    write_manifest(run.manifest_file, manifest)
    for folder in (source.pins, source.stats):
        if folder.is_dir():
            shutil.copytree(folder, new / folder.name)
    if source.kg.exists():
        _graph(source, run, sections)
    if not source.anchors.exists():
        return 0
    _anchors(source, run, sections)
    if not source.shards_manifest.exists():
        return 0
    shards = partition(run, read_document(source.shards_manifest, "shards")["shard_size"])
    return sum(_results(source, run, each.name, shards.shards) for each in config.passes)


def _config(source: RunFolder) -> RunConfig:
    """The configuration; 0.1 wrote the keys of all graph sources, those of other sources as null."""
    data = source.config()
    data["graph"] = {key: value for key, value in data["graph"].items() if value is not None}
    return parse_config(data, str(source.config_file))


def _open(path: Path, kind: str) -> h5py.File:
    """A sealed file of version 1, every byte verified."""
    with path.open("rb") as file:
        header = json.loads(file.read(1024))
        body = hashlib.file_digest(file, "sha256").hexdigest()
    if (header.get("format"), header.get("version")) != (f"kgqa-{kind}", 1):
        raise CorruptFile(f"{path}: is not a kgqa-{kind} file of version 1")
    if header["sha256"] != body:
        raise CorruptFile(f"{path}: the checksum does not match the content")
    opened = h5py.File(path, "r", locking=False)
    require_plain(path, opened)
    return opened


def _graph(source: RunFolder, run: RunFolder, sections: Any) -> None:
    with _open(source.kg, "knowledge-graph") as file:
        nodes, edges, attributes = (Table(file[name]) for name in ("nodes", "edges", "attributes"))
        graph = KnowledgeGraph(
            node_ids=np.array(nodes.text("id"), dtype=object),
            names=np.array(nodes.text("name"), dtype=object),
            node_type=nodes.numbers("type"),
            node_types=tuple(Table(file["node_types"]).text("name")),
            edge_source=edges.numbers("source"),
            edge_target=edges.numbers("target"),
            edge_type=edges.numbers("type"),
            edge_types=tuple(Table(file["edge_types"]).text("name")),
            attributes=dict(zip(attributes.text("key"), attributes.json("value"), strict=True)),
        )
    write_graph(run.kg, graph, graph_origin(sections))


def _anchors(source: RunFolder, run: RunFolder, sections: Any) -> None:
    with _open(source.anchors, "anchors") as file:
        header = {**json.loads(file.attrs["header"]), **anchors_origin(sections), "kind": "graphlet"}
        header["totals"] = {f"shape {shape}": total for shape, total in header.get("totals", {}).items()}
        rows = map(anchor, Table(file["anchors"]).json("anchor"))
        write_anchors(run.anchors, rows, header)


def anchor(old: Record) -> Record:
    """An anchor of version 1, which knew graphlets alone, as version 2 stores it."""
    same = {key: old[key] for key in ("id", "kind", "nodes", "relations", "weight")}
    return {**same, "group": f"shape {old['shape']}", "data": {"shape": old["shape"]}}


def _results(source: RunFolder, run: RunFolder, pass_name: str, shards: Any) -> int:
    origin, written = run.origin(pass_name), 0
    for entry in shards:
        path = source.result(pass_name, entry.name)
        if path.exists():
            header = origin.header(entry.name, entry.sha256)
            written += write_result(run.result(pass_name, entry.name), _records(path), header)
    return written


def _records(path: Path) -> Iterator[Record]:
    with _open(path, "result") as file:
        yield from map(record, Table(file["records"]).json("record"))


def record(old: Record) -> Record:
    """A record of version 1, which had one judge and one pair, as version 2 stores it."""
    reason, status = old["reason"], old["status"]
    by_judge = reason is None or reason.startswith("judge: ")
    decided = status in ("accepted", "rejected") and by_judge and bool(old["output"])
    trace = [_bounded(entry) for entry in old.get("trace") or ()]
    added = {"features": {}, "annotations": {}, "records": None, "decided": decided}
    return {**old, **added, "trace": trace}


def _bounded(entry: Record) -> Record:
    """A trace entry with token counts that can be summed: 0.1 wrote whatever a server claimed."""
    tokens = entry.get("tokens")
    return {**entry, "tokens": {kind: count(number) for kind, number in tokens.items()}} if tokens else entry


def main() -> int:
    parser = argparse.ArgumentParser(description="Convert a run of kgqa_hpc 0.1 to the present format.")
    parser.add_argument("old", type=Path, metavar="OLD", help="The run; it is not changed.")
    parser.add_argument("new", type=Path, metavar="NEW", help="The folder to make.")
    options = parser.parse_args()
    try:
        results = upgrade(options.old, options.new)
    except KgqaError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code
    print(f"{options.new}: {results:,} results converted")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
