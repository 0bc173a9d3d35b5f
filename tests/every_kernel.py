"""Reads, reduces, counts and samples small graphs in every way there is: for tests that nothing is left to be
compiled then.

A program of its own, for it may run where the tests are not installed (an image).
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgqa_hpc.anchors.anchor import Source, Tools
from kgqa_hpc.anchors.path import PathAnchors, PathSettings
from kgqa_hpc.anchors.simple_paths import PathSpace
from kgqa_hpc.graphlets import choose_method, sample
from kgqa_hpc.graphlets.count import count_graphlets
from kgqa_hpc.kg.describe import stats
from kgqa_hpc.kg.graph import simple_csr
from kgqa_hpc.kg.kernels import Interner
from kgqa_hpc.kg.reduce import reduce_to
from kgqa_hpc.kg.settings import graph_config, load_graph


def csr_of(n: int, edges: set[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = sorted(edges | {(b, a) for a, b in edges})
    indptr = np.searchsorted([a for a, _ in rows], np.arange(n + 1))
    return indptr.astype(np.int64), np.array([b for _, b in rows], np.int32)


def read_and_reduce(folder: Path) -> None:
    nodes, edges = folder / "n.csv", folder / "e.csv"
    nodes.write_text("id,name,type\n" + "".join(f"{n},Node {n},x\n" for n in range(9)))
    edges.write_text("source_id,target_id,type\n" + "".join(f"{n},{n % 5},r\n" for n in range(9)))
    section = {"source": "csv", "nodes": str(nodes), "edges": str(edges), "min_degree": 0}
    for more in ({}, {"k_core": 1, "largest_component": True}):
        config = graph_config(section | more)
        reduction = reduce_to(load_graph(config), config)
        stats(reduction.graph)
        for most in (None, 5):
            PathAnchors().draw(Source(reduction.graph), PathSettings(length=1, max_answers=most), 1, Tools(1))


def number_and_walk() -> None:
    texts = pa.array(["a", "b", "", "a"], pa.large_string())
    own = Interner()
    buffers = [None, pa.py_buffer(np.array([0, 1, 2]).tobytes()), pa.py_buffer(b"ab")]
    as_mapped = pa.Array.from_buffers(pa.large_string(), 2, buffers)  # read-only, as from a mapped file
    for values in (texts, texts[1:3], texts[:0], as_mapped):
        own.numbers(values)
        own.pairs(values, values)
    own.numbers(pa.array(map(str, range(70_000)), pa.large_string()))
    ends = np.arange(5, dtype=np.int32)
    for length in (2, 3, 4):
        PathSpace([simple_csr(6, ends, ends + np.int32(1), directed=True)] * length).total()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        read_and_reduce(Path(folder))
    number_and_walk()
    rng = np.random.default_rng(1)
    some = {(int(a), int(b)) for a, b in rng.integers(0, 60, (600, 2)) if a < b}
    mixed = csr_of(70, some | {(v, v + 10) for v in range(50, 60)})
    star = csr_of(110_001, {(0, leaf) for leaf in range(1, 110_001)})  # weights beyond 2**62
    for array in star:
        array.flags.writeable = False
    wish = {"per_shape": 20, "seed": 1}
    count_graphlets(mixed)
    count_graphlets((mixed[0].astype(np.int32), mixed[1].astype(np.int64)))
    for method in ("enumerate", "structure"):
        sample.sample_graphlets(mixed, method=method, **wish)
    sample.sample_graphlets(mixed, shapes=[1, 3], **wish)
    sample.sample_graphlets(mixed, max_per_node=5, **wish)
    sample.sample_graphlets(mixed, node_type=np.arange(70) % 3, **wish)
    sample.sample_graphlets(star, shapes=[11], **wish)
    choose_method.EXACT_SECONDS = -1.0  # no pass is affordable
    sample.sample_graphlets(mixed, method="structure", **wish)
    sample.sample_graphlets(mixed, method="enumerate", **wish)
    print("done")


main()
