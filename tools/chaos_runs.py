"""Runs for the faults of tools/chaos.py: one of each anchor kind, a study, a target, a plan of scripts."""

import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_preload import KGQA, environment
from chaos_storm import LEASE

NEIGHBOURS = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one AS near\nCOUNT near AS answer"
FAULTS = {"garbage": 0.04, "truncate": 0.02, "error": 0.02, "crash": 0.002}
RUNTIME = {"shard_size": 12, "commit_every": "1s", "lease": f"{LEASE:.0f}s", "engine_stall": "60s"}
GRAPH = {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv", "min_degree": 1, "max_degree": 1000}
JUDGE = ("judge", "--prompt", "demo_filter", "--name", "second")


@dataclass(frozen=True)
class TormentedRun:
    """Sections of a configuration that differ from the common ones, and commands that make the run grow.

    `growth` are commands without the folder of the run, which comes behind the verb.
    """

    anchors: dict[str, Any]
    steps: Sequence[Any] = ()
    growth: Sequence[tuple[str, ...]] = ()
    more: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    request_s: float = 0.4  # so that a run lasts half a minute under torment

    def config(self, seed: int) -> dict[str, Any]:
        passes = [{"name": "main", "steps": list(self.steps)}]
        latency = {"batch": 4, "per_request_s": self.request_s, "jitter": 0.5}
        engine = {"kind": "scripted", "latency": latency, "faults": FAULTS, **self.engine}
        common = {"seed": seed, "graph": GRAPH, "engine": engine, "runtime": RUNTIME}
        sections = {**common, "anchors": self.anchors, "passes": passes, "dataset": {"z_score": None}}
        return {name: value for name, value in {**sections, **self.more}.items() if value is not None}


def _questions(kind: str, steps: Sequence[Any], number: int = 90, **anchors: Any) -> TormentedRun:
    growth = (("extend", "--number", str(number * 4 // 3)),)
    return TormentedRun({"kind": kind, "number": number, **anchors}, steps, growth)


def _worded(prompt: str) -> list[Any]:
    return [{"use": "word", "prompt": prompt}, "verify"]


TWO_PASSES = [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
RUNS = {
    "graphlet": TormentedRun(
        {"per_shape": 8},
        growth=(("extend", "--per-shape", "11"), JUDGE),
        more={"passes": TWO_PASSES, "dataset": None},
    ),
    "path": _questions("path", _worded("path"), length=2, max_answers=5),
    "fact": _questions("fact", _worded("fact"), max_answers=3),
    "hub": _questions("hub", [{"use": "generate", "prompt": "hub"}, "verify"], 36, min_degree=3),
    "context": _questions("context", ["options", "verify"]),
    "puzzle": _questions(
        "puzzle", _worded("puzzle"), 60, length=2, effects={"hits": "raises", "causes": "lowers"}
    ),
    "script": _questions(
        "script",
        _worded("script"),
        45,
        scripts=[
            {"name": "near", "entity": "gene", "asks": "the number of neighbours", "script": NEIGHBOURS}
        ],
    ),
    "plan": TormentedRun(
        {"kind": "hub", "number": 30, "min_degree": 3},
        [{"use": "plan", "prompt": "demo_plan"}],
        (("extend", "--number", "36"),),
        engine={"accept": 0.3},
        request_s=0.15,
    ),
    "abstract": TormentedRun(
        {"kind": "abstract", "documents": ["documents.jsonl"], "names": "names.tsv"},
        ["extract", "organism", "prune", "question_type", "delexicalise"],
        more={"graph": None},
    ),
    "records": TormentedRun(
        {"kind": "records", "from": "calm-graphlet/run", "number": 60},
        [{"use": "judge", "prompt": "filter", "as": "again"}],
        more={"graph": None},
    ),
    "study": TormentedRun(
        {"per_shape": 2}, ["generate", "judge"], more={"variants": {"prompt": ["p1_1", "p2_1", "p5"]}}
    ),
    "target": TormentedRun({"per_shape": 3}, ["generate", "judge"], more={"target": {"accepted": 150}}),
}


def write_inputs(folder: Path, seed: int) -> None:
    """The graph and the documents that all runs of a folder read."""
    choose = random.Random(seed)
    names = [f"N{number}" for number in range(60)]
    types = dict(zip(names, (choose.choice(["gene", "drug", "disease"]) for _ in names), strict=True))
    edges = {tuple(sorted(choose.sample(names, 2))) for _ in range(150)}
    (folder / "nodes.csv").write_text("id,name,type\n" + "".join(f"{n},name {n},{types[n]}\n" for n in names))
    rows = (f"{a},{b},{choose.choice(['hits', 'causes'])}\n" for a, b in sorted(edges))
    (folder / "edges.csv").write_text("source_id,target_id,type\n" + "".join(rows))
    genes = [f"GEN{number}" for number in range(40)]
    with (folder / "documents.jsonl").open("w") as file:
        for number in range(70):
            first, second = choose.sample(genes, 2)
            text = f"{first} binds {second} in mice. Without {first} the cells of Mus musculus die early."
            file.write(json.dumps({"id": f"d{number}", "title": f"On {first}", "text": text}) + "\n")
    (folder / "names.tsv").write_text(
        "protein_name\tgene_names\n" + "".join(f"Protein {gene}\t{gene}\n" for gene in genes)
    )


def prepare(folder: Path, name: str, seed: int) -> Path:
    """A run with anchors, ready for its workers, in FOLDER/prepared-NAME; `records` needs the calm run of graphlets."""
    kind = RUNS[name]
    config = folder / f"{name}.yaml"
    config.write_text(json.dumps(kind.config(seed)))
    run = folder / f"prepared-{name}" / "run"
    kgqa("init", config, run)
    if "graph" in kind.config(seed):
        kgqa("import", run)
    kgqa("sample", run)
    return run


def kgqa(*words: object) -> None:
    """A command without any disturbance. Raises CalledProcessError."""
    subprocess.run([*KGQA, *map(str, words)], check=True, env=environment(), stdout=subprocess.DEVNULL)
