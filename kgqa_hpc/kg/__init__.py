"""The knowledge graph: readers, sources, reduction, and its HDF5 form kg.h5."""
