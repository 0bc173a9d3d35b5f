"""Graph sources: readers of biomedical projects' graphs and of exchange formats."""
