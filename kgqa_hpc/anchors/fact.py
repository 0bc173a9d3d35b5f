"""Short answer: one thing, one relation, and everything the graph says stands in it; or one attribute.

A question is a node with a relation, a direction and a type of the other end; its answer set is all such
neighbours. Drawn uniformly among the questions with at most `max_answers` answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, graph_variables
from kgqa_hpc.anchors.family import DIFFICULTY, answer_fields, content_id, difficulty, place, wording
from kgqa_hpc.anchors.incidence import Incidence
from kgqa_hpc.anchors.routes import Routes, code_of
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import EmptyGraphError
from kgqa_hpc.prompts.safe_text import clean_name
from kgqa_hpc.settings import KindSettings

Query = tuple[int, int, bool, int]  # node, relation, whether it points away, type of the other end


class FactSettings(KindSettings):
    """Which facts, and how many."""

    kind: Literal["fact"] = "fact"
    number: int = Field(1000, ge=1, description="Questions drawn; all where there are fewer.")
    max_answers: int = Field(
        1, ge=1, description="Only questions with at most so many answers; all are asked for."
    )
    relations: list[str] | None = Field(None, description="Edge types asked about; default: all.")
    attributes: list[str] = Field(
        default_factory=list, description="Node properties asked about as well; their value is the answer."
    )
    aliases: str | None = Field(None, description="Node property with other names of a node, joined by |.")


class FactAnchors(AnchorKind):
    """Single edges and attributes of the graph."""

    name = "fact"
    Settings = FactSettings
    group_word = "relation"
    gives = ("answer", "answers")
    columns = (
        Column("answers", ["string"], "Every answer the graph gives."),
        Column("aliases", ["string"], "Other names of the answers that count as right."),
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
        """Raises InputError for a relation or property the graph has not, EmptyGraphError without a question."""
        routes = Routes(source.graph)
        _check_names(settings, source.graph)
        anchors = [*_facts(routes, settings, seed), *_attributes(routes, settings)]
        if not anchors:
            raise EmptyGraphError(
                "the graph answers no question that fits anchors", "raise anchors.max_answers"
            )
        anchors.sort(key=lambda anchor: place(seed, anchor.id))
        totals = Counter(anchor.group for anchor in anchors)
        return Drawn(anchors[: settings.number], totals, notes=(f"{len(anchors):,} questions fit",))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Beside nodes and relations: `given` nodes, `relation`, `out` (it points away from the given node), the
        type `asked` for, and the `answers`.
        """
        data = anchor.data
        shown = graph_variables(anchor)
        words = {name: clean_name(data[name]) for name in ("relation", "asked")}
        answers = [clean_name(answer) for answer in data["answers"]]
        return {**shown, "given": shown["nodes"][:1], **words, "out": data["out"], "answers": answers}

    def start(self, anchor: Anchor) -> dict[str, Any]:
        return answer_fields(anchor.data["answers"])

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """The answers must be those of the graph, and the wording must keep to its rules."""
        if list(fields["answers"]) != list(anchor.data["answers"]):
            return "is not the graph's answer"
        hidden = [*anchor.data["answers"], *anchor.data["aliases"]]
        return wording(fields["question"], [anchor.nodes[0].name], hidden)

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        data = anchor.data
        return {
            "answers": list(data["answers"]),
            "aliases": list(data["aliases"]),
            **difficulty(1, len(anchor.nodes), data["degree"]),
        }


def _check_names(settings: FactSettings, graph: Any) -> None:
    names = [*settings.attributes, *filter(None, [settings.aliases])]
    checks = [
        ("edge type", settings.relations or [], graph.edge_types),
        ("property", names, list(graph.node_properties)),
    ]
    for what, wanted, known in checks:
        for name in wanted:
            code_of(name, known, what)


def _queries(incidence: Incidence, kinds: np.ndarray, most: int) -> Iterator[tuple[Query, list[int]]]:
    """Every question with at most `most` answers: the query and the nodes that answer it."""
    node = np.repeat(np.arange(len(incidence.starts) - 1), np.diff(incidence.starts))
    kind = kinds[incidence.other]
    order = np.lexsort((incidence.other, kind, incidence.out, incidence.relation, node))
    rows = np.stack([node[order], incidence.relation[order], incidence.out[order], kind[order]])
    if not rows.shape[1]:
        return
    first = np.flatnonzero(np.append(True, (rows[:, 1:] != rows[:, :-1]).any(axis=0))).tolist()
    ends = [*first[1:], rows.shape[1]]
    for begin, end in zip(first, ends, strict=True):
        if end - begin <= most:
            asked, relation, out, other = rows[:, begin].tolist()
            yield (asked, relation, bool(out), other), incidence.other[order[begin:end]].tolist()


def _facts(routes: Routes, settings: FactSettings, seed: int) -> Iterator[Anchor]:
    graph, degrees = routes.graph, routes.graph.degrees()
    other_names = graph.node_properties[settings.aliases] if settings.aliases else None
    for (asked, relation, out, kind), ends in _queries(
        routes.incidence, graph.node_type, settings.max_answers
    ):
        name = graph.edge_types[relation]
        nodes = [graph.node(node) for node in (asked, *ends)]
        doubled = len({node.name for node in nodes}) < len(nodes) or nodes[0].name in routes.shared_names
        if doubled or (settings.relations is not None and name not in settings.relations):
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
                "answers": sorted(node.name for node in nodes[1:]),
                "aliases": [alias for text in aliases for alias in text.split("|") if alias],
                "degree": int(max(degrees[ends])),
            },
        )


def _attributes(routes: Routes, settings: FactSettings) -> Iterator[Anchor]:
    for name in settings.attributes:
        for position, value in enumerate(routes.graph.node_properties[name].to_pylist()):
            node = routes.graph.node(position)
            if value is None or value == "" or node.name in routes.shared_names:
                continue
            data = {
                "relation": name,
                "out": True,
                "asked": name,
                "answers": [str(value)],
                "aliases": [],
                "degree": 0,
            }
            yield Anchor(content_id("fact", node.id, name), "fact", name, (node,), data=data)
