#!/usr/bin/env python3
"""Measure time and memory of `kgqa import` and `kgqa sample` on large generated graphs.

    tools/bench_large_graph.py --edges 1_000_000 10_000_000
    tools/bench_large_graph.py --edges 100_000_000 220_000_000 --folder /scratch     27 GB of disk for the larger

A graph with hubs (Chung and Lu's, generated) is written as nodes.csv and edges.csv, then `kgqa init`, `import` and
`sample` (10,000 of each shape) run on it, each a process of its own, as a user runs them; writing the files is not
counted. Nodes below degree 3 are dropped; hubs up to --max-degree stay. Prints for each size CPU and wall seconds,
peak memory, the number of remaining edges, of full samples (of 29), of totals that are estimates, and the largest
relative error of these.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

ROWS = 2_000_000  # written at a time
DRAWS = 0.987  # edges that are left of so many drawn, in the graph of ten million


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, nargs="+", default=[1_000_000])
    parser.add_argument(
        "--folder", type=Path, help="for files and runs; default: the folder for temporary files"
    )
    parser.add_argument("--max-degree", type=int, default=10**9)
    parser.add_argument("--per-shape", type=int, default=10_000)
    options = parser.parse_args()
    for edges in options.edges:
        folder = Path(tempfile.mkdtemp(prefix="large-graph-", dir=options.folder))
        try:
            written = write_files(folder, edges)
            print(json.dumps({"edges": written} | whole_way(folder, options)), flush=True)
        finally:
            shutil.rmtree(folder)
    return 0


def write_files(folder: Path, edges: int) -> int:
    """Files of a graph of about so many edges; returns how many there are. Ten edges a node, ids of CURIE form."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from synthetic_graphs import hub_graph

    nodes = edges // 10
    indptr, indices = hub_graph(nodes=nodes, draws=int(edges / DRAWS))
    numbers = np.arange(nodes)
    kinds = pa.array((numbers % 7).astype("U"))
    table = pa.table({"id": _texts("N:", numbers), "name": _texts("node number ", numbers), "type": kinds})
    arrow_csv.write_csv(table, folder / "nodes.csv")
    del numbers, kinds, table
    schema = pa.schema([(name, pa.string()) for name in ("source_id", "target_id", "type")])
    total = 0
    with arrow_csv.CSVWriter(folder / "edges.csv", schema) as file:
        for first in range(0, len(indices), ROWS):
            places = np.arange(first, min(first + ROWS, len(indices)))
            source = np.searchsorted(indptr, places, side="right") - 1
            target = indices[places]
            once = source < target
            columns = [
                _texts("N:", source[once]),
                _texts("N:", target[once]),
                pa.array((places[once] % 12).astype("U")),
            ]
            file.write_batch(pa.record_batch(columns, schema=schema))
            total += int(once.sum())
    return total


def _texts(before: str, numbers: np.ndarray) -> object:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(before, pa.array(numbers).cast(pa.string()), "")


def whole_way(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    run = folder / "run"
    config = folder / "run.yaml"
    graph = {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv", "max_degree": options.max_degree}
    anchors = {"per_shape": options.per_shape}
    config.write_text(json.dumps({"graph": graph, "anchors": anchors, "engine": {"kind": "scripted"}}))
    measured("init", config, run)
    figures = {name: measured(name, run) for name in ("import", "sample")}
    with (run / "stats" / "graphlets.csv").open(encoding="utf-8") as file:
        shapes = list(csv.DictReader(file))
    errors = [
        float(s["standard_error"]) / max(float(s["total"]), 1) for s in shapes if float(s["standard_error"])
    ]
    full = sum(int(s["sampled"]) >= min(options.per_shape, int(float(s["total"]))) for s in shapes)
    return figures | {
        "full_samples": full,
        "estimated_totals": len(errors),
        "largest_relative_error": round(max(errors, default=0.0), 5),
    }


def measured(*words: object) -> dict[str, float]:
    """CPU seconds, wall seconds and peak memory (GB) of one command of kgqa."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "kgqa_hpc", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words[0]} failed:\n{said.decode()}")
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "wall_s": round(time.monotonic() - start, 1),
        "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
