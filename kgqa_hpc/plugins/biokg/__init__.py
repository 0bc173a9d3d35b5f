"""Biomedical knowledge graphs: readers of published graphs and exchange formats, and hydration of missing names."""

SECTION = "Biomedical graphs"
ENTRIES = {
    "sources": {
        "oregano": "sources.published:Oregano",
        "primekg": "sources.published:PrimeKg",
        "hetionet": "sources.published:Hetionet",
        "kgx": "sources.exchange:Kgx",
        "kgw": "sources.exchange:Kgw",
        "rdf": "sources.rdf:Rdf",
        "neo4j": "sources.neo4j:Neo4j",
        "nano-graphrag": "sources.exchange:NanoGraphRag",
        "drkg": "sources.published:Drkg",
    },
    "metapaths": {
        "oregano": "sources.published:OREGANO",
        "primekg": "sources.published:PRIMEKG",
        "hetionet": "sources.published:HETIONET",
    },
    "hydrators": {"recipe": "hydrate:hydrated"},
    "commands": {"hydrate": "cli:hydrate"},
}
