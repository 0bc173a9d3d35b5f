"""DRKG, the Drug Repurposing Knowledge Graph: drkg.tsv, one row a triple, no header, no quoting.

An entity is `Type::local id` (the type ends at the first `::` and may hold blanks), a relation
`SOURCE::name::Head:Tail`, both kept as written. The file names nobody: hydrate the graph, or let local ids be
the names. Ioannidis et al., 2020, github.com/gnn4dr/DRKG.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.kg.sources.triples import add_triples
from kgqa_hpc.kg.tables import constant


class DrkgSettings(SourceSettings):
    """One file of triples."""

    path: str = Field(description="drkg.tsv.")
    name_by_id: bool = Field(False, description="Use local ids as names of nodes without a name.")
    paths = ("path",)


class Drkg:
    """The Drug Repurposing Knowledge Graph."""

    name = "drkg"
    specific_relations = True
    licence = (
        "mixed, by source: GNBR, DrugBank, STRING and the bibliographic rows non-commercial; code Apache-2.0"
    )
    description = "The Drug Repurposing Knowledge Graph, drkg.tsv."
    Settings = DrkgSettings

    def read(self, settings: DrkgSettings) -> KnowledgeGraph:
        """The graph of drkg.tsv; nodes are the ends of its rows in their order."""
        assembly = Assembly(Policy.of(settings))
        path = Path(settings.path)
        add_triples(assembly, path, may_have_header=False)
        attributes = {"source": self.name, "files": path.name, "licence": self.licence}

        def declare(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
            kinds = pc.replace_substring_regex(ids, r"(?s)::.*$", "")
            names = pc.replace_substring_regex(ids, r"(?s)^.*?::", "")
            return (names if settings.name_by_id else constant("", len(ids))), kinds

        return assembly.finish(attributes, declare=declare)
