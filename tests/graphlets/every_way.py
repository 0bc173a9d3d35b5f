"""Counts and samples small graphs in every way there is: for tests that nothing is left to be compiled then.

A program of its own, for it may run where the tests are not installed (an image).
"""

from __future__ import annotations

import numpy as np

from kgqa_hpc.graphlets import sample
from kgqa_hpc.graphlets.count import count_graphlets


def csr_of(n: int, edges: set[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = sorted(edges | {(b, a) for a, b in edges})
    indptr = np.searchsorted([a for a, _ in rows], np.arange(n + 1))
    return indptr.astype(np.int64), np.array([b for _, b in rows], np.int32)


def main() -> None:
    rng = np.random.default_rng(1)
    some = {(int(a), int(b)) for a, b in rng.integers(0, 60, (600, 2)) if a < b}
    mixed = csr_of(70, some | {(v, v + 10) for v in range(50, 60)})
    star = csr_of(110_001, {(0, leaf) for leaf in range(1, 110_001)})  # weights beyond 2**62
    for array in star:
        array.flags.writeable = False
    wish = {"per_shape": 20, "seed": 1}
    count_graphlets(*mixed)
    count_graphlets(mixed[0].astype(np.int32), mixed[1].astype(np.int64))
    for method in ("enumerate", "structure"):
        sample.sample_graphlets(*mixed, method=method, **wish)
    sample.sample_graphlets(*mixed, shapes=[1, 3], **wish)
    sample.sample_graphlets(*mixed, max_per_node=5, **wish)
    sample.sample_graphlets(*mixed, node_type=np.arange(70) % 3, **wish)
    sample.sample_graphlets(*star, shapes=[11], **wish)
    sample.affordable_passes = lambda seconds: frozenset()
    sample.sample_graphlets(*mixed, method="structure", **wish)
    sample.sample_graphlets(*mixed, method="enumerate", **wish)
    print("done")


main()
