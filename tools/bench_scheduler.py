#!/usr/bin/env python3
"""What one worker can do when the engine takes no time: the overhead of everything around it, per item.

    tools/bench_scheduler.py                     5,000 items, generate and judge each
    tools/bench_scheduler.py --items 20000 --shard-size 128 --profile

A real `kgqa run` on a temporary run folder with the scripted engine in its child process: prompts, frames,
parsing, journal lines, group commits, results. A GPU brings a few items a second, so 2,000 leave it 99.9 %
of the time. The rate of the worker's own core is items over its processor time, which a busy machine does
not change much.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.config import parse_config
from kgqa_hpc.runtime.fingerprint import fingerprint
from kgqa_hpc.runtime.run import run_command
from kgqa_hpc.store.anchors import write_anchors
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.run import RunFolder

NAMES = ("Abnormality of the cerebral cortex", "Delayed speech and language development", "Ataxia", "Seizure")


@dataclass(frozen=True)
class Measured:
    """`wall` and `processor` seconds of the worker process, engine start included; `memory` in MB, at
    its peak.
    """

    items: int
    wall: float
    processor: float
    memory: float

    def text(self) -> str:
        return (
            f"{self.items:,} items in {self.wall:.1f} s: {self.items / self.wall:,.0f} a second; "
            f"{self.items / self.processor:,.0f} a second of one core; "
            f"{1e6 * self.processor / self.items:,.0f} us per item; peak memory {self.memory:,.0f} MB"
        )


def measure(folder: Path, items: int, shard_size: int) -> Measured:
    """Make a run of `items` anchors in `folder` and work through it."""
    data: dict[str, Any] = {"engine": {"kind": "scripted"}, "runtime": {"shard_size": shard_size}}
    config = parse_config(data, "the benchmark")
    run = RunFolder.create(folder / "run", config.model_dump(mode="json"), fingerprint(config))
    write_anchors(run.anchors, _anchors(items), {"seed": 1})
    partition(run, shard_size)
    wall, processor = time.monotonic(), time.process_time()
    run_command(run.path)
    spent = time.monotonic() - wall, time.process_time() - processor
    return Measured(items, *spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _anchors(count: int) -> Iterator[dict[str, Any]]:
    """Graphlets of four nodes with names of real length."""
    for number in range(count):
        nodes = tuple(Node(f"HP:{number:06d}{k}", f"{NAMES[k]} {number}", "phenotype") for k in range(4))
        edges = ((0, 1), (1, 2), (2, 3))
        relations = tuple(Relation(a, b, "is a") for a, b in edges)
        yield Anchor(f"g04-{number:016x}", "graphlet", 4, nodes, edges, relations).to_dict()


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--shard-size", type=int, default=512)
    parser.add_argument("--profile", action="store_true", help="where the time goes (and takes more of it)")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kgqa-bench-"))
    profile = cProfile.Profile()
    try:
        if args.profile:
            profile.enable()
        measured = measure(folder, args.items, args.shard_size)
        profile.disable()
    finally:
        shutil.rmtree(folder)
    print(measured.text())
    if args.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
