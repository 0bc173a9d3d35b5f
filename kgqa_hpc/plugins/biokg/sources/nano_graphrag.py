"""GraphML of nano-graphrag and LightRAG: graphs that a language model read out of texts.

A node's id is its name, often with literal double quotes (or half of them) around it; they are taken off
names and types, ids stay as written. Edges have no type but a sentence; LightRAG's `keywords` stand for it.
The descriptions, chunks and files stay as properties.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from pydantic import Field

from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.kg.sources.graphml import Document

_QUOTES = '"` \t\r\n'  # an apostrophe belongs to the name: 5'-3'


class NanoGraphRagSettings(SourceSettings):
    """Settings: one document, and the type of edges without a type."""

    path: str = Field(description="graph_chunk_entity_relation.graphml.")
    edge_type: str = Field("", description="Type of edges without a type.")
    paths = ("path",)


class NanoGraphRag:
    """Graphs of nano-graphrag and LightRAG."""

    name = "nano-graphrag"
    licence = ""
    description = "GraphML of nano-graphrag and LightRAG."
    Settings = NanoGraphRagSettings

    def read(self, settings: NanoGraphRagSettings) -> KnowledgeGraph:
        """The graph of the document, in its order; names are its ids without quotes."""
        path = Path(settings.path)
        assembly = Assembly(Policy.of(settings))
        document = Document(path, assembly, names=(), node_types=("entity_type",), edge_types=("keywords",))
        document.read()
        graph = assembly.finish({"source": self.name, "files": path.name}, defaults=("UNKNOWN", ""))
        kinds, codes = _merged([kind.strip(_QUOTES) for kind in graph.node_types])
        edge_types, edge_codes = _merged(
            [kind.strip(_QUOTES) or settings.edge_type for kind in graph.edge_types]
        )
        return dataclasses.replace(
            graph,
            names=np.array([name.strip(_QUOTES) for name in graph.node_ids], dtype=object),
            node_type=codes[graph.node_type],
            node_types=kinds,
            edge_type=edge_codes[graph.edge_type],
            edge_types=edge_types,
        )


def _merged(kinds: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Merge types that became equal: the distinct types, and the new code of each old code."""
    code_of = {kind: code for code, kind in enumerate(dict.fromkeys(kinds))}
    return tuple(code_of), np.array([code_of[kind] for kind in kinds], np.int32)
