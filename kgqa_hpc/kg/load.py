"""Reads the knowledge graph that a configuration names, whatever its format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa_hpc.errors import ExtensionError, GraphFormatError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry

if TYPE_CHECKING:
    from kgqa_hpc.kg.settings import GraphConfig


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
