"""Reading the graph that a configuration names, and the record of the files it was read from.

RUN/graph_files.json holds the content of these files by sha256 (docs/reference/format.md, section 4). `kgqa import`
writes it; a command that adds to the run checks whether a file was edited since. Missing and unreadable files are
ignored: the run has its own graph in kg.h5.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from itertools import chain, count
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import CorruptFile, ExtensionError, GraphFormatError, InputError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import GraphConfig, listed
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.store.atomic import exists, open_regular
from kgqa_hpc.store.canonical import read_document, write_document
from kgqa_hpc.store.run_folder import RunFolder

# Functions (graph, recipe file, folder of tables) -> graph; they give names to unnamed nodes.
HYDRATORS = Registry("hydrators", "hydrator", {})


def load_graph(config: GraphConfig) -> KnowledgeGraph:
    """The whole graph that a configuration names, not reduced (`reduce_to`).

    Raises InputError and its children, each with file, line and cure.
    """
    with SOURCES.calling(config.source):
        graph: KnowledgeGraph = SOURCES.get(config.source)().read(config)
    if not isinstance(graph, KnowledgeGraph):
        raise ExtensionError(
            f"{SOURCES.entry(config.source)}: read() returned {graph!r:.80}", "return a KnowledgeGraph"
        )
    if not SOURCES.ships(config.source):
        _require_policy(graph, config)
    if config.hydrate is None:
        return graph
    hydrated: KnowledgeGraph = HYDRATORS.get("recipe")(graph, Path(config.hydrate), tables_folder(config))
    return hydrated


def _require_policy(graph: KnowledgeGraph, config: GraphConfig) -> None:
    """Apply the checks of `Assembly` to a graph that another package may have built without it.

    Raises GraphFormatError for a repeated node id, and under `unnamed_nodes: error` for a node without a name.
    """
    repeated = [node for node, number in Counter(graph.node_ids.tolist()).items() if number > 1]
    if repeated:
        raise GraphFormatError(
            f"{SOURCES.entry(config.source)}: {len(repeated):,} node ids stand twice, e.g. {repeated[0]!r}",
            "build the graph with kgqa_hpc.kg.assemble.Assembly, which applies graph.duplicate_nodes",
        )
    if config.unnamed_nodes == "error" and config.hydrate is None and (graph.names == "").any():
        unnamed = graph.node_ids[graph.names == ""]
        raise GraphFormatError(
            f"{SOURCES.entry(config.source)}: {len(unnamed):,} nodes have no name, e.g. {unnamed[0]!r}",
            "name them, or set graph.unnamed_nodes: drop",
        )


def tables_folder(config: GraphConfig) -> Path | None:
    """The folder of the graph's own file, which also holds its tables."""
    path = getattr(config, "path", None)
    if path is None:
        return None
    return Path(path) if Path(path).is_dir() else Path(path).parent


KIND = "graph-files"
Contents = dict[str, dict[str, Any]]  # by name: sha256, bytes, mtime_ns


def graph_files(config: GraphConfig) -> dict[str, Path]:
    """The files that a configuration names, and the files directly in its folders, each by a unique name."""
    by_name: dict[str, Path] = {}
    for key in (*type(config).paths, "hydrate"):
        for path in listed(getattr(config, key, None)):
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
            for file in (entry for entry in inside if entry.is_file()):
                name = str(file.relative_to(path.parent))
                names = chain((name, f"{name} ({key})"), (f"{name} ({key} {n})" for n in count(3)))
                by_name[next(entry for entry in names if entry not in by_name)] = file
    return by_name


def contents(files: dict[str, Path]) -> Contents:
    """Digest of each file's present content. Raises InputError for an unreadable file."""
    digests = {}
    for name, path in files.items():
        try:
            digests[name] = _content(path)
        except OSError as problem:
            raise InputError(f"{path}: cannot be read: {problem.strerror}", "check the path") from None
    return digests


def record(run: RunFolder, digests: Contents) -> None:
    """Write the digests of the files that the graph was read from. Raises DiskFull, StoreError."""
    write_document(run.graph_files, {"format": f"kgqa-{KIND}", "version": 1, "files": digests})


def recorded(run: RunFolder) -> Contents:
    """The digests that `record` wrote; empty for runs of older versions.

    Raises CorruptFile, StoreError.
    """
    if not exists(run.graph_files):
        return {}
    try:
        files: Contents = read_document(run.graph_files, KIND)["files"]
    except CorruptFile as problem:
        raise CorruptFile(
            problem.message, "remove it: the graph's files are then not compared any more"
        ) from None
    return files


def edited(run: RunFolder, config: GraphConfig | None) -> list[Path]:
    """The files whose content has changed since import; a file is read only if its size or time differs."""
    if config is None or not (before := recorded(run)):
        return []
    return [
        path for name, path in graph_files(config).items() if name in before and _differs(path, before[name])
    ]


def require_unchanged(digests: Contents, files: dict[str, Path]) -> None:
    """Raises InputError when a file has changed since `contents` read it."""
    for name, path in files.items():
        if _differs(path, digests[name]):
            raise InputError(f"{path}: was changed while it was read", "import again")


def _differs(path: Path, before: dict[str, Any]) -> bool:
    try:
        state = os.stat(path)
        same = (state.st_size, state.st_mtime_ns) == (before["bytes"], before["mtime_ns"])
        return not same and _content(path)["sha256"] != before["sha256"]
    except OSError:
        return False  # missing, or not readable by this user


def _content(path: Path) -> dict[str, Any]:
    with open(open_regular(path), "rb") as file:
        state = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "bytes": state.st_size, "mtime_ns": state.st_mtime_ns}
