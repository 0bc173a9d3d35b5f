"""The anchor (the self-contained evidence of a question, as shards store it), and the interface of anchor kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kgqa_hpc.anchors.names import named
from kgqa_hpc.columns import Column
from kgqa_hpc.kg.relations import Node, Relation
from kgqa_hpc.settings import KindSettings
from kgqa_hpc.text.plain_text import clean_name, clean_type

if TYPE_CHECKING:
    from kgqa_hpc.kg.reduce import AnswerGraph

__all__ = ["Anchor", "AnchorKind", "Drawn", "Node", "Relation", "Source", "Tools", "graph_variables"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The evidence of one question.

    `id` depends on the content alone: the same evidence has the same id in every run. `group` is the unit of counts in
    reports ("shape 11"). `relations` are all typed, directed edges between the nodes, including parallel edges.
    `weight` is 1 / (inclusion probability relative to uniform sampling within the group): 1.0 when uniform. `data`
    holds further values of the kind in JSON types.
    """

    id: str
    kind: str
    group: str
    nodes: tuple[Node, ...] = ()
    relations: tuple[Relation, ...] = ()
    weight: float = 1.0
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, the form in which shards store it (docs/reference/format.md, Anchors)."""
        return {
            "id": self.id,
            "kind": self.kind,
            "group": self.group,
            "nodes": [list(n) for n in self.nodes],
            "relations": [list(r) for r in self.relations],
            "weight": self.weight,
            "data": dict(self.data),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Anchor:
        """The anchor of a dictionary made by `to_dict`."""
        return cls(
            id=data["id"],
            kind=data["kind"],
            group=data["group"],
            nodes=tuple(starmap(Node, data["nodes"])),
            relations=tuple(starmap(Relation, data["relations"])),
            weight=data["weight"],
            data=data["data"],
        )


@dataclass(frozen=True, slots=True)
class Source:
    """The graph from which anchors are drawn, and the graph on which their answers are computed.

    `graph` is the reduced KnowledgeGraph (kg/graph.py) and `reduction` its counts; both are None for kinds
    without a graph. `answers` is the whole named graph, for kinds with `whole_graph`; for others, answers are
    computed on `graph`.
    """

    graph: Any = None
    reduction: Mapping[str, Any] | None = None
    answers: AnswerGraph | None = None

    def answer_graph(self) -> AnswerGraph:
        """The graph on which answers are computed. Raises ValueError for a source without a graph."""
        from kgqa_hpc.kg.reduce import AnswerGraph

        if self.graph is None:
            raise ValueError("the source has no graph")
        return self.answers or AnswerGraph.of_reduced(self.graph)


@dataclass(frozen=True, slots=True)
class Tools:
    """Resources for drawing: the number of threads, `progress(done, total, label)` to report progress, and
    `announce(text, seconds)` to call before long work.
    """

    threads: int | None = None
    progress: Callable[[int, int, str], None] | None = None
    announce: Callable[[str, float], None] = lambda text, seconds: None


@dataclass(frozen=True, slots=True)
class Drawn:
    """The result of drawing.

    `anchors` are in a seeded order; every prefix of it is a random sample. `totals` are the numbers of all candidates
    by group, where known. `files` are written to RUN/stats, `notes` are printed.
    """

    anchors: Iterable[Anchor]
    totals: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class AnchorKind:
    """A kind of anchor. A subclass has a name, settings, and at least `draw` and `sample`.

    `columns` are the additional columns of its records, `group_word` is the heading of its groups in tables, `sample`
    is an example anchor with which prompts are tested when they are loaded, `gives` are the names of the fields with
    which its items start. A kind with `whole_graph` computes answers on the whole named graph (`Source.answers`).
    """

    registry: ClassVar[str] = "anchors"
    name: ClassVar[str]
    Settings: ClassVar[type[KindSettings]] = KindSettings
    columns: ClassVar[tuple[Column, ...]] = ()
    group_word: ClassVar[str] = "group"
    needs_graph: ClassVar[bool] = True
    whole_graph: ClassVar[bool] = False
    gives: ClassVar[tuple[str, ...]] = ()
    sample: ClassVar[Anchor]

    def draw(self, source: Source, settings: Any, seed: int, tools: Tools) -> Drawn:
        """Draw the anchors of a run. The same seed gives the same anchors, whatever `tools` are."""
        raise TypeError(f"anchor kind {self.name} has no method draw(): define it")

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Variables of a prompt; by default nodes and relations. Rendering cleans every text."""
        return graph_variables(anchor)

    def start(self, anchor: Anchor) -> dict[str, Any]:
        """The fields (`gives`) with which an item of this anchor starts."""
        return {}

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The values of `columns` for the record of an anchor; `fields` are the item's other fields."""
        return {}

    def facts(
        self, anchor: Anchor, fields: Mapping[str, Any], aliases: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, Any]:
        """Facts about question and answer that need no model, for the `check` step.

        The default, for an anchor with nodes: the nodes that each text names (`aliases`: other names by name), the
        share of nodes named, the largest number of hops from the question's nodes to a node that only the answer
        names, and whether the question reveals the answer (the answer names no further node, or one of its
        `answer_entities` occurs in the question).
        """
        if not anchor.nodes:
            return {}
        names = [node.name for node in anchor.nodes]
        question, answer = named(fields["question"], names, aliases), named(fields["answer"], names, aliases)
        answers = fields.get("answer_entities")
        leak = (
            bool(named(fields["question"], answers, aliases))
            if answers
            else bool(answer) and set(answer) <= set(question)
        )
        used = {*question, *answer}
        return {
            "question_nodes": question,
            "answer_nodes": answer,
            "nodes_used": len(used),
            "node_share": len(used) / len(names),
            "hops": hops(anchor, question, answer),
            "answer_leak": leak,
        }

    def worded(self, anchor: Anchor, question: str) -> str:
        """The complete question, built from the model's wording; by default the wording itself."""
        return question

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """A reason, for the `verify` step, why the evidence contradicts the item's fields; None if it does not."""
        return None

    def summary(self, header: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """A row per group for the table of the dataset, from the header of anchors.h5; None for no table.

        Keys of a row: group, id, name, total; and `edges`, pairs of node numbers from 0, if the report draws the group.
        """
        return None

    def expected(self, settings: Any) -> int | None:
        """Largest number of anchors that the settings allow, usually `number`; None if unknown before
        drawing.
        """
        return getattr(settings, "number", None)

    def files(self, settings: Any) -> list[Path]:
        """Files and folders from which anchors are read; their contents are part of the fingerprint."""
        return []


def hops(anchor: Anchor, question: Sequence[int], answer: Sequence[int]) -> int | None:
    """The largest distance in the anchor, ignoring edge direction, from the question's nodes to a node that only the
    answer names; None if a text names no node, or there is no connection.
    """
    reached = dict.fromkeys(question, 0)
    border, depth = set(question), 0
    while border:
        depth += 1
        ends = [(r.source, r.target) for r in anchor.relations] + [
            (r.target, r.source) for r in anchor.relations
        ]
        border = {b for a, b in ends if a in border and b not in reached}
        reached |= dict.fromkeys(border, depth)
    return max((reached[node] for node in answer if reached.get(node)), default=None)


def graph_variables(anchor: Anchor) -> dict[str, Any]:
    """Variables of an anchor with nodes, as plain tuples.

    nodes: (number, name, type); relations: (source number, target number, type); edges: the distinct directed
    (source, target) pairs. Numbers are positions in the anchor.
    """
    relations = [(r.source, r.target, clean_name(r.type)) for r in anchor.relations]
    return {
        "nodes": [(number, clean_name(n.name), clean_type(n.type)) for number, n in enumerate(anchor.nodes)],
        "edges": list(dict.fromkeys((source, target) for source, target, _ in relations)),
        "relations": relations,
    }


def short_digest(text: str, size: int = 8) -> bytes:
    """The BLAKE2b digest of the text in `size` bytes."""
    return blake2b(text.encode(), digest_size=size).digest()
