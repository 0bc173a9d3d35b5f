#!/usr/bin/env python3
"""Torment a run in every way at once, and compare the dataset's bytes with those of an undisturbed one.

    tools/chaos.py --minutes 2 --seed 1     about as many rounds as fit; exit 0 when all held, 1 with what did not
    tools/chaos.py --minutes 60 --seed 7 --keep DIR

Workers with scripted engines, merges and looks at the status run together under kill -9 (of workers and
engines), stops beyond the lease, signals, bursts of EIO, ESTALE, EACCES and ENOENT, full disks, and clocks
an hour off that jump (tools/chaos_preload.c, compiled with cc). The seed settles what is done to whom and
when; which instruction it hits, the machine does. Must hold: the dataset has the bytes of the undisturbed
run, each look adds up and never goes back, every merge that says 0 leaves checksums that fit, nothing is set
aside, nothing hangs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from chaos_preload import KGQA, compile_preload, environment
from chaos_storm import LEASE, Broken, Storm

CONFIG = {
    "graph": {
        "source": "csv",
        "nodes": "nodes.csv",
        "edges": "edges.csv",
        "min_degree": 1,
        "max_degree": 1000,
    },
    "anchors": {"per_shape": 25},
    "engine": {
        "kind": "scripted",
        "latency": {"batch": 4, "per_request_s": 0.12, "jitter": 0.5},
        "faults": {"garbage": 0.04, "truncate": 0.02, "error": 0.02, "crash": 0.002},
    },
    "passes": [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}],
    "runtime": {"shard_size": 12, "commit_every": "1s", "lease": f"{LEASE:.0f}s", "engine_stall": "60s"},
}


def prepare(folder: Path, seed: int) -> Path:
    """A run with anchors, ready for its workers."""
    choose = random.Random(seed)
    names = [f"N{number}" for number in range(60)]
    edges = {tuple(sorted(choose.sample(names, 2))) for _ in range(150)}
    (folder / "nodes.csv").write_text("id,name,type\n" + "".join(f"{n},name {n},T{n[-1]}\n" for n in names))
    rows = "".join(f"{a},{b},near\n" for a, b in sorted(edges))
    (folder / "edges.csv").write_text("source_id,target_id,type\n" + rows)
    (folder / "config.yaml").write_text(json.dumps({"seed": seed, **CONFIG}))
    run = folder / "prepared" / "run"
    for words in (
        ["init", str(folder / "config.yaml"), str(run)],
        ["import", str(run)],
        ["sample", str(run)],
    ):
        subprocess.run([*KGQA, *words], check=True, env=environment(), stdout=subprocess.DEVNULL)
    return run


def sums(dataset: Path) -> dict[str, str]:
    """The sha256 of each file of a dataset."""
    files = sorted(path for path in dataset.rglob("*") if path.is_file())
    return {str(path.relative_to(dataset)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def rounds(place: Path, library: Path, seed: int, seconds: float, seen: Counter[str]) -> Iterator[int]:
    """Storm after storm until they have raged so long; yields after each that held. Raises Broken."""
    prepared = prepare(place, seed)
    calm = place / "calm" / "run"
    shutil.copytree(prepared, calm)
    subprocess.run([*KGQA, "run", calm], env=environment(), check=True, stderr=subprocess.DEVNULL)
    subprocess.run([*KGQA, "merge", calm], env=environment(), check=True, stdout=subprocess.DEVNULL)
    expected = sums(calm / "dataset")
    until = time.monotonic() + seconds
    number = 0
    while number == 0 or time.monotonic() < until:
        folder = place / f"round-{number}"
        shutil.copytree(prepared, folder / "run")
        storm = Storm(folder / "run", library, random.Random(f"{seed} {number}"), seen, folder)
        try:
            storm.rage(until)
            storm.calm()
        finally:
            storm.end()
        check(folder / "run", expected)
        shutil.rmtree(folder)
        number += 1
        yield number


def check(run: Path, expected: dict[str, str]) -> None:
    """The dataset is that of the undisturbed run, and nothing was set aside or left lying about."""
    found = sums(run / "dataset")
    if found != expected:
        different = sorted(
            name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
        )
        raise Broken(f"the dataset differs from the undisturbed one in {', '.join(different)}")
    if aside := sorted(
        path.name for path in (run / "quarantine").glob("*") if not path.name.endswith(".kgqa-tmp")
    ):
        raise Broken(f"set aside, though nothing was damaged: {', '.join(aside[:5])}")
    if left := sorted(path.name for path in run.glob(".dataset.*")):
        raise Broken(f"left beside the dataset: {', '.join(left)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, help="work here, and leave everything of a round that did not hold"
    )
    options = parser.parse_args()
    place = options.keep or Path(tempfile.mkdtemp(prefix="kgqa-chaos-"))
    place.mkdir(parents=True, exist_ok=True)
    seen: Counter[str] = Counter()
    began = time.monotonic()
    try:
        library = compile_preload(place)
        for number in rounds(place, library, options.seed, 60 * options.minutes, seen):
            print(f"{time.monotonic() - began:7.0f} s  round {number} held", flush=True)
    except Broken as problem:
        print(
            f"seed {options.seed}: {problem}\n{json.dumps(seen)}\neverything lies in {place}", file=sys.stderr
        )
        return 1
    print(f"seed {options.seed}: all held. {', '.join(f'{name} {n}' for name, n in sorted(seen.items()))}")
    if options.keep is None:
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
