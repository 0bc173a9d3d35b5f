"""Kind fact, for short answers: all nodes related to a given node by one relation, or one property of a node.

A question consists of a node, a relation, its direction and the type of the other end; the answers are all such
neighbours in the whole named graph. Questions are drawn uniformly among those with an edge in the reduced graph and at
most `max_answers` answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, graph_variables
from kgqa_hpc.anchors.family import (
    CYPHER,
    DIFFICULTY,
    QUERY,
    answer_fields,
    askable,
    chain_queries,
    content_id,
    difficulty,
    gathered,
    property_queries,
    wording,
)
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import EmptyGraphError
from kgqa_hpc.settings import KindSettings
from kgqa_hpc.text.plain_text import clean_name, clean_type

if TYPE_CHECKING:
    from kgqa_hpc.anchors.routes import Incidence, Routes
    from kgqa_hpc.kg.graph import Codes, Mask

# A question: (given node, relation, whether edges point away from the node, type of answers).
Query = tuple[int, int, bool, int]


class FactSettings(KindSettings):
    """Settings of the kind fact: number and selection of questions."""

    kind: Literal["fact"] = "fact"
    number: int = Field(1000, ge=1, description="Anchors to draw; all if there are fewer.")
    max_answers: int = Field(
        1, ge=1, description="Maximum number of answers to a question, which asks for all of them."
    )
    relations: list[str] | None = Field(None, description="Edge types to ask about; default: all.")
    attributes: list[str] = Field(
        default_factory=list,
        description="Node properties that questions ask for, in addition to edges.",
    )
    aliases: str | None = Field(None, description="Node property with other names of a node, joined by |.")


class FactAnchors(AnchorKind):
    """Single edges and attributes of the graph."""

    name = "fact"
    Settings = FactSettings
    group_word = "relation"
    whole_graph = True
    gives = ("answer", "answers")
    columns = (
        Column("answers", ["string"], "Every answer the graph gives."),
        Column("aliases", ["string"], "Other names of the answers that count as right."),
        QUERY,
        CYPHER,
        *DIFFICULTY,
    )
    sample = Anchor(
        "sample",
        "fact",
        "treats",
        (Node("a", "First node", "drug"), Node("b", "Second node", "disease")),
        (Relation(0, 1, "treats"),),
        data={
            "relation": "treats",
            "out": True,
            "asked": "disease",
            "answers": ["Second node"],
            "aliases": [],
            "degree": 1,
        },
    )

    def draw(self, source: Source, settings: FactSettings, seed: int, tools: Tools) -> Drawn:
        """Raises InputError for a relation or property that the graph lacks, EmptyGraphError without questions."""
        # Imported here because numba loads slowly and only drawing needs it.
        from kgqa_hpc.anchors.routes import Routes, code_of

        routes = Routes(source)
        for name in settings.relations or []:
            code_of(name, source.graph.edge_types, "edge type")
        for name in [*settings.attributes, *filter(None, [settings.aliases])]:
            code_of(name, list(source.graph.node_properties), "property")
        drawn = gathered(chain(_facts(routes, settings), _attributes(routes, settings)), settings, seed)
        if not drawn.totals:
            raise EmptyGraphError(
                "no question about the graph fits the settings in anchors", "raise anchors.max_answers"
            )
        return replace(drawn, notes=(f"{sum(drawn.totals.values()):,} questions fit",))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Variables in addition to nodes and relations: `given` nodes, `relation`, `out` (whether it points away from
        the given node), `asked` (the type of the answers), and `answers`.
        """
        data, fields = anchor.data, graph_variables(anchor)
        words = {"relation": clean_name(data["relation"]), "asked": clean_type(data["asked"])}
        answers = [clean_name(answer) for answer in data["answers"]]
        return {**fields, "given": fields["nodes"][:1], **words, "out": data["out"], "answers": answers}

    def start(self, anchor: Anchor) -> dict[str, Any]:
        return answer_fields(anchor.data["answers"])

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """An objection if the answers differ from the graph's, or the wording breaks a rule."""
        if list(fields["answers"]) != list(anchor.data["answers"]):
            return "is not the graph's answer"
        hidden = [*anchor.data["answers"], *anchor.data["aliases"]]
        return wording(fields["question"], [anchor.nodes[0].name], hidden)

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        subject, data, name = anchor.nodes[0], anchor.data, anchor.data["relation"]
        step = {"relation": name, "out": data["out"], "type": data["asked"]}
        # Null if a cell holds several values: no query splits them.
        queries = dict.fromkeys((QUERY.name, CYPHER.name))
        if len(anchor.nodes) > 1:
            queries = chain_queries(anchor, [step])
        elif len(data["answers"]) == 1:
            queries = property_queries(subject, name)
        return {
            "answers": list(data["answers"]),
            "aliases": list(data["aliases"]),
            **queries,
            **difficulty(1, len(anchor.nodes), data["degree"]),
        }


