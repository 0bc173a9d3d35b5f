"""Stands in for anchors.KINDS and steps.STEPS until they are here; then this file goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kgqa_hpc.anchors.anchor import Node, Relation
from kgqa_hpc.columns import Column


class Anchor(NamedTuple):
    id: str
    kind: str
    group: str
    nodes: tuple[Node, ...]
    relations: tuple[Relation, ...]
    weight: float
    data: Mapping[str, Any]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Anchor:
        return cls(
            data["id"],
            data["kind"],
            data["group"],
            tuple(map(Node._make, data["nodes"])),
            tuple(map(Relation._make, data["relations"])),
            data["weight"],
            data["data"],
        )


class GraphletKind:
    name = "graphlet"
    group_word = "shape"
    columns = (
        Column("graphlet_id", "int64", "Published id of the graphlet's shape, 1-29."),
        Column("nodes", [{"id": "string", "name": "string", "type": "string"}], "Nodes of the graphlet."),
        Column("edges", [["int64"]], "Directed edges as positions in nodes, as they stand in the graph."),
        Column("edge_labels", ["string"], "Types of the edges, in their order."),
        Column("triples", [["string"]], "The edges as head, relation and tail by name."),
        Column("question_entities", ["string"], "Names of the nodes the question is about."),
        Column("answer_entities", ["string"], "Names of the nodes the answer is about."),
        Column("num_nodes", "int64", "Number of nodes."),
    )

    def record(self, anchor: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
        names = [node.name for node in anchor.nodes]
        return {
            "graphlet_id": anchor.data["shape"],
            "nodes": [node._asdict() for node in anchor.nodes],
            "edges": [[r.source, r.target] for r in anchor.relations],
            "edge_labels": [r.type for r in anchor.relations],
            "triples": [[names[r.source], r.type, names[r.target]] for r in anchor.relations],
            "question_entities": list(fields.get("question_entities", ())),
            "answer_entities": list(fields.get("answer_entities", ())),
            "num_nodes": len(anchor.nodes),
        }

    def summary(self, header: Mapping[str, Any]) -> list[dict[str, Any]]:
        from kgqa_hpc.graphlets.shapes import SHAPES

        totals = {str(key).removeprefix("shape "): n for key, n in (header.get("totals") or {}).items()}
        return [
            {"group": f"shape {k}", "id": k, "name": s.name, "total": totals.get(str(k))}
            for k, s in SHAPES.items()
        ]


class _Judge:
    columns = ()

    @staticmethod
    def approves(verdict: Mapping[str, Any]) -> str | None:
        if not verdict["valid_question"]:
            return "invalid question"
        return None if verdict["original_answer_valid"] else "invalid answer"


class _Generate:
    columns = ()


STEPS: dict[str, Any] = {"generate": _Generate, "judge": _Judge}
