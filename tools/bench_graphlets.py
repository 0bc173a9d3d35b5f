#!/usr/bin/env python3
"""Count and sample graphlets beside graph-tool and python-igraph: CPU seconds, wall, peak memory, ratio.

    tools/bench_graphlets.py                       all graphs, some minutes
    tools/bench_graphlets.py --graphs oregano hpo  only these
    tools/bench_graphlets.py --quick               one small graph, nothing extrapolated, in seconds
    tools/bench_graphlets.py --json                the same as one JSON document

Each figure comes from a process of its own, which has run its kernels once before: user CPU seconds of the work
alone, and the peak memory of the whole process. Where a peer would take too long, its time is extrapolated from its
CPU seconds per occurrence: the peer counts from a random share of the roots of its search tree (its own option). On
graphs with hubs, where a single root would take hours, it counts the graph without a random share of the nodes, which
favours the peer. The share is printed. graph-tool and igraph only count here: to sample, graph-tool (RAND-ESU) repeats
its whole enumeration at least once, and that time is given. `slow` is the time of a loop of Python additions over that
on an idle 2.5 GHz core (0.6 s for ten million): divide by it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# numpy and kgqa_hpc are imported where needed: graph-tool's Python has others
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

PER_SHAPE = 10_000
PEER_OCCURRENCES = {
    "igraph": 3e7,
    "graph-tool": 4e6,
}  # upper limit of the occurrences it counts: about half a minute
FEWEST_ROOTS = 20
IDLE_LOOP = 0.06  # s for a million additions
BOTH = ("count", "sample")


def _twin() -> tuple:
    from synthetic_graphs import oregano_twin

    return oregano_twin()


def _hubs() -> tuple:
    from synthetic_graphs import hub_graph

    return hub_graph()


def _small() -> tuple:
    return _thinned(_twin(), 0.2)


def _hpo() -> tuple:
    from kgqa_hpc.kg.reduce import reduce_to
    from kgqa_hpc.kg.settings import GraphConfig
    from kgqa_hpc.kg.sources.hpo import read_hpo

    return reduce_to(read_hpo(), GraphConfig()).graph.csr()


def _whole_hpo() -> tuple:
    """All that HPO's files say: terms of every branch, diseases, and genes linked to terms; nothing left
    out.
    """
    import csv

    import numpy as np

    from kgqa_hpc.kg.graph import simple_csr
    from kgqa_hpc.kg.sources.hpo import installed_data

    folder, number, edges = installed_data()[1], {}, []

    def link(a: str, b: str) -> None:
        edges.append((number.setdefault(a, len(number)), number.setdefault(b, len(number))))

    for stanza in (folder / "hp.obo").read_text(encoding="utf-8").split("\n\n"):
        lines = stanza.strip().splitlines()
        if lines[:1] == ["[Term]"] and "is_obsolete: true" not in lines:
            for line in lines:
                if line.startswith("is_a: "):
                    link(lines[1][4:], line[6:].split(" ")[0])
    for name, left, prefix in (
        ("phenotype.hpoa", "database_id", ""),
        ("genes_to_phenotype.txt", "ncbi_gene_id", "gene "),
    ):
        with (folder / name).open(encoding="utf-8") as file:
            rows = csv.DictReader((line for line in file if line[0] != "#"), delimiter="\t")
            for row in rows:
                if row.get("qualifier") != "NOT":
                    link(prefix + row[left], row["hpo_id"])
    return simple_csr(len(number), *np.array(edges).T)


# name -> (description, function that makes the graph, tasks)
GRAPHS: dict[str, tuple[str, Callable[[], tuple], tuple[str, ...]]] = {
    "hpo": ("HPO, reduced", _hpo, BOTH),
    "oregano": ("twin of OREGANO reduced", _twin, BOTH),
    "whole-hpo": ("HPO, not reduced", _whole_hpo, BOTH),
    "hubs": ("ten million edges with hubs", _hubs, ("sample",)),
    "small": ("a fifth of the nodes of the twin", _small, BOTH),
}


def _thinned(csr: tuple, share: float) -> tuple:
    """The graph on a random share of the nodes."""
    import numpy as np

    from kgqa_hpc.kg.graph import simple_csr

    indptr, indices = csr
    keep = np.random.default_rng(1).random(len(indptr) - 1) < share
    source = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    inside = keep[source] & keep[indices]
    number = np.cumsum(keep) - 1
    return simple_csr(int(keep.sum()), number[source[inside]], number[indices[inside]])


def make(name: str, path: Path) -> dict[str, int]:
    """Write a graph to `path` (.npz)."""
    import numpy as np

    indptr, indices = GRAPHS[name][1]()
    np.savez(path, indptr=indptr, indices=indices)
    return {
        "nodes": len(indptr) - 1,
        "edges": len(indices) // 2,
        "max_degree": int(np.diff(indptr).max()),
    }


def part_of(peer: str, path: Path, occurrences: float) -> dict[str, object]:
    """The part of the graph for a peer: {"roots": share of the roots, "nodes": share of the nodes, "path"}."""
    import numpy as np

    from kgqa_hpc.graphlets.count import count_graphlets

    with np.load(path) as arrays:
        csr = arrays["indptr"], arrays["indices"]
    roots = min(1.0, PEER_OCCURRENCES[peer] / max(occurrences, 1))
    if roots == 1.0 or roots * (len(csr[0]) - 1) >= FEWEST_ROOTS:
        return {"roots": roots, "nodes": 1.0, "path": str(path)}
    share, part, left = 1.0, csr, occurrences
    while left > PEER_OCCURRENCES[peer]:
        # Occurrences of five nodes fall with the fifth power of the share.
        share *= min(0.9, (PEER_OCCURRENCES[peer] / left) ** 0.2)
        part = _thinned(csr, share)
        left = sum(count_graphlets(part).values())
    target = path.with_suffix(f".{peer}.npz")
    np.savez(target, indptr=part[0], indices=part[1])
    return {"roots": 1.0, "nodes": share, "path": str(target), "occurrences": left}


def _work(program: str, task: str, csr: tuple, roots: float) -> Callable[[], object]:
    """The work that is measured, after everything it needs was imported, compiled and converted."""
    if program == "kgqa":
        from kgqa_hpc.compile_kernels import compile_kernels
        from kgqa_hpc.graphlets.count import count_graphlets
        from kgqa_hpc.graphlets.sample import sample_graphlets

        compile_kernels()
        if task == "count":
            return lambda: count_graphlets(csr)
        return lambda: sample_graphlets(csr, per_shape=PER_SHAPE, seed=1)
    pairs = [(v, int(w)) for v in range(len(csr[0]) - 1) for w in csr[1][csr[0][v] : csr[0][v + 1]] if v < w]
    if program == "igraph":
        import igraph

        graph = igraph.Graph(n=len(csr[0]) - 1, edges=pairs)
        return lambda: [graph.motifs_randesu(size=k, cut_prob=[1 - roots] + [0] * (k - 1)) for k in (3, 4, 5)]
    import graph_tool
    import graph_tool.clustering

    other = graph_tool.Graph(directed=False)
    other.add_vertex(len(csr[0]) - 1)
    other.add_edge_list(pairs)
    graph_tool.openmp_set_num_threads(1)
    graph_tool.seed_rng(1)
    return lambda: [graph_tool.clustering.motifs(other, k, p=[roots] + [1.0] * (k - 1)) for k in (3, 4, 5)]


def _slowness() -> float:
    start, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return (time.process_time() - start) / IDLE_LOOP


def measure(program: str, task: str, path: Path, roots: float = 1.0) -> dict[str, float]:
    """Figures of one piece of work in this process."""
    import numpy as np

    with np.load(path) as arrays:
        csr = arrays["indptr"], arrays["indices"]
    work = _work(program, task, csr, roots)
    slow = _slowness()
    before, wall, cpu = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter(), time.process_time()
    result = work()
    cpu = time.process_time() - cpu
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - wall
    # Not ru_maxrss: it survives exec, so it could be another process's peak.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        # The kernel divides processor time by what it saw at its ticks: of a few hundredths, all may be the system's.
        "user": after.ru_utime - before.ru_utime or cpu,
        "system": after.ru_stime - before.ru_stime,
        "wall": wall,
        "peak_mb": int(status["VmHWM"].split()[0]) / 1024,
        "slow": (slow + _slowness()) / 2,
        "plan": getattr(getattr(result, "plan", None), "text", ""),
        "sampled": len(result) if task == "sample" else 0,
        "occurrences": _total(program, task, result),
    }


def _total(program: str, task: str, result: Any) -> int:
    if program == "kgqa":
        return sum((result.totals if task == "sample" else result).values())
    counts = [number for part in result for number in (part if program == "igraph" else part[1])]
    return int(sum(number for number in counts if number == number))  # igraph: NaN where not connected


def _child(python: str, *arguments: object) -> dict:
    alone = ["-I"] if python != sys.executable else []
    command = [python, *alone, __file__, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
    return json.loads(done.stdout)


def interpreters() -> dict[str, str | None]:
    """The Python that has each peer, or None."""
    import importlib.util

    from kgqa_hpc.graphlets.graph_tool import find_interpreter

    return {
        "igraph": sys.executable if importlib.util.find_spec("igraph") else None,
        "graph-tool": find_interpreter(),
    }


def compare(name: str, folder: Path, peers: bool) -> dict:
    """All measurements on one graph: {"graph", "nodes", …, "rows": [{"program", "task", "user", …}]}."""
    path = folder / f"{name}.npz"
    facts = _child(sys.executable, "--make", name, path)
    rows = [
        {"program": "kgqa", "task": task, **_child(sys.executable, "--one", "kgqa", task, path), "basis": ""}
        for task in GRAPHS[name][2]
    ]
    facts["occurrences"] = rows[-1]["occurrences"]
    for peer, python in interpreters().items() if peers else ():
        if python is None:
            rows.append({"program": peer, "task": "count", "basis": "NOT INSTALLED"})
            continue
        part = _child(sys.executable, "--part", peer, path, facts["occurrences"])
        found = _child(python, "--one", peer, "count", part["path"], "--roots", part["roots"])
        if part["roots"] == 1.0 and found["occurrences"] != part.get("occurrences", facts["occurrences"]):
            sys.exit(f"{peer} counts {found['occurrences']:,} on {part['path']}, and we do not")
        if part["roots"] * part["nodes"] < 1.0:
            rate = found["user"] / max(found["occurrences"], 1)
            which = "nodes" if part["nodes"] < 1.0 else "roots"
            basis = f"extrapolated: {1e6 * rate:.3g} us an occurrence, {found['occurrences']:.3g} in "
            found["basis"] = basis + f"{part[which]:.2%} of the {which}"
            found |= {"user": rate * facts["occurrences"], "wall": None, "peak_mb": None}
        rows.append({"program": peer, "task": "count", "basis": "", **found})
        if peer == "graph-tool" and "sample" in GRAPHS[name][2]:
            # RAND-ESU thins all shapes alike, so a full sample of rare shapes needs its whole search again.
            twice = {"user": 2 * found["user"], "basis": "at least: one more whole enumeration"}
            rows.append({"program": peer, "task": "sample", **twice})
    ours = {row["task"]: row["user"] for row in rows if row["program"] == "kgqa"}
    for row in rows:
        row["ratio"] = {task: row["user"] / own for task, own in ours.items()} if "user" in row else {}
    return {"graph": name, "about": GRAPHS[name][0], **facts, "rows": rows}


def text_of(result: dict) -> str:
    """A table for people."""
    lines = [
        f"{result['about']}: {result['nodes']:,} nodes, {result['edges']:,} edges, "
        f"hubs of {result['max_degree']:,}, {result['occurrences']:.3g} occurrences",
        f"  {'program':<11}{'work':<22}{'user s':>11}{'wall s':>9}{'peak MB':>9}{'slow':>6}"
        f"{'/count':>11}{'/sample':>11}",
    ]
    for row in result["rows"]:
        work = "count" if row["task"] == "count" else f"count, {PER_SHAPE:,} each"
        cells = [
            (f"{row['user']:,.2f}" if row["user"] < 1e6 else f"{row['user']:.3g}") if "user" in row else "-",
            f"{row['wall']:,.2f}" if row.get("wall") is not None else "-",
            f"{row['peak_mb']:,.0f}" if row.get("peak_mb") is not None else "-",
            f"{row['slow']:.1f}" if "slow" in row else "-",
            *(f"{row['ratio'][task]:,.4g}x" if task in row["ratio"] else "-" for task in BOTH),
        ]
        widths = (11, 9, 9, 6, 11, 11)
        numbers = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"  {row['program']:<11}{work:<22}{numbers}  {row['basis'] or row.get('plan', '')}")
    return "\n".join(lines)


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=[g for g in GRAPHS if g != "small"])
    parser.add_argument("--quick", action="store_true", help="only the graph `small`")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument("--json", action="store_true", help="one document instead of tables")
    parser.add_argument("--make", nargs=2, metavar=("GRAPH", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--part", nargs=3, metavar=("PEER", "FILE", "TOTAL"), help=argparse.SUPPRESS)
    parser.add_argument("--roots", type=float, default=1.0, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, metavar=("PROGRAM", "TASK", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        print(json.dumps(make(options.make[0], Path(options.make[1]))))
        return
    if options.part:
        print(json.dumps(part_of(options.part[0], Path(options.part[1]), float(options.part[2]))))
        return
    if options.one:
        print(json.dumps(measure(*options.one[:2], Path(options.one[2]), options.roots)))
        return
    # Compiled once here, loaded by all others.
    subprocess.run([sys.executable, "-m", "kgqa_hpc.compile_kernels"], check=True, cwd=ROOT)
    results = []
    with tempfile.TemporaryDirectory(prefix="kgqa-bench-") as folder:
        for name in ["small"] if options.quick else options.graphs:
            results.append(compare(name, Path(folder), not options.no_peers))
            if not options.json:
                print(text_of(results[-1]), flush=True)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
