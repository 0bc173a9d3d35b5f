"""Starts `kgqa run` processes in a few milliseconds each: everything is imported once, then forked.

Reads one line per process from standard input: RUN, LOG and FAULT, separated by tabs; answers with its process
id. FAULT is empty or what strikes it, as `SIGTERM@100` (see Strike). When a child ends, prints "ended PID CODE"
(minus the signal's number when it was killed). Ends with its standard input.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import kgqa_hpc.work.run  # all rooms a worker needs, before the first fork
from kgqa_hpc.errors import KgqaError
from tests.disk_watch import watch
from tests.work.rig import size_of


class Strike:
    """A probe: sends this process a signal, or holds its main thread, once its own journals hold so many bytes.

    By itself, at its next write: whoever watched it from outside might look only when all is over. A file
    `struck-PID` beside the log says so; who is held goes on when there is a file `go`.
    """

    def __init__(self, text: str, folder: Path) -> None:
        self.what, _, size = text.partition("@")
        self.bytes = int(size)
        self.folder = folder
        self.journals: list[Path] = []

    def __call__(self, call: str, where: str) -> None:
        if call == "open" and where.endswith(".journal"):
            self.journals.append(Path(where))
        main = threading.current_thread() is threading.main_thread()
        if call == "write" and main and self.what and size_of(self.journals) >= self.bytes:
            what, self.what = self.what, ""
            (self.folder / f"struck-{os.getpid()}").touch()
            if what != "HOLD":
                os.kill(os.getpid(), signal.Signals[what])
            while what == "HOLD" and not (self.folder / "go").exists():
                time.sleep(0.01)


def work(folder: str, log: str, fault: str) -> int:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(0)
    try:
        with watch(Strike(fault, Path(log).parent)) if fault else nullcontext():
            kgqa_hpc.work.run.run_command(Path(folder))
    except KgqaError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        say(f"ended {pid} {os.waitstatus_to_exitcode(status)}")


def start(line: str) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = work(*line.split("\t"))
        finally:
            sys.stderr.flush()
            os._exit(code)
    say(f"started {pid}")


def main() -> None:
    say("ready")
    while True:
        readable, _, _ = select.select([0], [], [], 0.05)
        reap()
        if readable:
            line = os.read(0, 65536).decode()
            if not line:
                return
            for each in line.splitlines():
                start(each)


main()
