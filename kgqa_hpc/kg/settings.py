"""The section `graph:` of a configuration: its keys, the graph that it names, and the record of the files read.

The class `Settings` of a source is its model and holds the common keys and those of the source; the registry of sources
lists all sources. RUN/graph_files.json holds the content of the files by sha256 (docs/reference/format.md, section 4).
`kgqa import` writes it; a command that adds to the run checks whether a file was edited since. Missing and unreadable
files are ignored: the run has its own graph in kg.h5.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, model_validator

from kgqa_hpc.errors import ConfigError, ExtensionError, GraphFormatError, InputError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import Settings, later_key, lines_of, section
from kgqa_hpc.store.atomic import exists
from kgqa_hpc.store.canonical import curing, read_document, sha256_of, write_document
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note
from kgqa_hpc.text.plain_text import normalized

if TYPE_CHECKING:
    from kgqa_hpc.kg.graph import KnowledgeGraph

# Functions that name the unnamed nodes of a graph: (graph, recipe file, folder of tables) -> graph.
HYDRATORS = Registry("hydrators", "hydrator", {})
KIND = "graph-files"
Contents = dict[str, dict[str, Any]]  # for each file name: sha256, bytes, mtime_ns
Files = str | Annotated[list[str], Field(min_length=1)]
"""One file or a list of them."""


def listed(files: Files | None) -> list[Path]:
    """The paths of a setting that may be one file, several, or none."""
    return [Path(file) for file in ([files] if isinstance(files, str) else files or ())]


class GraphConfig(Settings):
    """Where the knowledge graph comes from and how it is reduced (BioGraphletQA, section 3.1)."""

    source: str = Field("hpo", description="Source of the graph (docs/guide/sources.md).")
    unknown_nodes: Literal["error", "drop"] = Field(
        "error", description="Treatment of edges that name an undeclared node."
    )
    unnamed_nodes: Literal["drop", "error"] = Field(
        "drop", description="Treatment of nodes without a name; the published method drops them."
    )
    duplicate_nodes: Literal["error", "first"] = Field(
        "error", description="Treatment of duplicate node ids; first: keep the first row of each."
    )
    hydrate: str | None = Field(None, description="Recipe that names nodes (docs/guide/sources.md).")
    node_types: list[str] | None = Field(None, description="Only nodes of these types; default: all.")
    exclude_node_types: list[str] | None = Field(None, description="Node types left out before reduction.")
    exclude_edge_types: list[str] = Field(
        default_factory=list, description="Edge types left out before reduction."
    )
    symmetric_edge_types: list[str] | None = later_key(
        "Edge types that hold in both directions: missing opposite edges are added."
    )
    min_degree: int = Field(3, ge=0, description="Smallest degree; nodes below it are dropped.")
    max_degree: int = Field(100, ge=1, description="Largest degree; nodes above it are dropped.")
    k_core: int | None = Field(
        None,
        ge=1,
        description="Keep the k-core: the largest part in which each node has at least this many neighbours.",
    )
    largest_component: bool | None = Field(None, description="Keep only the largest connected component.")

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        hydrate = data.get("hydrate")
        resolved = {"hydrate": str((base / hydrate).resolve())} if isinstance(hydrate, str) else {}
        return {**super().with_paths(data, base), **resolved}

    @model_validator(mode="after")
    def _degrees(self) -> GraphConfig:
        if self.min_degree > self.max_degree:
            raise ValueError(f"min_degree {self.min_degree} is above max_degree {self.max_degree}")
        return self


class SourceSettings(GraphConfig):
    """Base of a source's settings: the common keys and its own."""

    registry: ClassVar[str] = "sources"


def graph_config(value: object, base: Path | None = None) -> GraphConfig:
    """Check plain data against the model of its source. Relative paths start in `base`.

    Raises ConfigError with a line for each problem; for an unknown key with the nearest known key.
    """
    try:
        config: GraphConfig = section(SOURCES, "source", value, base, "hpo")
    except ValidationError as problem:
        lines = lines_of(GraphConfig, problem, ("graph",))
        raise ConfigError("\n".join(lines), "see docs/reference/config.md") from None
    return config


