"""Plugins that ship with the package: each folder adds entries to the registries and is used by nothing else.

The `__init__.py` of a plugin holds one table, ENTRIES: for each registry, the names of its entries and where they
are ("module:attribute", relative to the plugin). The table is read without importing the entries. SECTION is the
heading of its commands in `kgqa --help`. Deleting the folder of a plugin removes its entries and nothing else.
"""
