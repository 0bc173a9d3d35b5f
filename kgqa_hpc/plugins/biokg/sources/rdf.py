"""RDF: Turtle, N-Triples, N-Quads, TriG or RDF/XML, told by the file's ending, packed or not.

Two readings. `entities`, the default, gives what a person would call the graph:

- triples between two IRIs are edges, literals are not; names by rdfs:label, skos:prefLabel or Biolink's name
  in the wanted language, else without one, else the first by alphabet; types by rdf:type or Biolink's
  category;
- of OWL, a subclass restriction `X subClassOf [onProperty P; someValuesFrom Y]` is the edge X P Y; axioms,
  other blank nodes, properties, the ontology itself and deprecated terms are left out;
- an association (OBAN, Biolink, rdf:Statement) is the edge from its subject to its object, of its predicate.

`plain` takes each triple at its word: every subject and every object that is no literal is a node. RDF is a
set: a triple that stands twice is one edge.

OWL files declare entities as short names of IRIs. A parser expands them without a bound, so that a few hundred
bytes of nested entities become gigabytes ("billion laughs"). Here no entity of RDF/XML may hold another, and entities
and texts are bounded.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, cast

from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Policy
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.rows import Buffer
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.plugins.biokg.sources.rdf_statements import KNOWN, Statements, last_part
from kgqa_hpc.text.limits import XML_ENTITY_BYTES, XML_TEXT_BYTES, Limit
from kgqa_hpc.text.streams import TextStream, refuse_other_encodings

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
        "entities", description="Reading: which terms become nodes and which triples edges."
    )
    language: str = Field("en", description="The language of names.")
    deprecated: Literal["drop", "keep"] = Field(
        "drop", description="Treatment of terms marked owl:deprecated."
    )
    name_by_id: bool = Field(
        False, description="Use the last part of an IRI as the name of a term without one."
    )
    curies: bool = Field(False, description="Ids and types as CURIEs (GO:0008150) where a prefix is known.")
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
        path = Path(settings.path)
        plain, properties = settings.reading == "plain", frozenset(settings.properties)
        statements = Statements(settings.language, plain=plain, properties=properties)
        prefixes: dict[str, str] = {}
        for subject, predicate, value in _triples(path, prefixes):
            statements.add(subject, predicate, value)
        shorten = _shortener(KNOWN | prefixes | settings.prefixes) if settings.curies else str
        assembly = Assembly(Policy.of(settings))
        buffer, counts = Buffer(assembly, path.name), Counter[str]()
        nodes = statements.nodes(keep_deprecated=settings.deprecated == "keep", counts=counts)
        for node, name, kind in nodes:
            if settings.name_by_id and not name:
                name = last_part(node)
            kinds = " ".join(map(shorten, kind.split(" ")))
            buffer.node(1, shorten(node), name, kinds, statements.properties.get(node, {}))
        for source, target, kind in statements.edges(nodes, counts):
            buffer.edge(1, shorten(source), shorten(target), shorten(kind))
        buffer.flush()
        return assembly.finish({"source": self.name, "files": path.name, **counts})


def _triples(path: Path, prefixes: dict[str, str]) -> Iterator[tuple[Any, str, Any]]:
    """Subject, predicate and object of each triple; `prefixes` is filled with those the file declares."""
    import pyoxigraph

    ending = next((suffix for suffix in reversed(path.suffixes) if suffix not in _PACKED), "")
    if (form := _FORMATS.get(ending)) is None:
        endings = " ".join(_FORMATS)
        raise GraphFormatError(
            f"{path.name}: no RDF format ends in {ending!r}", f"name it by one of {endings}"
        )
    with TextStream(path) as file, _BoundedXml(file, path.name) if form == "RDF_XML" else file as stream:
        parser = pyoxigraph.parse(cast(IO[bytes], stream), getattr(pyoxigraph.RdfFormat, form))
        try:
            for quad in parser:
                yield quad.subject, quad.predicate.value, quad.object
            prefixes.update(getattr(parser, "prefixes", {}))
        except MemoryError:
            raise GraphFormatError(
                f"{path.name}: a literal or name of more than 16 MiB", "shorten it"
            ) from None
        except SyntaxError as problem:
            refuse_other_encodings(path)
            line = f" line {problem.lineno:,}" if problem.lineno else ""
            raise GraphFormatError(
                f"{path.name}{line}: {problem.msg}", "export or download it again"
            ) from None


def _shortener(prefixes: dict[str, str]) -> Any:
    """A function from an IRI to its CURIE, or to itself where no prefix fits."""
    import curies

    converter = curies.Converter([])
    for prefix, base in prefixes.items():
        if prefix and base:
            converter.add_prefix(prefix, base, merge=True)

    def shorten(iri: str) -> str:
        local_part = iri.removeprefix("http://purl.obolibrary.org/obo/")
        space, underscore, number = local_part.partition("_")
        if local_part != iri and underscore and space.isalpha() and number:
            return f"{space}:{number}"  # the rule of all OBO ontologies
        return converter.compress(iri) or iri

    return shorten


class _BoundedXml(io.RawIOBase):
    """The stream's bytes. Raises GraphFormatError for entities within entities, and long entities and texts."""

    def __init__(self, stream: TextStream, file: str) -> None:
        self._stream, self._file = stream, file
        self._tail, self._run = b"", 0
        self._entity_limit, self._text_limit = XML_ENTITY_BYTES.value, XML_TEXT_BYTES.value

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(size)
        seen, at = self._tail + piece, -1
        self._tail = seen[-len(_ENTITY) :]
        while (at := seen.find(_ENTITY, at + 1)) >= 0:
            declared = seen[at : at + self._entity_limit]
            if _SHORT.match(declared):
                continue
            if len(declared) == self._entity_limit or b">" in declared:
                raise self._refused(
                    f"an entity that holds others, or has more than {self._entity_limit} bytes",
                    XML_ENTITY_BYTES,
                )
            self._tail = declared  # it goes on in the next piece
        end = piece.rfind(b">")
        self._run = self._run + len(piece) if end < 0 else len(piece) - end
        if self._run > self._text_limit:
            raise self._refused(f"a text or tag of more than {self._text_limit:,} bytes", XML_TEXT_BYTES)
        return piece

    def _refused(self, reason: str, limit: Limit) -> GraphFormatError:
        return GraphFormatError(
            f"{self._file}: {reason}",
            f"expand or shorten it with a tool you trust; {limit.variable} sets the limit",
        )
