"""RDF reader for Turtle, N-Triples, N-Quads, TriG and RDF/XML; the file's suffix selects the format.

The graph has one of two forms. `entities`, the default, gives entities and their relations:

- triples between two IRIs are edges, literals are not; names by rdfs:label, skos:prefLabel or Biolink's name in the
  requested language (or one of its regions), else without a language, else the first by alphabet; types by rdf:type
  (owl:NamedIndividual only where it is alone) or Biolink's category;
- of OWL, a subclass restriction `X subClassOf [onProperty P; someValuesFrom Y]` is the edge X P Y; axioms,
  other blank nodes, properties, the ontology itself and deprecated terms are left out;
- an association (OBAN, Biolink, rdf:Statement) is the edge from its subject to its object, of its predicate.

`plain` makes every subject, and every object that is not a literal, a node. RDF is a set: a repeated triple is
one edge.

OWL files declare entities as short names of IRIs. A parser expands them without a bound, so that a few hundred
bytes of nested entities become gigabytes ("billion laughs"). Here no entity of RDF/XML may hold another, and entities
and texts are bounded.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, cast

from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Buffer
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.text.streams import XML_ENTITY_BYTES, XML_TEXT_BYTES, Limit, TextStream, refuse_other_encodings

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
OBAN = "http://purl.org/oban/"
BIOLINK = "https://w3id.org/biolink/vocab/"

KNOWN = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "oban": OBAN, "biolink": BIOLINK}

_LABELS = (f"{RDFS}label", "http://www.w3.org/2004/02/skos/core#prefLabel", f"{BIOLINK}name")
_TYPE, _CATEGORY = f"{RDF}type", f"{BIOLINK}category"
_INDIVIDUAL = f"{OWL}NamedIndividual"  # a type that OWL editors add to every individual
_FOREIGN = 3  # rank of texts in other languages
# Role of each predicate of an association in its edge: 0 source, 1 type, 2 target.
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
# Predicates about the vocabulary, not about entities.
_NO_EDGES = tuple(
    f"{OWL}{name}" for name in ("annotated", "onProperty", "someValuesFrom", "versionIRI", "inverseOf")
)
_FORMATS = {
    ".nt": "N_TRIPLES", ".nq": "N_QUADS", ".ttl": "TURTLE", ".trig": "TRIG",
    ".rdf": "RDF_XML", ".owl": "RDF_XML", ".xml": "RDF_XML",
}  # fmt: skip
_PACKED = (".gz", ".bz2", ".xz", ".zip")
_ENTITY = b"<!ENTITY"
_SHORT = re.compile(rb'''<!ENTITY\s+[^\s"'%&]+\s+"[^"&%]*"''')


class RdfSettings(SourceSettings):
    """Settings: one file, its format, and the form of its IRIs."""

    path: str = Field(description="The file: .nt, .ttl, .nq, .trig, .rdf, .owl, .xml, also packed.")
    reading: Literal["entities", "plain"] = Field(
        "entities", description="Named entities with their relations, or every term and triple."
    )
    language: str = Field("en", description="The language of names.")
    deprecated: Literal["drop", "keep"] = Field("drop", description="Treatment of owl:deprecated terms.")
    name_by_id: bool = Field(False, description="Name unnamed terms by the last part of their IRI.")
    curies: bool = Field(False, description="Write ids and types as CURIEs (GO:0008150).")
    prefixes: dict[str, str] = Field(default_factory=dict, description="Further prefixes for CURIEs.")
    properties: list[str] = Field(
        default_factory=list, description="Predicates whose literals to keep: IRIs, or their last parts."
    )
    paths = ("path",)


class Rdf:
    """RDF graphs and OWL ontologies."""

    name = "rdf"
    licence = ""
    description = "RDF and OWL as Turtle, N-Triples, N-Quads, TriG or RDF/XML."
    Settings = RdfSettings

    def read(self, settings: RdfSettings) -> KnowledgeGraph:
        """The graph of the file; nodes and edges in the order in which it names them."""
        path, prefixes = Path(settings.path), dict[str, str]()
        statements = Statements(settings)
        for subject, predicate, value in _triples(path, prefixes):
            statements.add(subject, predicate, value)
        shorten = _shortener(KNOWN | prefixes | settings.prefixes) if settings.curies else str
        assembly = Assembly(settings)
        buffer = Buffer(assembly, path.name)
        nodes = statements.nodes()
        for node, name, kinds in nodes:
            if settings.name_by_id and not name:
                name = last_part(node)
            kind = " ".join(map(shorten, kinds))
            buffer.node(1, shorten(node), name, kind, statements.properties.get(node))
        for source, target, kind in statements.edges({node for node, _, _ in nodes}):
            buffer.edge(1, shorten(source), shorten(target), shorten(kind))
        buffer.flush()
        return assembly.finish({"source": self.name, "files": path.name, **statements.counts})


def _triples(path: Path, prefixes: dict[str, str]) -> Iterator[tuple[Any, str, Any]]:
    """Subject, predicate and object of each triple; `prefixes` is filled with those the file declares."""
    import pyoxigraph

    ending = next((suffix for suffix in reversed(path.suffixes) if suffix not in _PACKED), "")
    if (form := _FORMATS.get(ending)) is None:
        endings = " ".join(_FORMATS)
        problem = f"{path.name}: no RDF format ends in {ending!r}"
        raise GraphFormatError(problem, f"end its name in one of {endings}")
    with TextStream(path) as file, _BoundedXml(file, path.name) if form == "RDF_XML" else file as stream:
        parser = pyoxigraph.parse(cast(IO[bytes], stream), getattr(pyoxigraph.RdfFormat, form))
        try:
            for quad in parser:
                yield quad.subject, quad.predicate.value, quad.object
            prefixes.update(getattr(parser, "prefixes", {}))
        except MemoryError:
            problem = f"{path.name}: a literal or name of more than 16 MiB"
            raise GraphFormatError(problem, "shorten it") from None
        except SyntaxError as problem:
            refuse_other_encodings(path)
            line = f" line {problem.lineno:,}" if problem.lineno else ""
            text = f"{path.name}{line}: {problem.msg}"
            cure = f"export or download it again; if it is no {form}, give it its format's ending"
            raise GraphFormatError(text, cure) from None


def _shortener(prefixes: dict[str, str]) -> Any:
    """A function that shortens an IRI to its CURIE, and returns it unchanged if no prefix matches."""
    import curies

    converter = curies.Converter([])
    for prefix, base in prefixes.items():
        if prefix and base:
            converter.add_prefix(prefix, base, merge=True)

    def shorten(iri: str) -> str:
        local_part = iri.removeprefix("http://purl.obolibrary.org/obo/")
        space, underscore, number = local_part.partition("_")
        if local_part != iri and underscore and space.isalpha() and number:
            return f"{space}:{number}"  # CURIE of a term of an OBO ontology
        return converter.compress(iri) or iri

    return shorten


class _BoundedXml(io.RawIOBase):
    """An RDF/XML stream, checked while read. Raises GraphFormatError for nested or long entities and long texts."""

    def __init__(self, stream: TextStream, file: str) -> None:
        self._stream, self._file = stream, file
        self._tail, self._run = b"", 0
        self._entity_limit, self._text_limit = XML_ENTITY_BYTES.value, XML_TEXT_BYTES.value

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(size)
        seen, at = self._tail + piece, -1
        self._tail = seen[-len(_ENTITY) :]
        while (at := seen.find(_ENTITY, at + 1)) >= 0:
            declared = seen[at : at + self._entity_limit]
            if _SHORT.match(declared):
                continue
            if len(declared) == self._entity_limit or b">" in declared:
                problem = f"an entity that holds others, or has more than {self._entity_limit} bytes"
                raise self._refused(problem, XML_ENTITY_BYTES)
            self._tail = declared  # the declaration continues in the next piece
        end = piece.rfind(b">")
        self._run = self._run + len(piece) if end < 0 else len(piece) - end
        if self._run > self._text_limit:
            raise self._refused(f"a text or tag of more than {self._text_limit:,} bytes", XML_TEXT_BYTES)
        return piece

    def _refused(self, reason: str, limit: Limit) -> GraphFormatError:
        cure = f"expand or shorten it with a tool you trust; {limit.variable} sets the limit"
        return GraphFormatError(f"{self._file}: {reason}", cure)


class Statements:
    """The statements that were added; edges are kept until all statements show which terms are entities.

    The settings' `properties` name the predicates whose literals are kept, by IRI or by its last part; of texts in
    several languages, those in the requested language and those without a language. RDF is a set: a value counts once.
    """

    def __init__(self, settings: RdfSettings) -> None:
        self._settings, self._plain = settings, settings.reading == "plain"
        self._wanted = frozenset(settings.properties)
        self.counts = Counter[str]()  # dropped nodes and edges by reason
        self.properties: dict[str, dict[str, list[str]]] = {}  # by node and requested name
        self._met: dict[str, None] = {}  # nodes in their order
        self._labels: dict[str, tuple[int, str]] = {}  # (rank, label) of each term: the best label so far
        self._types: dict[str, set[str]] = {}
        self._categories: dict[str, list[str]] = {}
        self._edges: dict[tuple[str, str, str], None] = {}  # source, target, type; each once
        self._repeated = 0
        self._roles: dict[str, list[str]] = {}  # association -> source, type, target
        self._restrictions: dict[str, list[str]] = {}  # blank node -> property, class
        self._deprecated: set[str] = set()
        self._blank: dict[str, str] = {}

    def add(self, subject: Any, predicate: str, value: Any) -> None:
        """Add one triple of pyoxigraph."""
        node = self._id(subject)
        if not hasattr(value, "datatype"):
            self._resource(node, predicate, self._id(value))
            return
        self._met.setdefault(node)
        if predicate in _LABELS and (predicate == _LABELS[0] or not self._plain):
            label = self._rank(value.language), value.value
            self._labels[node] = min(label, self._labels.get(node, label))
        elif predicate == f"{OWL}deprecated" and value.value in ("true", "1"):
            self._deprecated.add(node)
        if self._wanted and (names := {predicate, last_part(predicate)} & self._wanted):
            values = self.properties.setdefault(node, {}).setdefault(min(names), [])
            if self._rank(value.language) < _FOREIGN and value.value not in values:
                values.append(value.value)

    def _rank(self, language: str | None) -> int:
        """The rank of a text: 0 in the requested language, 1 in a region's (en-GB for en), 2 without language, 3 in
        others.
        """
        if language is None:
            return 2
        requested, tag = self._settings.language.lower(), language.lower()
        return 0 if tag == requested else 1 if tag.startswith(f"{requested}-") else _FOREIGN

    def _id(self, term: Any) -> str:
        if type(term).__name__ != "BlankNode":
            return str(getattr(term, "value", term))
        # Parsers choose random names for blank nodes; numbers in order of appearance are reproducible.
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

    def nodes(self) -> list[tuple[str, str, list[str]]]:
        """(id, name or "", types) of each node; excluded terms are counted."""
        for source, kind, target in self._roles.values():
            if source and kind and target:
                self._met.setdefault(source)
                self._met.setdefault(target)
        result = []
        for node in self._met:
            if not self._plain and (reason := self._left_out(node)):
                self.counts[f"dropped_{reason}"] += 1
                continue
            types = self._types.get(node, {"?"})
            if not self._plain:
                types = types - {_INDIVIDUAL} or types
            kinds = self._categories.get(node) or sorted(types)
            result.append((node, self._labels.get(node, (0, ""))[1], kinds))
        return result

    def _left_out(self, node: str) -> str:
        """The reason to leave out a node, "" for an entity."""
        if node.startswith("_:"):
            return "blank_nodes"
        if node in self._roles:
            return "associations"
        if node in self._deprecated and self._settings.deprecated == "drop":
            return "deprecated_terms"
        return "vocabulary_terms" if self._types.get(node, set()) & _NO_ENTITIES else ""

    def edges(self, nodes: set[str]) -> Iterator[tuple[str, str, str]]:
        """(source, target, type) of each edge between two of the `nodes`."""
        if self._repeated:
            self.counts["dropped_repeated_triples"] += self._repeated
        for source, target, kind in self._edges:
            restriction = None if self._plain else self._restrictions.get(target)
            if restriction and all(restriction):
                kind, target = restriction
            if source in nodes and target in nodes and (self._plain or not kind.startswith(_NO_EDGES)):
                yield source, target, kind
            else:
                self.counts["dropped_edges_of_no_entities"] += 1
        for source, kind, target in self._roles.values():
            if kind and source in nodes and target in nodes:
                yield source, target, kind


def last_part(iri: str) -> str:
    """The local name of an IRI: the text after its last / or #."""
    return iri.rstrip("/#").replace("#", "/").rpartition("/")[2]
