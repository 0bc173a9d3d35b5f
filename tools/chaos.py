#!/usr/bin/env python3
"""Torment a run in every way at once, and compare the dataset's bytes with those of an undisturbed one.

    tools/chaos.py --minutes 2 --seed 1          about as many rounds as fit; exit 0 when all held, 1 with
    what did not tools/chaos.py --minutes 60 --seed 7 --keep DIR

Workers with scripted engines, merges and looks at the status run together under kill -9 (of workers and
engines), stops beyond the lease, signals, bursts of EIO, ESTALE, EACCES and ENOENT, full disks, and clocks
an hour off that jump (tools/chaos_preload.c, compiled with cc). The seed settles what is done to whom and
when; which instruction it hits, the machine does. Must hold: the dataset has the bytes of the undisturbed
run, each look adds up and never goes back, every merge that says 0 leaves checksums that fit, nothing is set
aside, nothing hangs.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
KGQA = [sys.executable, "-m", "kgqa_hpc"]
LEASE = 6.0  # s
WORKERS = 3
LONGEST_FINISH = 300.0  # s for two undisturbed workers to finish what is left; loaded machines are slow
LOOK, WRITE = 1, 2
BURSTS = (
    (errno.EIO, 3),
    (errno.ESTALE, LOOK),
    (errno.EACCES, LOOK),
    (errno.ENOENT, LOOK),
    (errno.ENOSPC, WRITE),
)
SKEWS = (0, 0, 3720, -3720, 7)  # s
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


class Broken(Exception):
    """Something that must hold does not."""


class Control:
    """The file that tells one process's preloaded library what goes wrong now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(32))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 32)
        self._skew = 0

    def burst(self, code: int, seconds: float, which: int = LOOK | WRITE) -> None:
        """Calls of kind `which` fail with `code` from now on for so long."""
        until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(seconds * 1e9)
        self._memory[:] = struct.pack("=4q", code, until, self._skew, which)

    def skew(self, seconds: int) -> None:
        """Move the clock."""
        self._skew = seconds
        self._memory[16:24] = struct.pack("=q", seconds)


def compile_preload(folder: Path) -> Path:
    """The library of tools/chaos_preload.c. Raises FileNotFoundError without a C compiler."""
    library = folder / "chaos_preload.so"
    source = ROOT / "tools" / "chaos_preload.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def environment(
    library: Path | None = None, control: Control | None = None, root: Path | None = None
) -> dict[str, str]:
    """This environment without a launcher's variables, with the preloaded library when it is given."""
    foreign = ("SLURM_", "OMPI_", "PMI", "PRTE_", "KGQA_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    clean["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [clean.get("PYTHONPATH")])])
    if library and control and root:
        clean |= {"LD_PRELOAD": str(library), "CHAOS_CONTROL": str(control.path), "CHAOS_ROOT": str(root)}
    return clean


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


