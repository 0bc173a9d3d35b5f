#!/usr/bin/env python3
"""Time our graph readers beside pandas' and Arrow's own read of the same files.

    tools/bench_readers.py                      1,000,000 edges, 100,000 nodes
    tools/bench_readers.py --edges 10_000_000   more

pandas and Arrow only parse the two CSV files; ours also checks every id, joins edges to nodes and codes the
types. Best of --repeat runs, wall and CPU seconds, each reader in a process of its own, so that peak memory
is its own too.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def write_files(folder: Path, nodes: int, edges: int) -> None:
    """A random graph as CSV, gzipped CSV, triples, GraphML and KGX; ids and names of ordinary length."""
    random = np.random.default_rng(1)
    source, target = random.integers(0, nodes, (2, edges)).tolist()
    kind = random.integers(0, 12, edges).tolist()
    ids = [f"NODE:{number:07d}" for number in range(nodes)]
    rows = [f"{ids[s]},{ids[t]},relation_{k}\n" for s, t, k in zip(source, target, kind, strict=True)]
    names = [f"{key},node number {number},type_{number % 7}\n" for number, key in enumerate(ids)]
    _write(folder / "nodes.csv", ["id,name,type\n", *names])
    _write(folder / "edges.csv", ["source_id,target_id,type\n", *rows])
    for name in ("nodes.csv", "edges.csv"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes(), compresslevel=6))
    triples = (f"{ids[s]}\trelation_{k}\t{ids[t]}\n" for s, t, k in zip(source, target, kind, strict=True))
    _write(folder / "triples.tsv", triples)
    data = '<data key="name">node number {}</data><data key="type">type_{}</data>'
    elements = [f'<node id="{key}">{data.format(n, n % 7)}</node>\n' for n, key in enumerate(ids)]
    elements += [
        f'<edge source="{ids[s]}" target="{ids[t]}"><data key="type">relation_{k}</data></edge>\n'
        for s, t, k in zip(source, target, kind, strict=True)
    ]
    _write(folder / "graph.graphml", ["<graphml><graph>\n", *elements, "</graph></graphml>\n"])

    write_kgx(folder, ids, rows)


def write_kgx(folder: Path, ids: list[str], rows: list[str]) -> None:
    """The same graph as KGX, in tables and as JSON Lines."""
    nodes = [(key, f"node number {number}", f"type_{number % 7}") for number, key in enumerate(ids)]
    edges = [row.rstrip("\n").split(",") for row in rows]
    header = ["id\tname\tcategory\n"]
    _write(folder / "kgx_nodes.tsv", [*header, *("\t".join(node) + "\n" for node in nodes)])
    lines = (f"{source}\t{kind}\t{target}\n" for source, target, kind in edges)
    _write(folder / "kgx_edges.tsv", ["subject\tpredicate\tobject\n", *lines])
    objects = ({"id": key, "name": name, "category": [kind]} for key, name, kind in nodes)
    _write(folder / "kgx_nodes.jsonl", (json.dumps(item) + "\n" for item in objects))
    objects = ({"subject": s, "predicate": kind, "object": t} for s, t, kind in edges)
    _write(folder / "kgx_edges.jsonl", (json.dumps(item) + "\n" for item in objects))


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)


def _pandas(folder: Path) -> None:
    import pandas as pd

    for name in ("nodes.csv", "edges.csv"):
        pd.read_csv(folder / name)


def _pandas_text(folder: Path) -> None:
    import pandas as pd

    # What a graph needs: an id 007 and a gene called NA stay text.
    for name in ("nodes.csv", "edges.csv"):
        pd.read_csv(folder / name, dtype=str, keep_default_na=False)


def _pandas_gz(folder: Path) -> None:
    import pandas as pd

    for name in ("nodes.csv.gz", "edges.csv.gz"):
        pd.read_csv(folder / name)


def _arrow(folder: Path) -> None:
    import pyarrow.csv

    for name in ("nodes.csv", "edges.csv"):
        pyarrow.csv.read_csv(folder / name)


def _source(source: str, **files: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        from kgqa_hpc.kg.settings import graph_config, load_graph

        paths = {key: str(folder / name) for key, name in files.items()}
        load_graph(graph_config({"source": source, **paths}))

    return read


# label -> (reader, the one it is compared with)
READERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pandas read_csv": (_pandas, ""),
    "pandas read_csv, text": (_pandas_text, "pandas read_csv"),
    "arrow read_csv": (_arrow, "pandas read_csv"),
    "kgqa csv": (_source("csv", nodes="nodes.csv", edges="edges.csv"), "pandas read_csv"),
    "pandas read_csv .gz": (_pandas_gz, ""),
    "kgqa csv .gz": (_source("csv", nodes="nodes.csv.gz", edges="edges.csv.gz"), "pandas read_csv .gz"),
    "kgqa triples": (_source("triples", path="triples.tsv"), "pandas read_csv"),
    "kgqa graphml": (_source("graphml", path="graph.graphml"), "pandas read_csv"),
    "kgqa drkg": (_source("drkg", path="triples.tsv"), "pandas read_csv"),
    "kgqa kgx": (_source("kgx", nodes="kgx_nodes.tsv", edges="kgx_edges.tsv"), "pandas read_csv"),
    "kgqa kgx, JSON Lines": (
        _source("kgx", nodes="kgx_nodes.jsonl", edges="kgx_edges.jsonl"),
        "pandas read_csv",
    ),
}


def measure(label: str, folder: Path, repeat: int) -> dict[str, float]:
    """Best wall and CPU seconds of one reader in this process (without imports), and its peak MB."""
    reader = READERS[label][0]
    best = {"wall": float("inf"), "cpu": float("inf")}
    with tempfile.TemporaryDirectory() as small:
        write_files(Path(small), 10, 10)
        reader(Path(small))  # imports and thread pools
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        reader(folder)
        best["wall"] = min(best["wall"], time.perf_counter() - wall)
        best["cpu"] = min(best["cpu"], time.process_time() - cpu)
    # Not getrusage: its peak survives exec, so it would be this script's own while it wrote the files.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {**best, "peak_mb": int(status["VmHWM"].split()[0]) / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("READER", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], Path(options.one[1]), options.repeat)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), options.nodes, options.edges)
        print(f"{options.edges:,} edges, {options.nodes:,} nodes; best of {options.repeat}")
        print(f"{'reader':<24}{'wall s':>9}{'CPU s':>9}{'peak MB':>9}  CPU ratio")
        results: dict[str, dict[str, float]] = {}
        for label, (_, beside) in READERS.items():
            command = [sys.executable, __file__, "--repeat", str(options.repeat), "--one", label, folder]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = results[label] = json.loads(output)
            ratio = f"{found['cpu'] / results[beside]['cpu']:.2f} x {beside}" if beside else ""
            print(f"{label:<24}{found['wall']:>9.2f}{found['cpu']:>9.2f}{found['peak_mb']:>9.0f}  {ratio}")


if __name__ == "__main__":
    main()
