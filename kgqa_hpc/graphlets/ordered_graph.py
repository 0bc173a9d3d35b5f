"""The graph in the form the kernels need: simple, undirected, relabelled by falling degree.

With hubs first a vertex has at most about sqrt(2m) neighbours before it, so that few walks from other
vertices pass through a hub; and no result depends on the order of the input's edges.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets.kernels import relabel
from kgqa_hpc.threads import Workers

# Default: all usable cores, without progress.
ALONE = Workers()
PARTS = 16  # largest number of parts of the rows
PART_ENTRIES = 100_000  # smallest number of entries per part


@dataclass(frozen=True)
class OrderedGraph:
    """CSR of a simple undirected graph: vertices by falling degree, then original id; neighbours ascending.

    indptr int64 (n+1,), indices int32 (2m,), original int32 (n,): original id of each vertex; workers: the
    threads that work on it.
    """

    indptr: np.ndarray
    indices: np.ndarray
    original: np.ndarray
    workers: Workers = ALONE

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices) // 2

    @property
    def degree(self) -> np.ndarray:
        return np.diff(self.indptr)


def order_graph(indptr: np.ndarray, indices: np.ndarray, workers: Workers = ALONE) -> OrderedGraph:
    """Relabel a CSR graph by falling degree.

    `indptr` (n+1,) and `indices` (2m,) are integers: a simple undirected graph, as `KnowledgeGraph.csr` and
    graphlets.from_libraries make it (every edge in both rows, no loops, rows in any order). O(m log d) time
    and 8 bytes per entry. Raises InputError when the arrays do not fit together.
    """
    n = len(indptr) - 1
    if n < 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise InputError(
            "indptr is not that of a CSR graph",
            "it rises from 0 to len(indices), one entry per node and one more",
        )
    if n >= 2**31:
        raise InputError(f"{n:,} nodes are more than 32-bit labels can hold", "reduce the graph first")
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        raise InputError(f"a neighbour lies outside 0..{n - 1}", "indices are node numbers")
    # Copies, because numba treats read-only arrays as another type, and kernels are compiled for writable ones.
    indptr, indices = np.array(indptr, np.int64), np.array(indices, np.int32)
    original, label, new_indptr = relabel.by_degree(indptr)
    new_indices = np.empty(len(indices), np.int32)
    workers.run(
        lambda rows: relabel.fill_rows(*rows, indptr, indices, original, label, new_indptr, new_indices),
        row_ranges(new_indptr),
    )
    return OrderedGraph(new_indptr, new_indices, original, workers)


def row_ranges(indptr: np.ndarray, most: int = PARTS) -> list[tuple[int, int]]:
    """Ranges of rows with about as many entries each, for kernels that go row by row."""
    parts = min(most, 1 + int(indptr[-1]) // PART_ENTRIES)
    cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], parts + 1)[1:-1]).tolist()
    return list(pairwise([0, *cuts, len(indptr) - 1]))
