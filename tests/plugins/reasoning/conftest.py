"""Small graphs, items and answers."""

from tests.families.conftest import films, make_graph

__all__ = ["films", "make_graph"]
