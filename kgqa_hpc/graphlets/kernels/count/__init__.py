"""Kernels that count: triangles, link graphs, codegrees, 5-cycles, and the walk over all occurrences."""
