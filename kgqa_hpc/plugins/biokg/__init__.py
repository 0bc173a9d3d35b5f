"""Biomedical knowledge graphs: readers of published graphs and exchange formats, and hydration of missing names."""

SECTION = "Biomedical graphs"
ENTRIES = {
    "sources": {
        "oregano": "sources.oregano:Oregano",
        "primekg": "sources.primekg:PrimeKg",
        "hetionet": "sources.hetionet:Hetionet",
        "kgx": "sources.kgx:Kgx",
        "kgw": "sources.kgw:Kgw",
        "rdf": "sources.rdf:Rdf",
        "neo4j": "sources.neo4j:Neo4j",
        "nano-graphrag": "sources.nano_graphrag:NanoGraphRag",
        "drkg": "sources.drkg:Drkg",
    },
    "hydrators": {"recipe": "hydrate.hydrate:hydrated"},
    "commands": {"hydrate": "cli:hydrate"},
}