def _queries(
    incidence: Incidence, kinds: Codes, is_askable: Mask, most: int
) -> Iterator[tuple[Query, list[int]]]:
    """Every question with at most `most` answers, as (query, answer nodes).

    The given nodes are those of the mask `is_askable`; at least one answer is a node of the reduced graph.
    """
    node = np.repeat(np.arange(len(is_askable)), np.diff(incidence.starts))
    rows = np.flatnonzero(is_askable[node])
    answers = incidence.neighbour[rows]
    parts = (node[rows], incidence.arm[rows] >> 1, incidence.arm[rows] & 1 == 0, kinds[answers])
    order = np.lexsort((answers, *reversed(parts)))
    if not len(order):
        return
    query, answers = np.stack([part[order] for part in parts]), answers[order]
    starts = np.flatnonzero(np.append(True, (query[:, 1:] != query[:, :-1]).any(axis=0)))
    sizes = np.diff(np.append(starts, len(answers)))
    fits = (sizes <= most) & np.logical_or.reduceat(is_askable[answers], starts)
    for begin, size in zip(starts[fits].tolist(), sizes[fits].tolist(), strict=True):
        asked, relation, out, kind = query[:, begin].tolist()
        yield (asked, relation, bool(out), kind), answers[begin : begin + size].tolist()


def _facts(routes: Routes, settings: FactSettings) -> Iterator[Anchor]:
    graph = routes.whole
    other_names = graph.node_properties[settings.aliases] if settings.aliases else None
    is_askable = np.zeros(graph.num_nodes, bool)
    is_askable[routes.answers.positions] = True
    degree = lru_cache(maxsize=1 << 16)(routes.degree)
    directed = set(graph.edge_type[graph.one_way()].tolist())
    for (asked, relation, out, kind), ends in _queries(
        routes.incidence, graph.node_type, is_askable, settings.max_answers
    ):
        name = graph.edge_types[relation]
        if settings.relations is not None and name not in settings.relations:
            continue
        if not out and relation not in directed:  # a symmetric relation: the same question as with `out`
            continue
        nodes = [graph.node(node) for node in (asked, *ends)]
        answers = sorted(node.name for node in nodes[1:])
        doubled = len(set(answers)) < len(answers)
        if doubled or not askable(nodes[0].name, answers, routes.shared_names):
            continue
        aliases = [other_names[end].as_py() or "" for end in ends] if other_names is not None else []
        relations = tuple(Relation(*((0, i) if out else (i, 0)), name) for i in range(1, len(nodes)))
        yield Anchor(
            id=content_id("fact", nodes[0].id, name, out, graph.node_types[kind]),
            kind="fact",
            group=name,
            nodes=tuple(nodes),
            relations=relations,
            data={
                "relation": name,
                "out": out,
                "asked": graph.node_types[kind],
                "answers": answers,
                "aliases": [alias for text in aliases for alias in text.split("|") if alias],
                "degree": max(map(degree, ends)),
                "unnamed": routes.answers.unnamed,
            },
        )


def _attributes(routes: Routes, settings: FactSettings) -> Iterator[Anchor]:
    from kgqa_hpc.kg.file import value_text

    for name in settings.attributes:
        for position, value in enumerate(routes.graph.node_properties[name].to_pylist()):
            node = routes.graph.node(position)
            text = "" if value is None else value_text(value)
            answers = sorted({*filter(None, text.split("|"))})  # a cell may hold several values, joined by |
            fits = answers == [text] or 1 < len(answers) <= settings.max_answers
            if fits and askable(node.name, answers, routes.shared_names):
                data = {"relation": name, "out": True, "asked": name, "answers": answers}
                data |= {"aliases": [], "degree": 0}
                yield Anchor(content_id("fact", node.id, name), "fact", name, (node,), data=data)
