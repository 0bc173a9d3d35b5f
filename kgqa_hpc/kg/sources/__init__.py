"""Graph sources: one file for each format or project, found by name.

A source is one class with

    name, licence, description     texts; `licence` is that of the data, "" where the user's files decide
    Settings                       its keys of `graph:` in a configuration, a `SourceSettings`
    read(settings) -> KnowledgeGraph
    specific_relations             optional: True where edge types are worth showing in prompts by default

`settings` holds the source's own keys and the common ones (kg/settings.py). A package of the user's own adds
a source by an entry point in the group `kgqa_hpc.sources`.
"""

from kgqa_hpc.registry import Registry

SOURCES = Registry(
    "sources",
    "graph source",
    {
        "hpo": "kgqa_hpc.kg.sources.hpo:Hpo",
        "csv": "kgqa_hpc.kg.sources.csv:Csv",
        "graphml": "kgqa_hpc.kg.sources.graphml:GraphMl",
        "triples": "kgqa_hpc.kg.sources.csv:Triples",
        "obo": "kgqa_hpc.kg.sources.obo:Obo",
    },
)
