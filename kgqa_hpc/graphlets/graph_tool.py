"""The graph-tool backend: counting and sampling as in the published pipeline, and as a check of our counts.

`graph_tool.clustering.motifs` implements ESU and RAND-ESU (Wernicke 2006) in C++. It enumerates, so it
takes thousands of times longer than graphlets.count. RAND-ESU keeps each occurrence with the same
probability, so sample sizes vary (published: 9,826 to 10,165 for 10,000).

Samples are nested: RAND-ESU is run with the probabilities ..., 1/64, 1/16, 1/4, 1, each with its own seed,
and an occurrence belongs to the first run that keeps it. It gets a *moment* in [0, 1) from this run and a
hash of its nodes, scaled so that the moment is below r with probability exactly r (`_moments`). The sample of
ratio r is all occurrences with moments below r. Ours.

Debian's build needs Debian's own Python and a numpy below 2, so it runs in whichever interpreter has it:
this one, else the one named in KGQA_GRAPH_TOOL_PYTHON, else /usr/bin/python3. Arrays are exchanged by file.
"""

import functools
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.graphlets.kernels.choices import key_of, mix
from kgqa_hpc.graphlets.ordered_graph import OrderedGraph
from kgqa_hpc.graphlets.shapes import SHAPES, Occurrences, bit

VARIABLE = "KGQA_GRAPH_TOOL_PYTHON"
_SYSTEM = "/usr/bin/python3"
RATIO = 0.25  # ratio of the probabilities of consecutive runs
_WORKER = Path(__file__).with_name("graph_tool_worker.py")
_ISOLATED = "-I"  # ignores our environment and this folder, whose graph_tool.py would hide the library


def find_interpreter() -> str | None:
    """The Python that can import graph-tool, or None."""
    if importlib.util.find_spec("graph_tool"):
        return sys.executable
    candidates = [os.environ[VARIABLE]] if os.environ.get(VARIABLE) else [_SYSTEM]
    return next((python for python in candidates if _has_graph_tool(python)), None)


def count(graph: OrderedGraph) -> dict[int, int]:
    """Induced occurrences of the 29 shapes, by enumeration."""
    answer = _ask(graph, {"draws": [], "threads": graph.workers.number})
    return {int(i): int(text) for i, text in zip(answer["ids"], answer["totals"], strict=True)}


def sample(graph: OrderedGraph, sizes: Mapping[int, int], seed: int) -> tuple[dict[int, int], Occurrences]:
    """Exact counts, and a sample with each occurrence of a shape with probability sizes[shape] / total.

    Drawn on one thread, so that the same version of graph-tool gives the same sample.
    """
    totals = count(graph)
    ratios = {s: min(1.0, size / totals[s]) for s, size in sizes.items() if size and totals[s]}
    runs = _runs(ratios, totals)
    draws = [
        {"k": k, "ratio": RATIO**step, "seed": key_of(seed, 5, k, step) % 2**62, "shapes": shapes}
        for k, step, shapes in runs
    ]
    if not draws:
        return totals, Occurrences.empty()
    answer = _ask(graph, {"draws": draws, "threads": 1})
    step = np.array([step for _, step, _ in runs])[answer["draw"]]
    # Rows of the distinct occurrences, each from the run with the smallest probability that kept it.
    order = np.argsort(-step, kind="stable")
    keys = np.column_stack([answer["shape"], np.sort(answer["nodes"], axis=1)])[order]
    arrived = order[np.sort(np.unique(keys, axis=0, return_index=True)[1])]
    shape, nodes, step = answer["shape"][arrived], answer["nodes"][arrived], step[arrived]
    moment = _moments(shape, nodes, step, totals, seed)
    limit, total = np.zeros(len(shape)), np.zeros(len(shape))
    for s, ratio in ratios.items():
        limit[shape == s], total[shape == s] = ratio, totals[s]
    chosen = np.flatnonzero((moment < limit) | (limit == 1.0))
    chosen = chosen[np.argsort(shape[chosen], kind="stable")]
    shape, nodes = shape[chosen], nodes[chosen]
    return totals, Occurrences(shape, nodes, _codes(graph, nodes), (moment * total)[chosen].astype(np.int64))


def _first_step(total: int) -> int:
    """The step of a shape's first run, which keeps about one of its occurrences."""
    return math.ceil(math.log(total) / -math.log(RATIO))


