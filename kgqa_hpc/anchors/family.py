"""Parts that all question families share: ids and random order by content, difficulty, rules for the wording,
distractors, and queries in SPARQL 1.1 and Cypher for a question's answers on the exported graph (`kgqa kg export`).

A query states a start node, a chain of relations with directions and types, and that no node repeats. It requires names
only if the graph has nodes without a name, which are no answers.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge, nsmallest
from itertools import chain, combinations, islice, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kgqa_hpc.anchors.anchor import Anchor, Drawn, short_digest
from kgqa_hpc.anchors.names import named, plain
from kgqa_hpc.columns import Column
from kgqa_hpc.kg.relations import LABEL, Node, Relation, iri

if TYPE_CHECKING:
    from kgqa_hpc.kg.graph import KnowledgeGraph

T = TypeVar("T")
DIFFICULTY = (
    Column("difficulty", "string", "easy, medium or hard."),
    Column("inference_steps", "int64", "Facts that must be put together to reach the answer."),
    Column("graph_nodes_used", "int64", "Nodes of the graph that the question rests on."),
    Column("answer_degree", "int64", "Neighbours of the answer in the graph; 0 where it is no node."),
)
QUERY = Column("query", "string", "SPARQL 1.1 that gives the answers on the graph of `kgqa kg export`.")
CYPHER = Column("cypher", "string", "The same in Cypher: nodes with id and name, labelled by their type.")
# A step of a chain; keys: relation, out (whether its edge points away from the start), type (of its end).
Step = Mapping[str, Any]
NODES, DEGREE = 4, 20  # more nodes or neighbours than these raise the difficulty by one level
NEAR = 4  # candidates per wrong option: the nodes nearest to the answer in degree
# Words that refer to a source text or figure, which the readers of a question do not see.
SOURCES = re.compile(
    r"\b(?:(?:the|this) (?:above |given |provided )?"
    r"(?:text|passage|figure|table|context|graph|excerpt|document|paper|article|abstract|study)"
    r"(?! of)"
    r"|(?:as )?(?:shown|described|mentioned|listed) above|above information|fig(?:ure|s)?\.? [0-9]+)\b"
)


def shared_names(names: Iterable[str]) -> frozenset[str]:
    """Names of more than one node, which make a question ambiguous."""
    return frozenset(name for name, times in Counter(names).items() if times > 1)


def askable(subject: str, answers: Iterable[str], shared: Collection[str]) -> bool:
    """Whether a question may name its subject: only one node has this name, and no answer has it."""
    return subject not in shared and plain(subject) not in map(plain, answers)


def content_id(kind: str, *content: Any) -> str:
    """An id that depends on the kind and the content alone."""
    return f"{kind}-{short_digest(json.dumps([kind, *content], ensure_ascii=False)).hex()}"


def place(seed: int, text: str) -> bytes:
    """Sort key of an item in the random order of `seed`."""
    return short_digest(f"{seed}/{text}")


def difficulty(steps: int, nodes: int, degree: int) -> dict[str, Any]:
    """The columns of DIFFICULTY: the level is the number of inference steps, plus 1 for many nodes, plus 1 for an
    answer of high degree; level 1 is easy, 2 and 3 are medium, 4 and more are hard.
    """
    points = steps + (nodes > NODES) + (degree > DEGREE)
    level = "easy" if points <= 1 else "medium" if points <= 3 else "hard"
    return {"difficulty": level, "inference_steps": steps, "graph_nodes_used": nodes, "answer_degree": degree}


def answer_fields(answers: Sequence[str]) -> dict[str, Any]:
    """The initial fields of an item with known answers."""
    return {"answer": "; ".join(answers), "answers": list(answers)}


def in_turn(shares: list[Iterator[T]], number: int) -> Iterator[T]:
    """Take an item from each group in turn, up to `number` items."""
    rounds = chain.from_iterable(zip_longest(*shares))
    return islice((item for item in rounds if item is not None), number)


def own_words(text: str) -> str | None:
    """An objection if the text mentions its source; else None."""
    return "speaks of its source" if SOURCES.search(plain(text)) else None


def wording(
    question: str, subjects: Sequence[str], hidden: Sequence[str], between: Sequence[str] = ()
) -> str | None:
    """An objection if a question does not name all of `subjects`, or names one of the answers (`hidden`) or of the
    nodes `between`; else None.
    """
    present = set(named(question, [*subjects, *hidden, *between]))
    number, end = len(subjects), len(subjects) + len(hidden)
    if not question.rstrip().endswith("?"):
        return "is no question"
    if not present >= set(range(number)):
        return "does not name what is given"
    if not present.isdisjoint(range(number, end)):
        return "gives the answer away"
    if max(present, default=-1) >= end:
        return "names what lies between"
    return own_words(question)


def gathered(anchors: Iterable[Any], settings: Any, seed: int) -> Drawn:
    """The anchors of a kind in seeded order, without repetitions, at most `number`, with counts by group.

    An anchor without an id gets the digest of its content. Raises TypeError for an object that is no Anchor.
    """
    ids, totals, begins = set[str](), Counter[str](), dict[str, bytes]()

    def ranked() -> Iterator[tuple[bytes, Anchor]]:
        for anchor in anchors:
            if not isinstance(anchor, Anchor):
                raise TypeError(f"draw() gave {anchor!r:.80}; yield Anchor(...), or return Drawn(...)")
            if not anchor.id:
                row = anchor.to_dict()
                content = [row[key] for key in ("group", "nodes", "relations", "data")]
                anchor = replace(anchor, id=content_id(anchor.kind, *content))
            if anchor.id not in ids:
                ids.add(anchor.id)
                totals[anchor.group] += 1
                rank = place(seed, anchor.id)
                begins[anchor.group] = min(rank, begins.get(anchor.group, rank))
                yield rank, anchor

    number, rank = getattr(settings, "number", None), itemgetter(0)
    # Millions of questions may fit the settings, so only the chosen ones stay in memory.
    chosen = sorted(ranked(), key=rank) if number is None else nsmallest(number, ranked(), key=rank)
    ordered = {group: totals[group] for group in sorted(totals, key=begins.__getitem__)}
    return Drawn([anchor for _, anchor in chosen], ordered)


class Distractors:
    """Draws wrong options from the graph on which answers are computed.

    They are nodes of the answer's type and of similar degree that are no neighbours of the subject. Neighbours of the
    answer are excluded too, because a more general or more specific term is often correct as well; so are nodes with
    the name of an excluded node, ignoring case and hyphens. `every_edge` holds the same nodes with all edges that count
    as neighbours; default: `graph`.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        shared_names: Collection[str],
        every_edge: KnowledgeGraph | None = None,
    ) -> None:
        self._graph, self._shared = graph, shared_names
        self._every_edge = every_edge or graph
        self._degrees = graph.degrees()
        # All nodes by type, then degree; those of type k are _order[_starts[k]:_starts[k + 1]].
        self._order = np.lexsort((self._degrees, graph.node_type))
        self._starts = np.searchsorted(graph.node_type[self._order], np.arange(len(graph.node_types) + 1))
        self._sorted_degrees = self._degrees[self._order]

    def draw(self, subjects: Sequence[int], answer: int, number: int, chance: random.Random) -> list[int]:
        """`number` nodes that are no answer for any subject; fewer if the graph has too few."""
        ends = (*subjects, answer)
        starts, neighbours = self._every_edge.csr()
        around = (neighbours[starts[node] : starts[node + 1]].tolist() for node in ends)
        excluded = {*ends, *chain.from_iterable(around)}
        used = {plain(str(self._graph.names[node])) for node in excluded}
        # All nodes of the answer's type by difference in degree from the answer; of equal differences the lower degree.
        begin, end = self._starts[self._graph.node_type[answer] :][:2]
        nodes, degree = self._order[begin:end], self._degrees[answer]
        degrees = self._sorted_degrees[begin:end]
        middle = int(np.searchsorted(degrees, degree))
        below = ((degree - degrees[k], 0, k) for k in reversed(range(middle)))
        above = ((degrees[k] - degree, 1, k) for k in range(middle, len(nodes)))
        near: list[int] = []
        for _, _, k in merge(below, above):
            node, name = int(nodes[k]), str(self._graph.names[nodes[k]])
            if node in excluded or name in self._shared or plain(name) in used:
                continue
            used.add(plain(name))
            near.append(node)
            if len(near) == NEAR * number:
                break
        return chance.sample(near, min(number, len(near)))


