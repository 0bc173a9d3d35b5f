"""Kernels that count: triangles, link graphs, 4- and 5-cycles, and the walk over all occurrences."""
