"""Storage on disk: atomic writes, sealed HDF5 files, journals, leases, the run folder
(docs/reference/format.md).
"""
