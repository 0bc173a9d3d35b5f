"""The graph-tool backend: counting and sampling as in the published pipeline, and a witness for our own.

`graph_tool.clustering.motifs` implements ESU and RAND-ESU (Wernicke 2006) in C++. It enumerates, so it
takes thousands of times longer than graphlets.closed_form; sampling visits every occurrence and keeps each
with probability size / total, so sample sizes vary (published: 9,826 to 10,165 for 10,000).

Debian's build needs Debian's own Python and a numpy below 2, so it runs in whichever interpreter has it:
this one, else the one named in KGQA_GRAPH_TOOL_PYTHON, else /usr/bin/python3. Arrays are exchanged by file.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kgqa_hpc.cores import usable_cores
from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.graphlets.enumeration import Found
from kgqa_hpc.graphlets.order import OrderedGraph
from kgqa_hpc.graphlets.shapes import SHAPES, bit

VARIABLE = "KGQA_GRAPH_TOOL_PYTHON"
_SYSTEM = "/usr/bin/python3"
_WORKER = Path(__file__).with_name("graph_tool_worker.py")


def find_interpreter() -> str | None:
    """The Python that can import graph-tool, or None."""
    if importlib.util.find_spec("graph_tool"):
        return sys.executable
    candidates = [os.environ[VARIABLE]] if os.environ.get(VARIABLE) else [_SYSTEM]
    return next((python for python in candidates if _has_graph_tool(python)), None)


def count(graph: OrderedGraph, *, threads: int | None = None) -> dict[int, int]:
    """Induced occurrences of the 29 shapes, by enumeration."""
    return _ask(graph, {}, 0, threads or usable_cores())[0]


def sample(
    graph: OrderedGraph, sizes: Mapping[int, int], seed: int, *, threads: int | None = None
) -> tuple[dict[int, int], Found]:
    """Exact counts, and each occurrence of a shape independently with probability sizes[shape] / total.

    The sample is reproducible on one thread only (the default), and for one version of graph-tool.
    """
    return _ask(graph, sizes, seed, threads or 1)


def _ask(
    graph: OrderedGraph, sizes: Mapping[int, int], seed: int, threads: int
) -> tuple[dict[int, int], Found]:
    python = find_interpreter()
    if python is None:
        raise InputError(
            "graph-tool is not installed for any Python that was looked at",
            f"apt install python3-graph-tool, or name a Python that has it in {VARIABLE}",
        )
    with tempfile.TemporaryDirectory(prefix="kgqa-graph-tool-") as name:
        folder = Path(name)
        _write_request(folder, graph, sizes, seed, threads)
        command = [*_alone(python), str(_WORKER), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise KgqaError(f"graph-tool in {python} failed: {last}", "use the native backend")
        return _read_answer(folder, graph)


def _write_request(
    folder: Path, graph: OrderedGraph, sizes: Mapping[int, int], seed: int, threads: int
) -> None:
    source = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), graph.degree)
    target = graph.indices.astype(np.int64)
    once = source < target
    np.save(folder / "edges.npy", np.column_stack([source[once], target[once]]))
    np.save(folder / "nodes.npy", np.int64(graph.num_nodes))
    shapes = [
        {"id": s.id, "k": s.k, "edges": [list(edge) for edge in s.edges], "size": sizes.get(s.id)}
        for s in SHAPES.values()
    ]
    request = {"threads": threads, "seed": seed % 2**62, "shapes": shapes}
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")


def _read_answer(folder: Path, graph: OrderedGraph) -> tuple[dict[int, int], Found]:
    """Totals and occurrences. graph-tool's maps name the nodes of an occurrence, but (in 2.45) not in the
    order of the motif; so the adjacency codes are taken from the graph.
    """
    with np.load(folder / "answer.npz") as answer:
        totals = {int(i): int(text) for i, text in zip(answer["ids"], answer["totals"], strict=True)}
        shape, nodes = answer["shape"], answer["nodes"]
    order = np.argsort(shape, kind="stable")
    shape, nodes = shape[order], nodes[order]
    return totals, Found(shape, nodes, _codes(graph, nodes))


def _codes(graph: OrderedGraph, nodes: np.ndarray) -> np.ndarray:
    """Adjacency codes of occurrences, int64 (m,); -1 padding is adjacent to nothing."""
    n = graph.num_nodes
    keys = np.repeat(np.arange(n, dtype=np.int64), graph.degree) * n + graph.indices
    keys = np.append(keys, n * n)  # so that every search ends at an entry
    codes = np.zeros(len(nodes), np.int64)
    for j in range(1, 5):
        for i in range(j):
            a, b = nodes[:, i].astype(np.int64), nodes[:, j].astype(np.int64)
            wanted = np.where((a >= 0) & (b >= 0), a * n + b, -1)
            codes |= (keys[np.searchsorted(keys, wanted)] == wanted).astype(np.int64) << bit(i, j)
    return codes


@functools.cache
def _has_graph_tool(python: str) -> bool:
    try:
        probe = [*_alone(python), "-c", "import graph_tool.clustering"]
        return subprocess.run(probe, capture_output=True, check=False, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _alone(python: str) -> list[str]:
    """Isolated: neither our environment nor this folder, with its own graph_tool, leads it to our
    packages.
    """
    return [python, "-I"]