def select(patterns: Iterable[str]) -> str:
    """A SPARQL query that selects `?answer`."""
    return "SELECT DISTINCT ?answer WHERE {\n" + "".join(f"  {line}\n" for line in patterns) + "}"


def chain_queries(anchor: Anchor, chain: Sequence[Step]) -> dict[str, str | None]:
    """The columns QUERY and CYPHER of an anchor: the ends of simple paths along a chain from its first node.

    Both are null for anchors of older versions.
    """
    if "unnamed" not in anchor.data:
        return {QUERY.name: None, CYPHER.name: None}
    subject, unnamed = anchor.nodes[0], anchor.data["unnamed"]
    names = ["given", *(f"node{number}" for number in range(1, len(chain))), "answer"]
    terms = [iri("node", subject.id), *(f"?{name}" for name in names[1:])]
    patterns, path = [], f"(given:{_quoted(subject.type)} {{id: {_text(subject.id)}}})"
    for number, step in enumerate(chain):
        begin, end = terms[number : number + 2]
        source, target = (begin, end) if step["out"] else (end, begin)
        patterns.append(f"{source} {iri('relation', step['relation'])} {target} .")
        patterns.append(f"{end} a {iri('type', step['type'])} .")
        if unnamed:
            patterns.append(f"{end} {LABEL} [] .")
        relation = f"[:{_quoted(step['relation'])}]"
        path += f"-{relation}->" if step["out"] else f"<-{relation}-"
        path += f"({names[number + 1]}:{_quoted(step['type'])})"
    # Only nodes of one type can be the same node, so only these need a condition.
    types = [subject.type, *(step["type"] for step in chain)]
    alike = [(a, b) for a, b in combinations(range(len(types)), 2) if types[a] == types[b]]
    patterns += [f"FILTER({terms[a]} != {terms[b]})" for a, b in alike]
    conditions = [f"{names[a]} <> {names[b]}" for a, b in alike]
    conditions += [f"{name}.name IS NOT NULL" for name in names[1:] if unnamed]
    clause = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
    cypher = f"MATCH {path}{clause}\nRETURN DISTINCT answer.id AS answer"
    return {QUERY.name: select(patterns), CYPHER.name: cypher}


def property_queries(subject: Node, name: str) -> dict[str, str | None]:
    """The columns QUERY and CYPHER for the value of a property of a node."""
    match = f"MATCH (given:{_quoted(subject.type)} {{id: {_text(subject.id)}}})"
    return {
        QUERY.name: select([f"{iri('node', subject.id)} {iri('property', name)} ?answer ."]),
        CYPHER.name: f"{match}\nRETURN DISTINCT given.{_quoted(name)} AS answer",
    }


def premises_sparql(nodes: Sequence[Node], relations: Sequence[Relation], asked: int) -> str:
    """A SPARQL query that returns the node number `asked` if the graph has all `relations`, else nothing."""
    terms = [iri("node", node.id) for node in nodes]
    edges = [f"{terms[r.source]} {iri('relation', r.type)} {terms[r.target]} ." for r in relations]
    return select([f"VALUES ?answer {{ {terms[asked]} }}", *edges])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
