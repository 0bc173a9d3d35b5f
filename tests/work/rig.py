"""Real `kgqa run` processes on runs of tests/runs.py, and what they leave."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any

import psutil

from kgqa_hpc.config import parse_config
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.store.results import read_result
from kgqa_hpc.store.run_folder import RunFolder
from tests.command import environment
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0  # s; for conditions that take a second on an idle machine


def records(run: RunFolder, pass_name: str = "main") -> dict[str, dict[str, Any]]:
    """All records of a pass by id; fails when an id stands twice."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(run.results(pass_name).glob("*.h5")):
        for record in read_result(path):
            assert record["id"] not in found, f"{record['id']} is there twice"
            found[record["id"]] = record
    return found


def events(run: RunFolder, *names: str) -> list[dict[str, Any]]:
    """Lines of all workers' logs, in time order; a torn last line of a killed worker is left out."""
    lines = [line for path in run.logs.rglob("*.jsonl") for line in path.read_bytes().splitlines()]
    parsed = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("event") in names:
            parsed.append(entry)
    return sorted(parsed, key=lambda entry: entry["time"])


class Processes:
    """`kgqa run` processes, ended by their ids when the test ends."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[str]] = []

    def start(self, run: RunFolder, **extra: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "kgqa_hpc", "run", str(run.path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(**extra),
        )
        self.all.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for the end: exit code and what it printed."""
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output

    def end(self) -> None:
        for process in self.all:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


def kill_and_finish(run: RunFolder, processes: Processes, kills: int = 3) -> None:
    """Kill a worker as soon as it has written an answer, several times, and let the last one finish."""

    def written() -> int:
        return size_of(path for path in run.path.glob("results/**/*") if path.is_file())

    for _ in range(kills):
        worker, before = processes.start(run), written()
        wait_for(lambda: written() != before or worker.poll() is not None, "an answer")  # noqa: B023
        worker.kill()
        worker.wait()
    code, output = processes.finish(processes.start(run))
    assert code == 0, output


def seeded() -> random.Random:
    """Random choices of a test, the same each time; KGQA_TEST_SEED=N makes others, to search by hand."""
    seed = int(os.environ.get("KGQA_TEST_SEED", 1))
    print("KGQA_TEST_SEED =", seed)
    return random.Random(seed)


def answers_made(run: RunFolder) -> int:
    """By all workers that ended in order."""
    return sum(entry["answers"] for entry in events(run, "pass-left"))


def answers_used(run: RunFolder) -> int:
    """In all results."""
    return sum(len(record["trace"]) for record in records(run).values())


class Nursery:
    """Forked `kgqa run` processes (tests/work/nursery.py); `alive` are their ids."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._codes: dict[int, int] = {}
        self.alive: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("nursery.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path])),
        )
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._expect("ready")

    def start(self, run: RunFolder, fault: str = "") -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{run.path}\t{self._log}\t{fault}\n".encode())
        self._process.stdin.flush()
        pid = int(self._expect("started")[0])
        self.alive.add(pid)
        return pid

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; nothing happens when the process has just ended by itself."""
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def await_strike(self, pid: int) -> None:
        """Wait until what `start` was told as `fault` has struck (nursery.py, Strike)."""
        wait_for((self._log.parent / f"struck-{pid}").exists, f"the fault to strike {pid}")

    def go(self) -> None:
        """Let those go on that are held."""
        (self._log.parent / "go").touch()

    def code(self, pid: int) -> int:
        """Wait for a process to end; its exit code, minus the signal's number when it was killed."""
        wait_for(lambda: self._ended(pid), f"the end of process {pid}; it said: {self.output()[-2000:]}")
        return self._codes[pid]

    def look(self) -> set[int]:
        """The processes that are alive now."""
        self._drain()
        return self.alive

    def output(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def end(self) -> None:
        for pid in set(self.look()):
            self.kill(pid)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)

    def _ended(self, pid: int) -> bool:
        self._drain()
        return pid in self._codes

    def _expect(self, word: str) -> list[str]:
        until = time.monotonic() + PATIENCE
        while True:
            first, *rest = self._lines.get(timeout=max(until - time.monotonic(), 0.1)).split()
            if first == word:
                return rest
            self._note(first, rest)

    def _drain(self) -> None:
        while not self._lines.empty():
            first, *rest = self._lines.get().split()
            self._note(first, rest)

    def _note(self, word: str, rest: list[str]) -> None:
        assert word == "ended", f"the nursery said {word}"
        pid, code = map(int, rest)
        self._codes[pid] = code
        self.alive.discard(pid)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode())


def engine_of(pid: int) -> psutil.Process | None:
    """The engine child of a worker."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        for child in psutil.Process(pid).children():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if "kgqa_hpc.engines.child" in child.cmdline():
                    return child
    return None


def result_files(run: RunFolder, pass_name: str = "main") -> dict[str, bytes]:
    """Every result file's bytes by name."""
    return {path.name: path.read_bytes() for path in sorted(run.results(pass_name).glob("*.h5"))}


def answers_kept(run: RunFolder) -> int:
    """Grows with every answer that is journaled or in a result: bytes of both."""
    return size_of(run.results("main").glob("*"))


def size_of(paths: Iterable[Path]) -> int:
    """Bytes of those that are still there."""
    total = 0
    for path in paths:
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def reconfigure(run: RunFolder, **sections: Any) -> None:
    """Change settings that may change while a run is under way (runtime, latency)."""
    data = run.config()
    for name, values in sections.items():
        data[name] = {**data[name], **values}
    config = parse_config(data, "the test")
    RunFolder.create(run.path, config.plain(), fingerprint(config))
