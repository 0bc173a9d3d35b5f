"""A graph of films."""

import pytest

from kgqa_hpc.kg.graph import KnowledgeGraph
from tests.families.graphs import graph_of


@pytest.fixture
def films() -> KnowledgeGraph:
    """Who directed what, who played in it; Vagabond has one actress, Cleo from 5 to 7 two."""
    names = [
        "Agnes Varda",
        "Vagabond",
        "Cleo from 5 to 7",
        "Sandrine Bonnaire",
        "Corinne Marchand",
        "Dorothee Blanck",
    ]
    kinds = ["director", "film", "film", "actor", "actor", "actor"]
    edges = [
        (0, "directed", 1),
        (0, "directed", 2),
        (3, "played in", 1),
        (4, "played in", 2),
        (5, "played in", 2),
    ]
    return graph_of(names, kinds, edges)
