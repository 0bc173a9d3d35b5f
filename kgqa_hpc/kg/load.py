"""The one door through which a knowledge graph comes in, whatever it is written in."""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.config import GraphConfig
from kgqa_hpc.kg.assemble import Policy
from kgqa_hpc.kg.graph import KnowledgeGraph


def load_graph(config: GraphConfig) -> KnowledgeGraph:
    """Read the graph a configuration names, whole: reduction is another step (`reduce_graph`).

    Raises InputError and its children, each with file, line and cure.
    """
    policy = Policy(config.unknown_nodes, config.unnamed_nodes, config.duplicate_nodes)
    nodes, edges, path = (
        None if name is None else Path(name) for name in (config.nodes, config.edges, config.path)
    )
    # Only the reader that is needed is imported: the XML and HPO ones are of no use to most runs.
    if config.source == "csv":
        from kgqa_hpc.kg.sources.csv import read_csv

        assert nodes is not None  # GraphConfig has checked
        assert edges is not None
        return read_csv(nodes, edges, policy)
    if config.source == "triples":
        from kgqa_hpc.kg.sources.triples import read_triples

        assert path is not None
        return read_triples(path, nodes, policy)
    if config.source == "graphml":
        from kgqa_hpc.kg.sources.graphml import read_graphml

        assert path is not None
        return read_graphml(path, policy)
    from kgqa_hpc.kg.sources.hpo import read_hpo

    return read_hpo()
