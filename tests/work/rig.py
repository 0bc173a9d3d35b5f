"""Real `kgqa run` processes on runs of tests/runs.py, and what they leave."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import KgqaError
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_result
from kgqa_hpc.work.run import run_command
from tests.command import environment, kgqa
from tests.disk_watch import watch
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
    parsed: list[dict[str, Any]] = []
    for line in lines:
        with suppress(ValueError):
            parsed.append(json.loads(line))
    return sorted((entry for entry in parsed if entry.get("event") in names), key=lambda entry: entry["time"])


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
    kgqa("run", run.path)


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


class Strike:
    """A probe: sends this process a signal, or holds its main thread, once its own journals hold so many bytes.

    `SIGTERM@100`, `HOLD@1`. By itself, at its next write: whoever watched it from outside might look only when all is
    over. A file `struck-PID` in `folder` says so; who is held goes on when there is a file `go`.
    """

    def __init__(self, text: str, folder: Path) -> None:
        self.action, _, size = text.partition("@")
        self.bytes = int(size)
        self.folder = folder
        self.journals: list[Path] = []

    def __call__(self, call: str, where: str) -> None:
        if call == "open" and where.endswith(".journal"):
            self.journals.append(Path(where))
        main = threading.current_thread() is threading.main_thread()
        if call == "write" and main and self.action and size_of(self.journals) >= self.bytes:
            action, self.action = self.action, ""
            (self.folder / f"struck-{os.getpid()}").touch()
            if action != "HOLD":
                os.kill(os.getpid(), signal.Signals[action])
            while action == "HOLD" and not (self.folder / "go").exists():
                time.sleep(0.01)


class Nursery:
    """`kgqa run` processes, forked from this one in a few milliseconds each; `alive` are their ids."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._codes: dict[int, int] = {}
        self.alive: set[int] = set()

    def start(self, run: RunFolder, strike: str = "") -> int:
        """Start a worker, which `strike` may hit (see Strike)."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = self._work(run, strike)
            finally:
                sys.stderr.flush()
                os._exit(code)
        self.alive.add(pid)
        return pid

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; nothing happens when the process has just ended by itself."""
        if pid in self.look():
            os.kill(pid, number)

    def await_strike(self, pid: int) -> None:
        wait_for((self._log.parent / f"struck-{pid}").exists, f"the strike to hit {pid}")

    def go(self) -> None:
        """Let those go on that are held."""
        (self._log.parent / "go").touch()

    def code(self, pid: int) -> int:
        """Wait for a process to end; its exit code, minus the signal's number when it was killed."""
        wait_for(
            lambda: pid not in self.look(), f"the end of process {pid}; it said: {self.output()[-2000:]}"
        )
        return self._codes[pid]

    def look(self) -> set[int]:
        """The processes that are alive now."""
        for pid in list(self.alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._codes[pid] = os.waitstatus_to_exitcode(status)
                self.alive.discard(pid)
        return self.alive

    def output(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def end(self) -> None:
        for pid in list(self.look()):
            self.kill(pid)
            self.code(pid)

    def _work(self, run: RunFolder, strike: str) -> int:
        """Be a worker, whose words go to the log; its exit code."""
        output = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(output, number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        variables = environment(PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path]))
        os.environ.clear()
        os.environ.update(variables)
        try:
            with watch(Strike(strike, self._log.parent)) if strike else nullcontext():
                run_command(run.path)
        except KgqaError as problem:
            print(f"error: {problem}", file=sys.stderr)
            return problem.exit_code
        except BaseException:
            traceback.print_exc()
            raise
        return 0


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
