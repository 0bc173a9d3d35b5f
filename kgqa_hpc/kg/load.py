"""The one door through which a knowledge graph comes in, whatever it is written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.sources import SOURCES

if TYPE_CHECKING:
    from kgqa_hpc.kg.settings import GraphConfig


def load_graph(config: GraphConfig) -> KnowledgeGraph:
    """Read the graph a configuration names, whole: reduction is another step (`reduce_graph`).

    Raises InputError and its children, each with file, line and cure.
    """
    graph: KnowledgeGraph = SOURCES.get(config.source)().read(config)
    return graph
