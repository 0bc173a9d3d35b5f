"""Small graphs, in memory and as files."""

from tests.kg.conftest import edges_of, load, make_graph, nodes_of, write

__all__ = ["edges_of", "load", "make_graph", "nodes_of", "write"]
