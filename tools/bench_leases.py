#!/usr/bin/env python3
"""Measure how fast many processes lease all shards of one run folder, and count shards leased by two of them.

    tools/bench_leases.py                                   64 processes, 10,000 shards, in a temporary folder
    tools/bench_leases.py --processes 16 --shards 2000 --folder /scratch/me/bench

Each process claims a shard, commits a small result, releases the lease, and repeats this until all shards are
done, as `kgqa run` does without any work in between. Then `kgqa status` is timed on the folder, without and with the
sums that the leading worker saves. Point --folder at the file system of your runs: the result depends on its metadata
service.
"""

import argparse
import multiprocessing
import os
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kgqa_hpc.config import parse_config
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.status.snapshot import load_totals, survey, to_document
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.canonical import write_document
from kgqa_hpc.store.partition import ShardsManifest, read_shards_manifest, shard_name
from kgqa_hpc.store.queue import pass_queue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import ShardEntry, write_result

ITEMS = 4  # items per shard; the headers contain only their number


@dataclass(frozen=True)
class Measured:
    """Times in seconds; `twice` counts shards that more than one process committed or claimed after its
    commit.
    """

    processes: int
    shards: int
    seconds: float
    twice: int
    status_cold: float
    status_warm: float

    def text(self) -> str:
        return (
            f"{self.processes} processes leased {self.shards:,} shards in {self.seconds:.1f} s: "
            f"{self.shards / self.seconds:,.0f} claims a second, {self.twice} done twice\n"
            f"kgqa status: {self.status_cold:.2f} s reading every header, "
            f"{self.status_warm:.2f} s with the lead's sums"
        )


def measure(folder: Path, processes: int, shards: int) -> Measured:
    """Make a run in `folder`, let the processes lease its shards, and measure the time."""
    run = _make_run(folder, shards)
    results = _results(run)
    context = multiprocessing.get_context("fork")
    line = context.Barrier(processes + 1)
    outcomes: multiprocessing.Queue[list[str]] = context.Queue()
    team = [
        context.Process(target=_work, args=(run, results, number, line, outcomes))
        for number in range(processes)
    ]
    for process in team:
        process.start()
    line.wait()
    began = time.monotonic()
    claimed = Counter(name for _ in team for name in outcomes.get())
    seconds = time.monotonic() - began
    for process in team:
        process.join()
    assert len(claimed) == shards, f"{shards - len(claimed)} shards were never claimed"
    cold = _time_status(run)
    _save_sums(run)
    return Measured(processes, shards, seconds, sum(n > 1 for n in claimed.values()), cold, _time_status(run))


def _make_run(folder: Path, shards: int) -> RunFolder:
    config = parse_config({"engine": {"kind": "scripted"}}, "the benchmark")
    run = RunFolder.create(folder / "run", config.plain(), fingerprint(config))
    entries = tuple(ShardEntry(shard_name(number), ITEMS, "0" * 64) for number in range(shards))
    make_folder(run.shards)
    manifest = ShardsManifest("0" * 64, ITEMS, ITEMS * shards, entries)
    write_document(run.shards_manifest, manifest.to_dict())
    make_folder(run.results("main"))
    return run


def _results(run: RunFolder) -> dict[str, bytes]:
    """The bytes of every result by shard, made before the clock starts: HDF5's own time is not measured."""
    path = run.path / "template.h5"
    rows = [
        {"id": f"i{number}", "status": "accepted", "reason": None, "trace": []} for number in range(ITEMS)
    ]
    results = {}
    for shard in read_shards_manifest(run).shards:
        write_result(path, rows, run.origin("main").header(shard.name, shard.sha256))
        results[shard.name] = path.read_bytes()
        path.unlink()
    return results


def _work(run: RunFolder, results: dict[str, bytes], number: int, line, outcomes) -> None:  # type: ignore[no-untyped-def]
    queue = pass_queue(run, "main", f"w{number}-{os.getpid()}")
    claimed = []
    line.wait()
    while True:
        lease = queue.claim()
        if lease is not None:
            claimed.append(lease.shard)
            write_file(run.result("main", lease.shard), results[lease.shard], exclusive=True, durable=False)
            lease.release()
        elif queue.complete:
            break
        else:
            time.sleep(queue.poll_interval())
    queue.leases.clock.close()
    outcomes.put(claimed)


def _time_status(run: RunFolder) -> float:
    began = time.monotonic()
    assert survey(run.path)["complete"]
    return time.monotonic() - began


def _save_sums(run: RunFolder) -> None:
    names = read_shards_manifest(run).names
    totals = load_totals(run, names)
    for each in totals:
        each.refresh(run)
    run.status_file.write_bytes(to_document(run, {}, totals, names))


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="a new folder on the file system to measure")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="kgqa-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        print(measure(folder, args.processes, args.shards).text())
    finally:
        shutil.rmtree(folder / "run", ignore_errors=True)


if __name__ == "__main__":
    main()
