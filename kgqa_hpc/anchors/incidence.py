"""The typed edges around each node, in one sorted table: what the families of questions look their facts up in.

An edge stands there twice, once at each end, with its direction as seen from there; identical edges stand
once, self-loops not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kgqa_hpc.kg.relations import first_of_runs

if TYPE_CHECKING:
    from kgqa_hpc.kg.graph import KnowledgeGraph

Int64 = npt.NDArray[np.int64]


class Arm(NamedTuple):
    """An edge as seen from one of its ends: type code, whether it points away, and the node at the other end."""

    relation: int
    out: bool
    neighbour: int


@dataclass(frozen=True, eq=False)
class Incidence:
    """`starts`: int64 (n+1,); the arms of node v are rows starts[v]:starts[v+1] of the other arrays, sorted by
    type, outgoing first, then by the other node.
    """

    starts: Int64
    relation: npt.NDArray[np.int32]
    out: npt.NDArray[np.bool_]
    neighbour: npt.NDArray[np.int32]

    @classmethod
    def build(cls, graph: KnowledgeGraph) -> Incidence:
        """Sort all edges once, as whole numbers. Raises ValueError beyond 2**63 of nodes squared times types."""
        real = graph.edge_source != graph.edge_target
        source, target, kind = graph.edge_source[real], graph.edge_target[real], graph.edge_type[real]
        nodes, types = max(graph.num_nodes, 1), max(len(graph.edge_types), 1)
        if nodes * nodes * types * 2 >= 2**63:
            raise ValueError(f"{nodes:,} nodes with {types:,} edge types are too many for one table")
        # An arm as one number: node, type, direction (outgoing first), other node.
        away = (source.astype(np.int64) * types + kind) * 2 * nodes + target
        back = ((target.astype(np.int64) * types + kind) * 2 + 1) * nodes + source
        arms = np.concatenate([away, back])
        arms.sort()
        arms, ends = np.divmod(arms[first_of_runs(arms)], nodes)
        arms, back = np.divmod(arms, 2)
        node, relation = np.divmod(arms, types)
        starts = np.searchsorted(node, np.arange(graph.num_nodes + 1))
        return cls(starts.astype(np.int64), relation.astype(np.int32), back == 0, ends.astype(np.int32))

    def around(self, node: int) -> npt.NDArray[np.int32]:
        """The other ends of all arms of a node; a neighbour stands there once for each edge."""
        return self.neighbour[int(self.starts[node]) : int(self.starts[node + 1])]

    def arm(self, node: int, end: int, relation: int | None, forward: bool) -> Arm:
        """The first arm from a node to another, of a type (None: any); `forward`: only outgoing ones."""
        begin = int(self.starts[node])
        rows = slice(begin, int(self.starts[node + 1]))
        fits = self.neighbour[rows] == end
        if relation is not None:
            fits &= self.relation[rows] == relation
        if forward:
            fits &= self.out[rows]
        row = begin + int(np.argmax(fits))
        return Arm(int(self.relation[row]), bool(self.out[row]), end)

    def step(self, node: int, relation: int, out: bool) -> npt.NDArray[np.int32]:
        """The nodes one edge of this type and direction away, ascending."""
        rows = slice(int(self.starts[node]), int(self.starts[node + 1]))
        fits = (self.relation[rows] == relation) & (self.out[rows] == out)
        return self.neighbour[rows][fits]
