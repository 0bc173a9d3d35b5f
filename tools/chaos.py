#!/usr/bin/env python3
"""Inject many kinds of faults into runs at once, and compare each dataset's bytes with those of an undisturbed run.

    tools/chaos.py --minutes 2 --seed 1     about as many rounds as fit; exit 0 when all held, 1 with what did not
    tools/chaos.py --minutes 60 --seed 7 --keep DIR
    tools/chaos.py --minutes 1 --runs study,target

A round takes one run of tools/chaos_runs.py: each anchor kind, a study, a target, a plan of scripts. Workers with
scripted engines, merges, `kgqa extend`, `kgqa judge` and `kgqa status` work on it at the same time. The faults are
kill -9 (of workers, engines and commands), stops that outlast the lease, signals, bursts of EIO, ESTALE, EACCES and
ENOENT, full disks, and clocks that jump by an hour (tools/chaos_preload.c, compiled with cc). Three shared merges under
SIGKILL and SIGSTOP end the round. The seed determines the faults and their order; the instruction that a fault hits
depends on the machine. These must hold: the dataset has the bytes of the undisturbed run; the counts of each status add
up and never decrease; the checksums fit after every merge with exit code 0; no file is quarantined; nothing hangs.
"""

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from chaos_preload import compile_preload
from chaos_runs import RUNS, kgqa, prepare, write_inputs
from chaos_storm import Broken, Storm


def sums(dataset: Path) -> dict[str, str]:
    """The sha256 of each file of a dataset."""
    files = sorted(path for path in dataset.rglob("*") if path.is_file())
    return {str(path.relative_to(dataset)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class Rounds:
    """Rounds over the runs in turn, in the folder `place`, for `seconds`."""

    def __init__(self, place: Path, library: Path, seed: int, seconds: float, names: list[str]) -> None:
        self._place, self._library, self._seed, self._seconds = place, library, seed, seconds
        self._names = names
        self._expected: dict[str, dict[str, str]] = {}
        self.seen: Counter[str] = Counter()
        write_inputs(place, seed)

    def __iter__(self) -> Iterator[str]:
        """The name of each run that held. Raises Broken."""
        until = time.monotonic() + self._seconds
        for number in count():
            if number and time.monotonic() >= until:
                return
            name = self._names[number % len(self._names)]
            self._calm(name)
            share = max(self._seconds / len(self._names), 12.0)
            self._storm(f"round-{number}", name, min(until, time.monotonic() + share))
            self.seen[f"rounds of {name}"] += 1
            yield name

    def _calm(self, name: str) -> None:
        """Prepare the run, and make its dataset without any disturbance, once."""
        if name in self._expected:
            return
        if name == "records":
            self._calm("graphlet")
        prepared = prepare(self._place, name, self._seed)
        calm = self._place / f"calm-{name}" / "run"
        shutil.copytree(prepared, calm)
        for verb, *words in RUNS[name].growth:
            kgqa(verb, calm, *words)
        kgqa("run", calm)
        kgqa("merge", calm)
        self._expected[name] = sums(calm / "dataset")

    def _storm(self, folder_name: str, name: str, until: float) -> None:
        folder = self._place / folder_name
        shutil.copytree(self._place / f"prepared-{name}" / "run", folder / "run")
        choose = random.Random(f"{self._seed} {folder_name}")
        storm = Storm(folder / "run", self._library, choose, self.seen, folder, RUNS[name].growth)
        try:
            storm.rage(until)
            storm.calm()
        except Broken as problem:
            raise Broken(f"{name}: {problem}") from None
        finally:
            storm.end()
        check(folder / "run", self._expected[name])
        shutil.rmtree(folder)


def check(run: Path, expected: dict[str, str]) -> None:
    """Check that the dataset equals that of the undisturbed run, with no quarantined or leftover files."""
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
    parser.add_argument("--runs", default=",".join(RUNS), help="names of chaos_runs.py; all by default")
    parser.add_argument("--keep", type=Path, help="folder to work in; a failed round is kept there")
    options = parser.parse_args()
    place = options.keep or Path(tempfile.mkdtemp(prefix="kgqa-chaos-"))
    place.mkdir(parents=True, exist_ok=True)
    seconds, names = 60 * options.minutes, options.runs.split(",")
    began = time.monotonic()
    rounds = Rounds(place, compile_preload(place), options.seed, seconds, names)
    try:
        for name in rounds:
            print(f"{time.monotonic() - began:7.0f} s  {name} held", flush=True)
    except Broken as problem:
        print(
            f"seed {options.seed}: {problem}\n{json.dumps(rounds.seen)}\neverything lies in {place}",
            file=sys.stderr,
        )
        return 1
    counts = ", ".join(f"{name} {n}" for name, n in sorted(rounds.seen.items()))
    print(f"seed {options.seed}: all held. {counts}")
    if options.keep is None:
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
