"""SPARQL 1.1 and Cypher queries that return a question's answers on the exported graph (`kgqa kg export`).

A query states a start node, a chain of relations with directions and types, and that no node repeats. It requires names
only if the graph has nodes without a name, which are no answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.columns import Column
from kgqa_hpc.kg.export import LABEL, iri
from kgqa_hpc.kg.relations import Node, Relation

QUERY = Column("query", "string", "SPARQL 1.1 that gives the answers on the graph of `kgqa kg export`.")
CYPHER = Column("cypher", "string", "The same in Cypher: nodes with id and name, labelled by their type.")
Step = Mapping[str, Any]  # relation, out, and the type of the node that the step leads to


def select(patterns: Iterable[str]) -> str:
    """A SPARQL query that selects `?answer`."""
    return "SELECT DISTINCT ?answer WHERE {\n" + "".join(f"  {line}\n" for line in patterns) + "}"


def chain_queries(anchor: Anchor, chain: Sequence[Step]) -> dict[str, str | None]:
    """The columns QUERY and CYPHER of an anchor with its first node given; null for anchors of older versions."""
    if "unnamed" not in anchor.data:
        return {QUERY.name: None, CYPHER.name: None}
    subject, unnamed = anchor.nodes[0], anchor.data["unnamed"]
    return {
        QUERY.name: chain_sparql(subject, chain, unnamed),
        CYPHER.name: chain_cypher(subject, chain, unnamed),
    }


def chain_sparql(subject: Node, chain: Sequence[Step], unnamed: bool) -> str:
    """The ends of simple paths from a node along a chain of relations and types."""
    terms = [iri("node", subject.id), *(f"?node{number}" for number in range(1, len(chain))), "?answer"]
    lines = []
    for term, there, step in zip(terms, terms[1:], chain, strict=False):
        source, target = (term, there) if step["out"] else (there, term)
        lines.append(f"{source} {iri('relation', step['relation'])} {target} .")
        lines.append(f"{there} a {iri('type', step['type'])} .")
        if unnamed:
            lines.append(f"{there} {LABEL} [] .")
    return select([*lines, *(f"FILTER({terms[a]} != {terms[b]})" for a, b in _alike(subject, chain))])


def chain_cypher(subject: Node, chain: Sequence[Step], unnamed: bool) -> str:
    """A Cypher query for the ends of simple paths from a node along relations and types."""
    names = ["given", *(f"node{number}" for number in range(1, len(chain))), "answer"]
    path = f"(given:{_quoted(subject.type)} {{id: {_text(subject.id)}}})"
    for name, step in zip(names[1:], chain, strict=True):
        relation = f"[:{_quoted(step['relation'])}]"
        path += f"-{relation}->" if step["out"] else f"<-{relation}-"
        path += f"({name}:{_quoted(step['type'])})"
    conditions = [f"{names[a]} <> {names[b]}" for a, b in _alike(subject, chain)]
    conditions += [f"{name}.name IS NOT NULL" for name in names[1:] if unnamed]
    filter_clause = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
    return f"MATCH {path}{filter_clause}\nRETURN DISTINCT answer.id AS answer"


def property_queries(subject: Node, name: str) -> dict[str, str]:
    """The columns QUERY and CYPHER for the value of a property of a node."""
    match = f"MATCH (given:{_quoted(subject.type)} {{id: {_text(subject.id)}}})"
    return {
        QUERY.name: select([f"{iri('node', subject.id)} {iri('property', name)} ?answer ."]),
        CYPHER.name: f"{match}\nRETURN DISTINCT given.{_quoted(name)} AS answer",
    }


def premises_sparql(nodes: Sequence[Node], relations: Sequence[Relation], asked: int) -> str:
    """A query for the node in question, which requires every statement to be in the graph."""
    terms = [iri("node", node.id) for node in nodes]
    edges = [f"{terms[r.source]} {iri('relation', r.type)} {terms[r.target]} ." for r in relations]
    return select([f"VALUES ?answer {{ {terms[asked]} }}", *edges])


def _alike(subject: Node, chain: Sequence[Step]) -> list[tuple[int, int]]:
    """Pairs of positions on a path that need an explicit condition to be different nodes."""
    types = [subject.type, *(step["type"] for step in chain)]
    return [(a, b) for a, b in combinations(range(len(types)), 2) if types[a] == types[b]]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
