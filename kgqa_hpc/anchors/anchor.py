"""An anchor: a small piece of a knowledge graph, self-contained, as it travels in shards and prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kgqa_hpc.kg.relations import Node, Relation

__all__ = ["Anchor", "Node", "Relation"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The evidence of one question.

    `id` depends on the content alone (kind, shape, node ids): the same graphlet has the same id in every run.
    `edges` are undirected pairs of positions, for a graphlet those of its shape's published template;
    `relations` are all typed edges between the nodes, with direction, parallel ones included.
    `weight` is 1 / (inclusion probability relative to uniform sampling within the shape): 1.0 when uniform.
    """

    id: str
    kind: str
    shape: int
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    relations: tuple[Relation, ...]
    weight: float = 1.0
    extra: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, the form in which shards store it (docs/format.md, Anchors)."""
        return {
            "id": self.id,
            "kind": self.kind,
            "shape": self.shape,
            "nodes": [list(n) for n in self.nodes],
            "edges": [list(e) for e in self.edges],
            "relations": [list(r) for r in self.relations],
            "weight": self.weight,
            "extra": self.extra,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Anchor:
        """The inverse of `to_dict`."""
        return cls(
            id=data["id"],
            kind=data["kind"],
            shape=data["shape"],
            nodes=tuple(map(Node._make, data["nodes"])),
            edges=tuple([(a, b) for a, b in data["edges"]]),
            relations=tuple(map(Relation._make, data["relations"])),
            weight=data["weight"],
            extra=data["extra"],
        )
