#!/usr/bin/env python3
"""Measure the cost of a whole run without a model: each command from import to report, in a process of its own.

    tools/bench_run.py                                       1,000,000 items in shards of 50, in a temporary folder
    tools/bench_run.py --items 20000 --workers 1 --json
    tools/bench_run.py --folder /scratch/me/bench            kept there; stages that are done are not done again
    tools/bench_run.py --folder /scratch/me/bench --until sample       a part now, the rest later
    tools/bench_run.py --run-for 600                         stop the workers after ten minutes, merge what is done

The graph is a twin of the published one (tools/synthetic_graphs.py, scaled down with few items), the anchors are
graphlets of its ten most frequent shapes, and the scripted engine answers at once: only our own work is measured.
Printed are wall time, processor time (of all processes of a stage), the peak memory of its largest process, and the
number of finished items. On a busy machine look at processor time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# Of these the graph has more than a million each: paths, stars, forks, squares, pentagons with few edges.
SHAPES = [1, 3, 4, 5, 9, 10, 11, 13, 16, 20]
STOPPED_EARLY = 75  # the exit code of `kgqa run` that was told to stop
CUT = """
import sys
from pathlib import Path
from kgqa_hpc.runs import run_config
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.run_folder import RunFolder
run = RunFolder.open(Path(sys.argv[1]))
partition(run, run_config(run).runtime.shard_size)
"""
KGQA = (sys.executable, "-m", "kgqa_hpc")
STAGES: dict[str, tuple[str, ...]] = {
    "import": (*KGQA, "import"),
    "sample": (*KGQA, "sample"),
    "partition": (sys.executable, "-c", CUT),  # the lead's first work in `kgqa run`
    "status before": (*KGQA, "status"),
    "run": (*KGQA, "run"),
    "status after": (*KGQA, "status"),
    "merge": (*KGQA, "merge", "--partial"),
    "report": (*KGQA, "report"),
}


@dataclass(frozen=True)
class Cost:
    """Cost of one stage: wall and processor seconds, and the peak memory of its largest process."""

    stage: str
    seconds: float
    cpu_s: float
    peak_mb: int
    items: int  # that had ended when the stage ended

    def line(self) -> str:
        return (
            f"{self.stage:<14} {self.seconds:>9.1f} {self.cpu_s:>9.1f} {self.peak_mb:>9,} {self.items:>10,}"
        )


def make_run(folder: Path, items: int, shard_size: int) -> None:
    """The graph's tables, a configuration, and the empty run folder/run."""
    from tools.synthetic_graphs import Recipe, oregano_twin

    large = items > 100_000
    recipe = Recipe() if large else Recipe(nodes=3_000, loose=6_000, families=20, stray=300)
    indptr, indices = oregano_twin(recipe=recipe)
    nodes = len(indptr) - 1
    with (folder / "nodes.csv").open("w") as table:
        table.write("id,name,type\n")
        table.writelines(f"N{n},a node that is called {n},type {n % 11}\n" for n in range(nodes))
    source = np.repeat(np.arange(nodes), np.diff(indptr))
    once = source < indices
    with (folder / "edges.csv").open("w") as table:
        table.write("source_id,target_id,type\n")
        pairs = zip(source[once].tolist(), indices[once].tolist(), strict=True)
        table.writelines(f"N{a},N{b},relation {(a + b) % 18}\n" for a, b in pairs)
    config = {
        "graph": {
            "source": "csv",
            "nodes": "nodes.csv",
            "edges": "edges.csv",
            "min_degree": 1,
            "max_degree": 1000,
        },
        "anchors": {"per_shape": -(-items // len(SHAPES)), "shapes": SHAPES},
        "engine": {"kind": "scripted"},
        "runtime": {"shard_size": shard_size},
    }
    (folder / "run.yaml").write_text(json.dumps(config))
    subprocess.run(
        [*KGQA, "init", folder / "run.yaml", folder / "run"],
        check=True,
        env=_environment(),
        stdout=sys.stderr,
    )


def measure(stage: str, run: Path, options: argparse.Namespace, log: Path) -> Cost:
    """Run one stage to its end. Raises SystemExit with its output if it fails."""
    began = time.monotonic()
    with log.open("ab") as said:
        team = [
            subprocess.Popen([*STAGES[stage], run], env=_environment(), stdout=said, stderr=said)
            for _ in range(options.workers if stage == "run" else 1)
        ]
    if stage == "run" and options.run_for:
        alarm = threading.Timer(options.run_for, lambda: [process.terminate() for process in team])
        alarm.start()
    ends = [os.wait4(process.pid, 0) for process in team]
    seconds = time.monotonic() - began
    if stage == "run" and options.run_for:
        alarm.cancel()
    codes = {os.waitstatus_to_exitcode(status) for _, status, _ in ends}
    if not codes <= {0, STOPPED_EARLY if stage == "run" else 0}:
        sys.exit(f"{stage} failed:\n{log.read_text()[-2000:]}")
    usages = [usage for _, _, usage in ends]  # resource usage of each process and its children
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    peak = max(usage.ru_maxrss for usage in usages) // 1024
    return Cost(stage, round(seconds, 2), round(cpu, 2), peak, _ended(run, stage))


def _ended(run: Path, stage: str) -> int:
    if stage in ("import", "sample"):
        return 0
    said = subprocess.run(
        [*KGQA, "status", "--json", run], check=True, capture_output=True, env=_environment()
    )
    return int(json.loads(said.stdout)["items"]["ended"])


def _environment() -> dict[str, str]:
    foreign = ("SLURM_", "OMPI_", "PMI", "PRTE_", "KGQA_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return clean | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), clean.get("PYTHONPATH")]))}


def work_through(folder: Path, options: argparse.Namespace) -> list[Cost]:
    """The stages up to options.until that were not measured in this folder before, and those that were."""
    costs_file = folder / "costs.json"
    if not (folder / "run").exists():
        make_run(folder, options.items, options.shard_size)
    costs = [Cost(**each) for each in json.loads(costs_file.read_text())] if costs_file.exists() else []
    wanted = list(STAGES)[: list(STAGES).index(options.until) + 1]
    for stage in wanted[len(costs) :]:
        costs.append(measure(stage, folder / "run", options, folder / "said.log"))
        costs_file.write_text(json.dumps([asdict(cost) for cost in costs]))
        if not options.json:
            print(costs[-1].line(), flush=True)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000_000, help="number of items (default 1,000,000)")
    parser.add_argument("--shard-size", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2, help="processes of `kgqa run` (default 2)")
    parser.add_argument("--run-for", type=float, help="s until the workers are told to stop")
    parser.add_argument("--folder", type=Path, help="a folder on the file system to measure, kept")
    parser.add_argument(
        "--until", choices=list(STAGES), default=list(STAGES)[-1], help="the last stage to do"
    )
    parser.add_argument("--json", action="store_true", help="one document instead of a table")
    options = parser.parse_args()
    if not options.json:
        print(f"{'stage':<14} {'wall s':>9} {'CPU s':>9} {'peak MB':>9} {'items':>10}")
    with tempfile.TemporaryDirectory(prefix="kgqa-bench-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        costs = work_through(folder, options)
    if options.json:
        print(json.dumps({"items": options.items, "stages": [asdict(cost) for cost in costs]}))


if __name__ == "__main__":
    main()
