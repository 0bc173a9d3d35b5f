"""Compile all kernels ahead of time: `python -m kgqa_hpc.compile_kernels`.

For container images and shared installations: compiled code in the package (or in $NUMBA_CACHE_DIR) is used even if
the folder is read-only at run time, see jit.py. The code is compiled for this machine's processor. For an image that
runs on other machines, set NUMBA_CPU_NAME=generic both here and at run time.
"""

import numpy as np
import pyarrow as pa

from kgqa_hpc.anchors.anchor import Source
from kgqa_hpc.anchors.routes import Routes
from kgqa_hpc.anchors.simple_paths import EXACT, PathSpace
from kgqa_hpc.graphlets.balance import cap_nodes
from kgqa_hpc.graphlets.choose_method import Costs
from kgqa_hpc.graphlets.count import PASSES, copy_counts, induced_counts
from kgqa_hpc.graphlets.kernels.choices import pick_roots
from kgqa_hpc.graphlets.ordered_graph import list_triangles, order_graph
from kgqa_hpc.graphlets.sample_by_draws import Stream
from kgqa_hpc.graphlets.sample_by_rank import enumerate_sample
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.graphlets.structures import Ground
from kgqa_hpc.kg import kernels
from kgqa_hpc.kg.graph import KnowledgeGraph, simple_csr


def compile_kernels() -> None:
    """Run every kernel once with each combination of argument types, so that numba compiles it."""
    # The kernels of id tables, k-cores and paths.
    ids = pa.array(map(str, range(40_000)), pa.large_string())  # enough ids that the hash table grows
    kernels.Interner().pairs(ids, ids)
    ends = np.arange(3, dtype=np.int32)
    kernels.k_core(*simple_csr(4, ends, ends + np.int32(1)), 1)
    PathSpace([simple_csr(4, ends, ends + np.int32(1), directed=True)] * EXACT).total()
    names, types = np.array(list("abcd"), object), np.zeros(4, np.int32)
    graph = KnowledgeGraph(names, names, types, ("x",), ends, ends + np.int32(1), types[:3], ("r",))
    routes = Routes(Source(graph))
    routes.ends(0, routes.way([0, 1, 2]), most=1)
    # The kernels of graphlets, on a small clique; one node has so many leaves that restrict_to_core removes them.
    clique, leaves = np.triu_indices(12, 1), np.arange(12, 24)
    ordered = order_graph(*simple_csr(24, np.append(clique[0], 0 * leaves), np.append(clique[1], leaves)))
    lists = list_triangles(ordered)
    Costs.of(ordered, lists)
    copies = copy_counts(ordered, lists)
    for passes in (PASSES, ()):  # without passes, some structures are drawn by other kernels
        ground = Ground(ordered, lists, copies, frozenset(passes))
        for structure in ground.structures():
            Stream(ground, structure, seed=0).draw(0, 1)
    pick_roots(np.ones(1), np.zeros(2, np.int64), np.zeros(1), 0, np.zeros(1, np.int64))  # float64 weights
    sample = enumerate_sample(ordered, lists, induced_counts(copies.copies), dict.fromkeys(SHAPES, 1), seed=0)
    cap_nodes(*sample.arranged(ordered.original), per_shape=1, max_per_node=1)


if __name__ == "__main__":
    compile_kernels()