class Storm:
    """One round: a copy of the prepared run, tormented until it is complete or time is up."""

    def __init__(
        self, run: Path, library: Path, choose: random.Random, seen: Counter[str], place: Path
    ) -> None:
        self._run, self._library, self._choose, self._seen, self._place = run, library, choose, seen, place
        self._workers: dict[subprocess.Popen[bytes], Control] = {}
        self._stopped: dict[subprocess.Popen[bytes], float] = {}
        self._others: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._log = (place / "output.log").open("ab")
        self._ended = 0
        self._number = 0

    def rage(self, until: float) -> None:
        """Torment the run until it is complete or `until` on the monotonic clock."""
        while time.monotonic() < until:
            self._reap()
            while len(self._workers) < WORKERS:
                self._start_worker()
            action, weight = zip(*self._actions().items(), strict=True)
            name = self._choose.choices(action, weight)[0]
            self._seen[name] += 1
            getattr(self, f"_{name}")()
            time.sleep(self._choose.uniform(0.05, 0.6))
            if self._ended == -1:
                return

    def calm(self) -> None:
        """No more torment: what lives is killed, two workers finish, and the run is merged."""
        self.end()
        finishing = [
            subprocess.Popen([*KGQA, "run", self._run], env=environment(), stdout=self._log, stderr=self._log)
            for _ in range(2)
        ]
        for process in finishing:
            try:
                code = process.wait(LONGEST_FINISH)
            except subprocess.TimeoutExpired:
                for each in finishing:
                    each.kill()
                raise Broken(
                    f"it hangs: not complete after {LONGEST_FINISH:.0f} s without any disturbance"
                ) from None
            if code != 0:
                raise Broken(f"an undisturbed worker ended with {code}")
        subprocess.run(
            [*KGQA, "merge", self._run], env=environment(), check=True, stdout=self._log, stderr=self._log
        )
        self._look(environment())

    def end(self) -> None:
        for process in [*self._workers, *(process for _, process in self._others)]:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self._workers, self._others, self._stopped = {}, [], {}

    def _actions(self) -> dict[str, int]:
        return {
            "kill_worker": 3,
            "kill_engine": 3,
            "stop_worker": 2,
            "signal_worker": 1,
            "burst": 6,
            "burst_for_all": 2,
            "full_disk": 1,
            "jump": 3,
            "look_calmly": 3,
            "look_in_a_burst": 2,
            "merge": 2,
        }

    def _start_worker(self) -> None:
        control = self._control()
        control.skew(self._choose.choice(SKEWS))
        self._workers[self._start(["run", str(self._run)], control)] = control

    def _control(self) -> Control:
        self._number += 1
        return Control(self._place / f"control-{self._number}")

    def _start(self, words: list[str], control: Control) -> subprocess.Popen[bytes]:
        env = environment(self._library, control, self._run)
        return subprocess.Popen([*KGQA, *words], env=env, stdout=self._log, stderr=self._log)

    def _reap(self) -> None:
        for process, since in list(self._stopped.items()):
            if time.monotonic() > since:
                process.send_signal(signal.SIGCONT)
                del self._stopped[process]
        for process in [process for process in self._workers if process.poll() is not None]:
            del self._workers[process]
            self._stopped.pop(process, None)
            self._seen[f"worker ended {process.returncode}"] += 1
            if process.returncode == 0:
                self._ended = -1
        for what, process in [each for each in self._others if each[1].poll() is not None]:
            self._others.remove((what, process))
            self._seen[f"{what} ended {process.returncode}"] += 1
        if (self._run / "dataset").exists():
            self._check_sums()

    def _check_sums(self) -> None:
        """SHA256SUMS of the dataset fit; a merge may exchange it while one reads, so look again."""
        for _ in range(50):
            listed, found = {}, {}
            with suppress(FileNotFoundError):
                lines = (self._run / "dataset" / "SHA256SUMS").read_text().splitlines()
                listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
                found = {
                    name: hashlib.sha256((self._run / "dataset" / name).read_bytes()).hexdigest()
                    for name in listed
                }
            if listed and listed == found:
                return
        raise Broken("the dataset's checksums do not fit")

    def _victim(self) -> subprocess.Popen[bytes]:
        return self._choose.choice(list(self._workers))

    def _kill_worker(self) -> None:
        self._victim().kill()

    def _kill_engine(self) -> None:
        with suppress(psutil.Error):
            for child in psutil.Process(self._victim().pid).children():
                child.kill()

    def _stop_worker(self) -> None:
        victim = self._victim()
        with suppress(ProcessLookupError):
            victim.send_signal(signal.SIGSTOP)
            self._stopped[victim] = time.monotonic() + self._choose.uniform(0.5, 2 * LEASE)

    def _signal_worker(self) -> None:
        self._victim().send_signal(self._choose.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]))

    def _burst(self) -> None:
        code, which = self._choose.choice(BURSTS)
        self._workers[self._victim()].burst(code, self._choose.uniform(0.05, 2.0), which)

    def _burst_for_all(self) -> None:
        code, which = self._choose.choice(BURSTS)
        seconds = self._choose.uniform(0.05, 1.5)
        for control in self._workers.values():
            control.burst(code, seconds, which)

    def _full_disk(self) -> None:
        for control in self._workers.values():
            control.burst(errno.ENOSPC, 2.0, WRITE)

    def _jump(self) -> None:
        self._workers[self._victim()].skew(self._choose.choice(SKEWS))

    def _merge(self) -> None:
        for _ in range(self._choose.choice([1, 2])):
            control = self._control()
            if self._choose.random() < 0.3:
                control.burst(self._choose.choice(BURSTS)[0], 3.0)
            control.skew(self._choose.choice(SKEWS))
            process = self._start(["merge", "--partial", str(self._run)], control)
            self._others.append(("merge", process))
        if self._choose.random() < 0.3:
            time.sleep(self._choose.uniform(0.5, 2.0))
            process.kill()

    def _look_in_a_burst(self) -> None:
        control = self._control()
        process = self._start(["status", str(self._run)], control)
        time.sleep(self._choose.uniform(0.2, 0.8))
        control.burst(self._choose.choice([errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOENT]), 0.3, LOOK)
        self._others.append(("status in a burst", process))

    def _look_calmly(self) -> None:
        self._look(environment())

    def _look(self, env: dict[str, str]) -> None:
        answer = subprocess.run(
            [*KGQA, "status", "--json", self._run], env=env, capture_output=True, timeout=120
        )
        if answer.returncode != 0:
            raise Broken(f"status ended with {answer.returncode}: {answer.stderr.decode()[-500:]}")
        now = json.loads(answer.stdout)
        if sum(now["verdicts"].values()) != now["items"]["total"]:
            raise Broken(f"the status does not add up: {now['verdicts']} of {now['items']}")
        if now["items"]["ended"] < self._ended:
            raise Broken(f"the status went back from {self._ended} to {now['items']['ended']}")
        if self._ended >= 0:
            self._ended = now["items"]["ended"]


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
