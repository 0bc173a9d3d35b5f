"""The typed edges around each node, in one sorted table: what the families of questions look their facts up in.

An edge stands there twice, once at each end, with its direction as seen from there; identical edges stand
once, self-loops not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from kgqa_hpc.kg.graph import KnowledgeGraph

Int64 = npt.NDArray[np.int64]


class Arm(NamedTuple):
    """An edge as seen from one of its ends: type code, whether it points away, and the node at the other end."""

    relation: int
    out: bool
    other: int


@dataclass(frozen=True, eq=False)
class Incidence:
    """`starts`: int64 (n+1,); the arms of node v are rows starts[v]:starts[v+1] of the other arrays, sorted by
    type, outgoing first, then by the other node.
    """

    starts: Int64
    relation: npt.NDArray[np.int32]
    out: npt.NDArray[np.bool_]
    other: npt.NDArray[np.int32]

    @classmethod
    def build(cls, graph: KnowledgeGraph) -> Incidence:
        """Sort all edges once, O(m log m)."""
        real = graph.edge_source != graph.edge_target
        source, target, kind = graph.edge_source[real], graph.edge_target[real], graph.edge_type[real]
        node = np.concatenate([source, target])
        other = np.concatenate([target, source])
        relation = np.concatenate([kind, kind])
        back = np.concatenate([np.zeros(len(source), bool), np.ones(len(target), bool)])
        order = np.lexsort((other, back, relation, node))
        node, other, relation, back = node[order], other[order], relation[order], back[order]
        same = np.zeros(len(node), bool)
        same[1:] = (
            (node[1:] == node[:-1])
            & (other[1:] == other[:-1])
            & (relation[1:] == relation[:-1])
            & (back[1:] == back[:-1])
        )
        node = node[~same]
        starts = np.searchsorted(node, np.arange(graph.num_nodes + 1))
        return cls(starts.astype(np.int64), relation[~same], ~back[~same], other[~same])

    def arms(self, node: int) -> list[Arm]:
        """All arms of a node in their order."""
        rows = slice(int(self.starts[node]), int(self.starts[node + 1]))
        columns: tuple[list[Any], ...] = (
            self.relation[rows].tolist(),
            self.out[rows].tolist(),
            self.other[rows].tolist(),
        )
        return [Arm(*arm) for arm in zip(*columns, strict=True)]

    def step(self, node: int, relation: int, out: bool) -> list[int]:
        """The nodes one edge of this type and direction away."""
        rows = slice(int(self.starts[node]), int(self.starts[node + 1]))
        fits = (self.relation[rows] == relation) & (self.out[rows] == out)
        found: list[int] = self.other[rows][fits].tolist()
        return found
