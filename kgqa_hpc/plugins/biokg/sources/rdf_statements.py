"""Nodes with names and types, and edges, from RDF triples, by the two readings of `rdf`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
OBAN = "http://purl.org/oban/"
BIOLINK = "https://w3id.org/biolink/vocab/"

KNOWN = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "oban": OBAN, "biolink": BIOLINK}

_LABELS = (f"{RDFS}label", "http://www.w3.org/2004/02/skos/core#prefLabel", f"{BIOLINK}name")
_TYPE, _CATEGORY = f"{RDF}type", f"{BIOLINK}category"
# What an association says of its edge; 0 source, 1 type, 2 target.
_ROLES = {
    f"{OBAN}association_has_subject": 0, f"{OBAN}association_has_predicate": 1,
    f"{OBAN}association_has_object": 2,
    f"{RDF}subject": 0, f"{RDF}predicate": 1, f"{RDF}object": 2,
    f"{BIOLINK}subject": 0, f"{BIOLINK}predicate": 1, f"{BIOLINK}object": 2,
    f"{BIOLINK}edge_label": 1,
}  # fmt: skip
_NO_ENTITIES = {
    f"{OWL}{name}"
    for name in ("ObjectProperty", "AnnotationProperty", "DatatypeProperty", "TransitiveProperty", "Ontology",
                 "FunctionalProperty", "SymmetricProperty", "Axiom", "Restriction")
} | {f"{RDF}Property"}  # fmt: skip
# These say something about the vocabulary, not about entities.
_NO_EDGES = tuple(
    f"{OWL}{name}" for name in ("annotated", "onProperty", "someValuesFrom", "versionIRI", "inverseOf")
)


class Statements:
    """The statements so far; edges are kept until it is known which terms are entities.

    `properties` names the predicates whose literals are kept, by IRI or by its last part; of texts in several
    languages those in the wanted one and without one. RDF is a set: a value counts once.
    """

    def __init__(self, language: str, *, plain: bool, properties: frozenset[str] = frozenset()) -> None:
        self._language, self._plain = language, plain
        self._wanted = properties
        self.properties: dict[str, dict[str, list[str]]] = {}  # of each node, by the name that was asked for
        self._met: dict[str, None] = {}  # nodes in their order
        self._labels: dict[str, tuple[int, str]] = {}  # the best so far, by rank
        self._types: dict[str, set[str]] = {}
        self._categories: dict[str, list[str]] = {}
        self._edges: dict[tuple[str, str, str], None] = {}  # source, target, type; each once
        self._repeated = 0
        self._roles: dict[str, list[str]] = {}  # association -> source, type, target
        self._restrictions: dict[str, list[str]] = {}  # blank node -> property, class
        self._deprecated: set[str] = set()
        self._blank: dict[str, str] = {}

    def add(self, subject: Any, predicate: str, value: Any) -> None:
        """One triple, as pyoxigraph gives it."""
        node = self._id(subject)
        if not hasattr(value, "datatype"):
            self._resource(node, predicate, self._id(value))
            return
        self._met.setdefault(node)
        if predicate in _LABELS and (predicate == _LABELS[0] or not self._plain):
            label = {self._language: 0, None: 1}.get(value.language, 2), value.value
            self._labels[node] = min(label, self._labels.get(node, label))
        elif predicate == f"{OWL}deprecated" and value.value in ("true", "1"):
            self._deprecated.add(node)
        if self._wanted and (names := {predicate, last_part(predicate)} & self._wanted):
            values = self.properties.setdefault(node, {}).setdefault(min(names), [])
            if value.language in (self._language, None) and value.value not in values:
                values.append(value.value)

    def _id(self, term: Any) -> str:
        if type(term).__name__ != "BlankNode":
            return str(getattr(term, "value", term))
        # Parsers make up names of blank nodes; numbers by their order are the same each time.
        return self._blank.setdefault(term.value, f"_:b{len(self._blank)}")

    def _resource(self, node: str, predicate: str, target: str) -> None:
        self._met.setdefault(node)
        if predicate == _TYPE:
            self._types.setdefault(node, set()).add(target)
            return
        if not self._plain:
            if predicate == _CATEGORY:
                self._categories.setdefault(node, []).append(target)
                return
            if predicate in _ROLES:
                self._roles.setdefault(node, ["", "", ""])[_ROLES[predicate]] = target
                return
            if predicate in (f"{OWL}onProperty", f"{OWL}someValuesFrom"):
                part = int(predicate.endswith("someValuesFrom"))
                self._restrictions.setdefault(node, ["", ""])[part] = target
                return
        self._met.setdefault(target)
        self._repeated += (node, target, predicate) in self._edges
        self._edges.setdefault((node, target, predicate))

    def nodes(self, *, keep_deprecated: bool, counts: Counter[str]) -> list[tuple[str, str, str]]:
        """Id, name ("" without) and type of each node; what is left out is counted."""
        for source, kind, target in self._roles.values():
            if source and kind and target:
                self._met.setdefault(source)
                self._met.setdefault(target)
        result = []
        for node in self._met:
            if not self._plain and (reason := self._left_out(node, keep_deprecated=keep_deprecated)):
                counts[f"dropped_{reason}"] += 1
                continue
            kinds = self._categories.get(node) or sorted(self._types.get(node, ["?"]))
            result.append((node, self._labels.get(node, (0, ""))[1], " ".join(kinds)))
        return result

    def edges(
        self, nodes: Collection[tuple[str, str, str]], counts: Counter[str]
    ) -> Iterator[tuple[str, str, str]]:
        """Source, target and type of each edge between nodes that are kept."""
        node_ids = {node for node, _, _ in nodes}
        if self._repeated:
            counts["dropped_repeated_triples"] += self._repeated
        for source, target, kind in self._edges:
            restriction = None if self._plain else self._restrictions.get(target)
            if restriction and all(restriction):
                kind, target = restriction
            if source in node_ids and target in node_ids and (self._plain or not kind.startswith(_NO_EDGES)):
                yield source, target, kind
            else:
                counts["dropped_edges_of_no_entities"] += 1
        for source, kind, target in self._roles.values():
            if kind and source in node_ids and target in node_ids:
                yield source, target, kind

    def _left_out(self, node: str, *, keep_deprecated: bool) -> str:
        if node.startswith("_:"):
            return "blank_nodes"
        if node in self._roles:
            return "associations"
        if node in self._deprecated and not keep_deprecated:
            return "deprecated_terms"
        if self._types.get(node, set()) & _NO_ENTITIES:
            return "vocabulary_terms"
        return ""


def last_part(iri: str) -> str:
    """The local name of an IRI: the text after its last / or #."""
    return iri.rstrip("/#").replace("#", "/").rpartition("/")[2]
