#!/usr/bin/env python
"""Measure the cost of `kgqa merge` beside a plain rewrite of its records: JSON lines in, Parquet and JSON lines out.

    tools/bench_merge.py --items 131223                 makes a run with texts as long as published, in a temp folder
    tools/bench_merge.py --items 1000000 --folder DIR   keeps it there for the next time
    tools/bench_merge.py --near variants                near duplicates are looked for too
    tools/bench_merge.py --items 10000000 --length 0.2 --merge-only     as many as fit on a disk of 60 GB

Prints wall time, processor time and peak memory (of all processes together, shared pages once, looked at ten times a
second; of the main process; of its largest worker) of `kgqa merge` and of a plain rewrite of its records by pyarrow,
each in a process of its own, and the ratio. On a busy machine look at processor time. Questions are copies of 3,000;
with `--near variants` each copy has a number of its own at its end, with `--near distinct` no two are alike.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
ENGINE = {"name": "scripted", "version": "1", "model": "bench", "digest": "0", "quantisation": "none"}
MEASURED = """
import json, resource, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
start = time.perf_counter()
{code}
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu = sum(one.ru_utime + one.ru_stime for one in usage)
main, worker = (one.ru_maxrss // 1024 for one in usage)
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "cpu": cpu, "memory_mb": main, "worker_mb": worker}}))
"""
MERGE = """
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.run_folder import RunFolder
merge(RunFolder(Path(sys.argv[1])))
"""
REWRITE = """
import pyarrow.json as pj, pyarrow.parquet as pq
folder, out = Path(sys.argv[1]) / "dataset", Path(sys.argv[2])
for name in ("accepted", "rejected"):
    source = folder / f"{name}.jsonl"
    schema = pq.read_schema(next(folder.glob(f"{name}-*.parquet")))
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    batches = pj.open_json(source, pj.ReadOptions(block_size=8 << 20), parse)
    with pq.ParquetWriter(out / f"{name}.parquet", schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
    with source.open("rb") as lines, (out / f"{name}.jsonl").open("wb") as copy:
        while block := lines.read(1 << 20):
            copy.write(block)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=131_223)
    parser.add_argument("--folder", type=Path, help="folder of the run, which is kept")
    parser.add_argument(
        "--near",
        choices=("copies", "variants", "distinct"),
        help="kind of near duplicates among the questions",
    )
    parser.add_argument("--length", type=float, default=1.0, help="of texts, relative to the published")
    parser.add_argument("--merge-only", action="store_true", help="do not rewrite the records by pyarrow")
    parser.add_argument("--rounds", type=int, default=1, help="interleaved measurements")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = (options.folder or Path(scratch)) / "run"
        if not run.exists():
            make_run(run, options.items, options.near, options.length)
        for _ in range(options.rounds):
            merged = measure(MERGE, run)
            if options.merge_only:
                print(json.dumps({"items": options.items, "merge": merged}))
                continue
            plain = measure(REWRITE, run, Path(scratch))
            ratio = {name: round(merged[name] / plain[name], 2) for name in ("seconds", "cpu")}
            print(json.dumps({"items": options.items, "merge": merged, "rewrite": plain, "ratio": ratio}))


def measure(code: str, *arguments: Path) -> dict[str, Any]:
    """Wall and processor seconds and peak megabytes of a piece of code in a process of its own."""
    os.sync()  # flush the previous measurement's writes
    program = MEASURED.format(root=str(ROOT), code=code)
    # Environment of a new process: the package, if make_run has loaded it here, has changed this one's.
    clean = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    together = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean) as process:
        while process.poll() is None:
            together = max(together, family_memory(process.pid))
            time.sleep(0.1)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode:
        raise SystemExit(process.returncode)
    return {**json.loads(output), "together_mb": together >> 10}


def family_memory(pid: int) -> int:
    """Memory of a process and its descendants in kB; a page that n of them share counts 1/n in each (Pss)."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return 0
    own = next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return own + sum(map(family_memory, map(int, children)))


def make_run(path: Path, items: int, near: str | None = None, length: float = 1.0) -> None:
    """A finished run with graphlets of three nodes and texts as long as published, half of them accepted."""
    from kgqa_hpc.config import parse_config
    from kgqa_hpc.runs import fingerprint
    from kgqa_hpc.store.partition import partition
    from kgqa_hpc.store.run_folder import RunFolder
    from kgqa_hpc.store.shards import write_anchors, write_result

    search = {"dataset": {"duplicates": {"exact": False, "near": 0.9}}} if near else {}
    config = parse_config({"engine": {"kind": "scripted"}} | search, "bench")
    run = RunFolder.create(path, config.model_dump(mode="json"), fingerprint(config))
    write_anchors(run.anchors, (anchor(number) for number in range(items)), run_header(run))
    run.results("main").mkdir(parents=True)
    made = records(items, near, length)
    for shard in partition(run, 512).shards:
        origin = run.origin("main").header(shard.name, shard.sha256)
        write_result(run.result("main", shard.name), [next(made) for _ in range(shard.items)], origin)


def run_header(run: Any) -> dict[str, Any]:
    from kgqa_hpc.store.fingerprint import anchors_origin

    return {"seed": 42, "totals": {"shape 1": 1}, **anchors_origin(run.manifest().sections)}


def anchor(number: int) -> dict[str, Any]:
    return {
        "id": f"g01-{number:016x}",
        "kind": "graphlet",
        "group": "shape 1",
        "nodes": [[f"N:{number}:{i}", f"name {number}-{i}", "Gene"] for i in range(3)],
        "relations": [[0, 1, "binds"], [1, 2, "binds"], [0, 1, "treats"]],
        "weight": 1.0,
        "data": {"shape": 1},
    }


def records(items: int, near: str | None, length: float) -> Iterator[dict[str, Any]]:
    rng = random.Random(1)
    vocabulary = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(5000)
    ]
    texts = [" ".join(rng.choices(vocabulary, k=130)) for _ in range(3000)]
    for number in range(items):
        question = rng.choice(texts)
        if near == "distinct":
            question = " ".join(random.Random(number).choices(vocabulary, k=40))
        own = f" {number}" if near == "variants" else ""
        pair = {
            "question": f"{question[: int(237 * length) - len(own)]}{own}?",
            "answer": f"{rng.choice(texts)[: int(527 * length)]}.",
        }
        verdict = {
            name: rng.choice(texts)[: int(250 * length)]
            for name in ("question_reasoning", "my_answer", "answer_reasoning")
        }
        good = rng.random() < 0.47
        verdict |= {"valid_question": True, "original_answer_valid": good}
        yield {
            "id": f"g01-{number:016x}",
            "status": "accepted" if good else "rejected",
            "reason": None if good else "judge: invalid answer",
            "output": pair,
            "verdicts": {"judge": verdict},
            "features": {},
            "annotations": {},
            "records": None,
            "decided": True,
            "trace": [request("generate", pair, number), request("judge", verdict, number)],
        }


def request(step: str, answer: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "step": step,
        "attempt": 0,
        "prompt": {"name": "bench", "sha256": "0" * 64},
        "engine": ENGINE,
        "seed": number,
        "temperature": 0.0,
        "text": json.dumps(answer),
        "finish": "stop",
        "error": None,
        "repaired": False,
        "tokens": {"prompt": 1200, "completion": 300, "cached": 1000},
    }


if __name__ == "__main__":
    main()
