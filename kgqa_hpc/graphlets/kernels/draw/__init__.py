"""Kernels that draw copies of structures, or look up occurrences by rank."""
