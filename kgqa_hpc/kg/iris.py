"""IRIs and literals of a graph in RDF: what `kgqa kg export` writes and the queries of records name."""

from typing import Any
from urllib.parse import quote

RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
RELATIONS = "urn:kgqa:relation:"  # prefix of the IRI of every relation
_XSD = "http://www.w3.org/2001/XMLSchema#"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def node_iri(node: str) -> str:
    """`<urn:kgqa:node:…>` of a node's id, percent-encoded."""
    return _iri("node", node)


def relation_iri(kind: str) -> str:
    return _iri("relation", kind)


def type_iri(kind: str) -> str:
    return _iri("type", kind)


def property_iri(name: str) -> str:
    return _iri("property", name)


def literal(value: Any) -> str:
    """A text, integer, decimal or truth value as an RDF literal."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    kind = "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "double"
    return f'"{value_text(value)}"^^<{_XSD}{kind}>'


def value_text(value: Any) -> str:
    """A property's value as the text of its literal; a decimal without fraction has no point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _iri(space: str, name: str) -> str:
    return f"<urn:kgqa:{space}:{quote(name, safe='')}>"
