"""Anchor kind: the edges of the graph."""

from typing import Literal

from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Node, Relation
from kgqa_hpc.columns import Column
from kgqa_hpc.settings import KindSettings


class EdgeSettings(KindSettings):
    kind: Literal["edge"] = "edge"
    number: int = Field(100, ge=1, description="Edges drawn.")


class EdgeAnchors(AnchorKind):
    """Single edges of the graph."""

    name = "edge"
    Settings = EdgeSettings
    group_word = "relation"
    columns = (Column("head", "string", "Name of the edge's source."),)
    sample = Anchor(
        "sample",
        "edge",
        "directed",
        (Node("a", "A", "Director"), Node("b", "B", "Film")),
        (Relation(0, 1, "directed"),),
    )

    def draw(self, source, settings, seed, tools):
        graph = source.graph
        for head, tail in zip(graph.edge_source.tolist(), graph.edge_target.tolist(), strict=True):
            nodes = graph.node(head), graph.node(tail)
            yield Anchor("", "edge", "directed", nodes, (Relation(0, 1, "directed"),))

    def record(self, anchor, fields):
        return {"head": anchor.nodes[0].name}