def _arrived_before(step: int, total: int) -> float:
    """Share of a shape's occurrences that runs with a smaller probability return."""
    return 1.0 - math.prod(1.0 - RATIO**i for i in range(step + 1, _first_step(total) + 1))


def _runs(ratios: Mapping[int, float], totals: Mapping[int, int]) -> list[tuple[int, int, list[int]]]:
    """(nodes, step, shapes) of every run of RAND-ESU, each with probability RATIO**step for these shapes."""
    runs: dict[tuple[int, int], list[int]] = {}
    for shape, ratio in sorted(ratios.items()):
        for step in range(_first_step(totals[shape]) + 1):
            if _arrived_before(step, totals[shape]) < ratio:
                runs.setdefault((SHAPES[shape].k, step), []).append(shape)
    return [(k, step, shapes) for (k, step), shapes in sorted(runs.items())]


def _moments(
    shape: np.ndarray, nodes: np.ndarray, step: np.ndarray, totals: Mapping[int, int], seed: int
) -> np.ndarray:
    """The moment of each occurrence, float64 in [0, 1), below r with probability r.

    The occurrences of a run are spread over the interval between the shares kept before and after the run.
    """
    words = mix(shape.astype(np.uint64) ^ np.uint64(key_of(seed, 3)))
    for column in np.sort(nodes, axis=1).T:
        words = mix(words ^ column.astype(np.int64).astype(np.uint64))
    within = (words >> np.uint64(11)).astype(np.float64) / 2**53
    begin, share = np.zeros(len(shape)), np.zeros(len(shape))
    for s in np.unique(shape).tolist():
        before = np.array([_arrived_before(i, totals[s]) for i in range(_first_step(totals[s]) + 1)])
        of_shape = shape == s
        begin[of_shape] = before[step[of_shape]]
        share[of_shape] = (1.0 - before[step[of_shape]]) * RATIO ** step[of_shape]
    return begin + share * within


def _ask(graph: OrderedGraph, request: Mapping[str, object]) -> dict[str, np.ndarray]:
    python = find_interpreter()
    if python is None:
        raise InputError(
            "no Python interpreter with graph-tool was found",
            f"apt install python3-graph-tool, or name a Python that has it in {VARIABLE}",
        )
    with tempfile.TemporaryDirectory(prefix="kgqa-graph-tool-") as name:
        folder = Path(name)
        source = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), graph.degree)
        target = graph.indices.astype(np.int64)
        once = source < target
        np.save(folder / "edges.npy", np.column_stack([source[once], target[once]]))
        np.save(folder / "nodes.npy", np.int64(graph.num_nodes))
        shapes = [{"id": s.id, "k": s.k, "edges": [list(edge) for edge in s.edges]} for s in SHAPES.values()]
        (folder / "request.json").write_text(json.dumps({**request, "shapes": shapes}), encoding="utf-8")
        command = [python, _ISOLATED, str(_WORKER), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise KgqaError(f"graph-tool in {python} failed: {last}", "use the native backend")
        with np.load(folder / "answer.npz") as answer:
            return dict(answer)


def _codes(graph: OrderedGraph, nodes: np.ndarray) -> np.ndarray:
    """Adjacency codes of occurrences, int64 (m,); -1 padding is adjacent to nothing.

    graph-tool's maps name the nodes of an occurrence, but (in 2.45) not in the order of the motif.
    """
    n = graph.num_nodes
    keys = np.repeat(np.arange(n, dtype=np.int64), graph.degree) * n + graph.indices
    keys = np.append(keys, n * n)  # sentinel: every search ends at an entry
    codes = np.zeros(len(nodes), np.int64)
    for j in range(1, 5):
        for i in range(j):
            a, b = nodes[:, i].astype(np.int64), nodes[:, j].astype(np.int64)
            pair_keys = np.where((a >= 0) & (b >= 0), a * n + b, -1)
            codes |= (keys[np.searchsorted(keys, pair_keys)] == pair_keys).astype(np.int64) << bit(i, j)
    return codes


@functools.cache
def _has_graph_tool(python: str) -> bool:
    try:
        probe = [python, _ISOLATED, "-c", "import graph_tool.clustering"]
        return subprocess.run(probe, capture_output=True, check=False, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
