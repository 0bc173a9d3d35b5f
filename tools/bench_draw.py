"""Time to draw the anchors of a kind: `kgqa sample` on the bundled HPO graph and on a made graph of Hetionet's size.

  python tools/bench_draw.py [--graphs hpo hetionet] [--kinds path fact script puzzle] [--number 1000] [--folder F]

The made graph has 47,031 nodes of 11 types, 2,250,197 edges of 24 types and power-law degrees with hubs, as
Hetionet v1.0 has; its structure is random. To compare two versions, run it with PYTHONPATH set to either.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

NODES, EDGES, NODE_TYPES, EDGE_TYPES = 47_031, 2_250_197, 11, 24  # Hetionet v1.0
SCRIPT = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one AS near\nCOUNT near AS answer"
GRAPHS: dict[str, dict[str, Any]] = {
    "hpo": {"entity": "gene", "effects": {"is_a": "raises", "associated_with": "lowers"}},
    "hetionet": {"entity": "T1", "effects": {"R1": "raises", "R2": "lowers"}},
}
KINDS: dict[str, dict[str, Any]] = {
    "path": {"length": 2},
    "path3": {"kind": "path", "length": 3},
    "fact": {"max_answers": 3},
    "script": {"max_answers": 5},
    "puzzle": {"length": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to draw anchors.")
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="Keeps files and runs; default: a temporary folder.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for graph in options.graphs:
            source = {"source": "hpo"} if graph == "hpo" else made_graph(folder)
            for kind in options.kinds:
                measure(folder / f"{graph}-{kind}", source, kind, GRAPHS[graph], options.number)


def measure(folder: Path, graph: dict[str, Any], kind: str, names: dict[str, Any], number: int) -> None:
    from kgqa_hpc import stages

    anchors: dict[str, Any] = {"kind": kind, "number": number, **KINDS[kind]}
    if kind == "script":
        template = {"name": "near", "entity": names["entity"], "asks": "neighbours", "script": SCRIPT}
        anchors["scripts"] = [template]
    if kind == "puzzle":
        anchors["effects"] = names["effects"]
    step = {"use": "word", "prompt": anchors["kind"]}
    config = {
        "graph": graph,
        "anchors": anchors,
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": [step, "verify"]}],
    }
    folder.mkdir(parents=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    run = stages.init(folder / "run.yaml", folder / "run")
    stages.import_graph(run.path)
    begin, cpu = time.perf_counter(), time.process_time()
    sampled = stages.sample(run.path)
    wall, used = time.perf_counter() - begin, time.process_time() - cpu
    print(f"{folder.name}: {sampled.anchors:,} anchors, {wall:.1f} s, {used:.1f} s of CPU", flush=True)


def made_graph(folder: Path) -> dict[str, Any]:
    """Two CSV files with the size of Hetionet; half of the edges end at a few hundred hubs."""
    nodes, edges = folder / "nodes.csv", folder / "edges.csv"
    if not edges.exists():
        chance = np.random.default_rng(1)
        types = chance.integers(NODE_TYPES, size=NODES)
        nodes.write_text(
            "id,name,type\n"
            + "\n".join(f"N{k},name {k},T{kind}" for k, kind in enumerate(types.tolist()))
            + "\n"
        )
        weights = (np.arange(NODES) + 20.0) ** -0.9
        ends = chance.choice(NODES, size=(EDGES, 2), p=weights / weights.sum())
        relation = (types[ends[:, 0]] * 7 + types[ends[:, 1]]) % EDGE_TYPES  # as a schema would have it
        rows = zip(ends[:, 0].tolist(), ends[:, 1].tolist(), relation.tolist(), strict=True)
        edges.write_text("source_id,target_id,type\n" + "".join(f"N{a},N{b},R{r}\n" for a, b, r in rows))
    return {"source": "csv", "nodes": str(nodes), "edges": str(edges)}


if __name__ == "__main__":
    main()
