"""Biomedical knowledge graphs: readers of published graphs and exchange formats, and hydration of missing names."""

SECTION = "Biomedical graphs"
ENTRIES = {
    "sources": {
        "oregano": "published:Oregano",
        "primekg": "published:PrimeKg",
        "hetionet": "published:Hetionet",
        "kgx": "exchange:Kgx",
        "kgw": "exchange:Kgw",
        "rdf": "rdf:Rdf",
        "neo4j": "neo4j:Neo4j",
        "nano-graphrag": "exchange:NanoGraphRag",
        "drkg": "published:Drkg",
    },
    "metapaths": {
        "oregano": "published:OREGANO",
        "primekg": "published:PRIMEKG",
        "hetionet": "published:HETIONET",
    },
    "hydrators": {"recipe": "hydrate:hydrated"},
    "commands": {"hydrate": "cli:hydrate"},
}
