"""Kernels: the compiled loops that list triangles, count, walk through occurrences, and draw copies."""