def load_graph(config: GraphConfig) -> KnowledgeGraph:
    """The whole graph that a configuration names, not reduced (`reduce_to`).

    Raises InputError and its children, each with file, line and cure.
    """
    # Imported here, because checking settings needs no graph.
    from kgqa_hpc.kg.graph import KnowledgeGraph, of_types

    with SOURCES.calling(config.source):
        graph: KnowledgeGraph = SOURCES.get(config.source)().read(config)
    if not isinstance(graph, KnowledgeGraph):
        raise ExtensionError(
            f"{SOURCES.entry(config.source)}: read() returned {graph!r:.80}", "return a KnowledgeGraph"
        )
    if not SOURCES.ships(config.source):
        with SOURCES.calling(config.source):
            graph = _like_assembly(graph, config)
    else:
        for name in sorted(
            {*getattr(config, "properties", ())} - {*graph.node_properties, *graph.edge_properties}
        ):
            note(f"note: graph.properties: no node or edge has {name!r}")
    if symmetric := config.symmetric_edge_types:
        key = "graph.symmetric_edge_types"
        graph = graph.with_opposites(of_types(key, symmetric, graph.edge_type, graph.edge_types))
    if config.hydrate is None:
        return graph
    hydrated: KnowledgeGraph = HYDRATORS.get("recipe")(graph, Path(config.hydrate), tables_folder(config))
    return hydrated


def _like_assembly(graph: KnowledgeGraph, config: GraphConfig) -> KnowledgeGraph:
    """A graph that another package may have built without `Assembly`, with names as that makes them.

    Raises GraphFormatError for the first fault, and under `unnamed_nodes: error` for a node without a name.
    """
    import numpy as np

    from kgqa_hpc.kg.graph import faults_of

    def renamed(names: Iterable[str]) -> KnowledgeGraph:
        return replace(graph, names=np.array(list(names), object))

    graph = renamed("" if name is None else name for name in graph.names)
    for problem in faults_of(graph):
        raise GraphFormatError(
            f"{SOURCES.entry(config.source)}: {problem}",
            "mend its `read`, or use kgqa_hpc.kg.assemble.Assembly, which applies graph.duplicate_nodes, too",
        )
    graph = renamed(normalized("NFC", name) if name.strip() else "" for name in graph.names)
    unnamed = graph.node_ids[graph.names == ""]
    if config.unnamed_nodes == "error" and config.hydrate is None and len(unnamed):
        raise GraphFormatError(
            f"{SOURCES.entry(config.source)}: {len(unnamed):,} nodes have no name, e.g. {unnamed[0]!r}",
            "name them, or set graph.unnamed_nodes: drop",
        )
    return graph


def tables_folder(config: GraphConfig) -> Path | None:
    """The folder of the graph's file (`path`), in which its tables lie as well; None without `path`."""
    path = getattr(config, "path", None)
    if path is None:
        return None
    return Path(path) if Path(path).is_dir() else Path(path).parent


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
    with curing("remove it: the graph's files are then not compared any more"):
        files: Contents = read_document(run.graph_files, KIND)["files"]
    return files


def edited(files: dict[str, Path], digests: Contents) -> Iterator[Path]:
    """The files whose content differs; a file is read only if its size or time differs."""
    for name in (name for name in files if name in digests):
        with suppress(OSError):  # missing, or not readable by this user
            state, before = os.stat(files[name]), digests[name]
            touched = (state.st_size, state.st_mtime_ns) != (before["bytes"], before["mtime_ns"])
            if touched and _content(files[name])["sha256"] != before["sha256"]:
                yield files[name]


def _content(path: Path) -> dict[str, Any]:
    state = os.stat(path)
    return {"sha256": sha256_of(path), "bytes": state.st_size, "mtime_ns": state.st_mtime_ns}
