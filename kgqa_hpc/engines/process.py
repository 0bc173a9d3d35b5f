"""Supervisor of an engine process: it starts it, sends requests, reads answers, and kills it when it stalls.

Native code may crash, hang or leak; in a child process (child.py) it cannot harm the worker. The worker gets an
answer per request or one EngineDied, after which `start` may be called again.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from kgqa_hpc.engines import ENGINES
from kgqa_hpc.engines.child import frame, read_frames
from kgqa_hpc.engines.engine import (
    LOAD,
    SEE_LOG,
    EngineInfo,
    EngineSettings,
    Redactor,
    Request,
    Response,
    ServerLoad,
    one_line,
)
from kgqa_hpc.errors import EngineDied, InputError, KgqaError
from kgqa_hpc.store.atomic import open_append

START_LIMIT_S = 3600.0  # longest start of an engine; a 70B model from a cold file system takes minutes
CLOSE_GRACE_S = 20.0
LOG_GRACE_S = 2.0  # seconds to wait until the child's last output is in the log
LOOKS, PAUSE_S = 500, 0.01  # attempts to read the exit status of a child
LOOK_EVERY_S = 0.2  # seconds between two checks for a stop while the engine starts or checks schemas


@contextmanager
def trial_log() -> Iterator[Path]:
    """A log for an engine that belongs to no run: removed at the end, but kept when an error names it."""
    folder = Path(tempfile.mkdtemp(prefix="kgqa-engine-"))
    needed = False
    try:
        yield folder / "log"
    except KgqaError as problem:
        needed = str(folder) in str(problem)
        raise
    finally:
        if not needed:
            shutil.rmtree(folder)


def exit_words(pid: int) -> str:
    """The exit status of a child in words, without reaping it: its process group must not be reused before it
    is killed.

    Counts attempts instead of seconds: if both processes were suspended, the child still gets its time to end.
    """
    for _ in range(LOOKS):
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if state is not None:
            if state.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
                return f"killed by {signal.Signals(state.si_status).name}"
            return f"exit code {state.si_status}"
        time.sleep(PAUSE_S)
    return ""


class EngineProcess:
    """The worker's end of an engine child.

    `log` collects what the child prints (appended, secrets masked), `batches` is a batch engine's folder. The child
    counts as stalled after `stall_after` seconds (or `EngineInfo.stall_s`, if that is less) without any answer or
    progress while requests are in flight, or after as long without a heartbeat, but at least a minute. `start` from
    a thread that lives as long as the engine: the kernel ends the child together with the thread that started it.
    `described` is called with every description of the engine, also with those that come between answers.
    `in_flight` holds the ids of the requests that were sent and not answered; after EngineDied: those that died with
    it.
    """

    def __init__(
        self, settings: EngineSettings, log: Path, stall_after: float = 600.0, batches: Path | None = None
    ) -> None:
        self.described: Callable[[EngineInfo], None] = lambda info: None
        self.in_flight: set[str] = set()
        self._settings = settings
        self._batches = (batches or log.with_suffix(".batches")).resolve()
        self._redact = Redactor(settings.secret_names)
        self._log, self._log_start = log, 0
        self._copier: threading.Thread | None = None
        self._stall_after = stall_after
        self._silent_after = max(stall_after, 60.0)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._info: EngineInfo | None = None
        self._reply: EngineInfo | InputError | None = None
        self._answers: list[Response] = []
        self._progress = 0.0
        self._load = self._load_before = dict.fromkeys(LOAD, 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close() if kind is None else self.kill()

    @property
    def info(self) -> EngineInfo:
        """Description of the engine that was started last."""
        assert self._info is not None, "start() first"
        return self._info

    @property
    def server_load(self) -> ServerLoad:
        """Counts of server failures of this engine and of earlier ones."""
        return {name: self._load[name] + self._load_before[name] for name in LOAD}

    def start(self, stop: Callable[[], bool] = lambda: False) -> EngineInfo:
        """Start the child and wait until its model is loaded.

        Raises EngineConfigError (or another InputError) with the engine's own words when it cannot start as
        configured, EngineDied when it dies or stalls while starting, or when `stop()` becomes true.
        """
        self.kill()
        self._launch()
        hello = {
            "config": self._settings.model_dump(mode="json"),
            "plugin": str(ENGINES.file_of(self._settings.kind) or ""),
            "memory": str(self._log.with_suffix(".faults")),
            "batches": str(self._batches),
        }
        try:
            return self._ask("hello", hello, stop)
        except InputError as refusal:
            self.kill()
            if self._info is None:
                raise
            # The engine has started with this configuration before, so the cause may be temporary: try again.
            words = f"the engine did not start again: {refusal.message}; {refusal.cure}"
            raise EngineDied(words, f"see {self._log}") from None

    def preflight(
        self, schemas: Sequence[Mapping[str, Any]], stop: Callable[[], bool] = lambda: False
    ) -> EngineInfo:
        """Make the engine check the schemas of the run; returns its description afterwards.

        Raises EngineConfigError when it cannot serve one, EngineDied when it dies, or when `stop()` becomes
        true: an engine that compiles for minutes must not keep a worker that has to stop.
        """
        return self._ask("preflight", list(schemas), stop)

    def send(self, requests: Sequence[Request]) -> None:
        """Send requests to the engine; returns at once. `receive` sends the rest that the pipe cannot hold."""
        if requests:
            self.in_flight.update(request.id for request in requests)
            self._post("requests", requests)

    def receive(self, timeout: float) -> list[Response]:
        """The answers received so far; waits up to `timeout` seconds for the first, then returns [].

        Each answers one request that was sent. Raises EngineDied with the reason.
        """
        deadline = time.monotonic() + timeout
        while not self._answers:
            remaining = max(deadline - time.monotonic(), 0.0)
            self._listen(remaining, working=bool(self.in_flight))
            if not remaining:
                break
        answers, self._answers = self._answers, []
        return answers

    def cancel(self) -> None:
        """Abort all requests in flight: each is soon answered with finish `abort`."""
        self._post("cancel")

    def close(self) -> None:
        """Ask the engine to end, and kill it after a grace period. Idempotent."""
        if self._process is not None:
            with suppress(EngineDied):
                self._post("cancel")
                self._post("close")
                deadline = time.monotonic() + CLOSE_GRACE_S
                while time.monotonic() < deadline:
                    self._listen(0.1, working=False)  # raises EngineDied when the child closes its connection
            self.kill()

    def kill(self) -> None:
        """Kill the child and all processes it started. Idempotent."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with theirs, open(open_append(self._log), "ab") as log:
            self._log_start = log.tell()
            # A new process, not a fork, because a forked child that uses a loaded runtime deadlocks.
            # A session of its own, so that signals to the worker's process group do not reach it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kgqa_hpc.engines.child", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._redact else log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        if self._process.stdout is not None:
            arguments = self._process.stdout, self._log
            self._copier = threading.Thread(target=self._redact.copy, args=arguments, daemon=True)
            self._copier.start()
        ours.setblocking(False)
        self._socket = ours
        self._incoming, self._outgoing = bytearray(), bytearray()
        self._load_before, self._load = self.server_load, dict.fromkeys(LOAD, 0.0)
        self.in_flight = set()
        self._answers = []
        # Seconds since the last frame, and since the last frame that shows progress; below, the time of the last check.
        self._silent = self._idle = 0.0
        self._looked = time.monotonic()

    def _ask(self, verb: str, content: Any, stop: Callable[[], bool]) -> EngineInfo:
        """The engine's description in reply to `hello` or `preflight`. Raises the InputError of a refusal."""
        self._reply = None
        self._post(verb, content)
        began, starting = time.monotonic(), verb == "hello"
        while self._reply is None:
            if stop():
                self._die(f"it was stopped while {'starting' if starting else 'checking the schemas'}")
            if starting and time.monotonic() - began > START_LIMIT_S:
                self._die(f"it did not start within {START_LIMIT_S:.0f} s")
            self._listen(LOOK_EVERY_S, working=not starting)
        if isinstance(self._reply, InputError):
            self._reply.cure = self._reply.cure.replace(SEE_LOG, f"see {self._log}")
            raise self._reply
        return self._reply

    def _post(self, verb: str, content: Any = None) -> None:
        if self._socket is None:
            raise EngineDied("the engine is not running")
        self._outgoing += frame(verb, content)
        self._write(self._socket)

    def _write(self, connection: socket.socket) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: connection.send(self._outgoing)]
        except OSError:  # the pipe is full, or the child died, which _listen reports
            return

    def _listen(self, timeout: float, *, working: bool) -> None:
        """Take the frames that arrive within `timeout`. Raises EngineDied when the child ended or stalled."""
        if self._socket is None:
            raise EngineDied("the engine is not running")
        writable = [self._socket] if self._outgoing else []
        readable, can_write, _ = select.select([self._socket], writable, [], timeout)
        if can_write:
            self._write(self._socket)
        frames = []
        if readable:
            try:
                data = self._socket.recv(1 << 20)
            except OSError:
                data = b""  # if the child died, a reset of the connection means the end of the stream
            if not data:
                self._die(None)
            self._incoming += data
            try:
                frames = list(read_frames(self._incoming))
            except (AttributeError, KeyError, TypeError, ValueError) as problem:
                self._die(f"it sent gibberish ({problem})")
        moved = [self._take(verb, content) for verb, content in frames]
        self._watch(silent=not readable, idle=working and not any(moved))

    def _take(self, verb: str, content: Any) -> bool:
        """Apply a frame to the state; whether it shows progress."""
        if verb == "beat":
            before, self._progress = self._progress, content.pop("progress")
            self._load = content
            return bool(before != self._progress)
        if verb == "responses":
            for answer in content:
                if answer.id not in self.in_flight:
                    self._die(
                        f"it answered {answer.id!r}, a request that was not sent or was answered before"
                    )
                self.in_flight.discard(answer.id)
            self._answers += content
        elif verb == "refused":
            self._reply = content
        else:
            self._info = content
            self.described(content)
            if verb == "described":
                return False
            self._reply = content
        return True

    def _watch(self, *, silent: bool, idle: bool) -> None:
        """Kill a child that has shown no sign of life, or no progress, for too long."""
        now = time.monotonic()
        # Time in which this process was suspended does not count as silence of the engine.
        elapsed = min(now - self._looked, self._stall_after / 4)
        self._looked = now
        self._silent = self._silent + elapsed if silent else 0.0
        self._idle = self._idle + elapsed if idle else 0.0
        if self._silent > self._silent_after:
            self._die(f"it showed no sign of life for {self._silent:.0f} s")
        # The engine's own, shorter limit applies only to answers: a child that compiles a schema shows no progress.
        stall = self._info.stall_s if self._info and self.in_flight else 0.0
        if self._idle > (min(stall, self._stall_after) if stall else self._stall_after):
            number = len(self.in_flight)
            self._die(f"it answered nothing for {self._idle:.0f} s with {number} requests in flight")

    def _die(self, reason: str | None) -> NoReturn:
        """Kill the remaining processes and raise EngineDied, with the last line of the log.

        The default `reason` is the exit status. If the engine has reported an InputError, that is the reason.
        """
        assert self._process is not None
        if isinstance(refusal := self._reply, InputError):
            self.kill()
            raise EngineDied(f"the engine died: {refusal.message}", f"see {self._log}") from refusal
        reason = reason or exit_words(self._process.pid) or "it closed its connection"
        self.kill()
        if self._copier is not None:
            self._copier.join(LOG_GRACE_S)
        with self._log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 2000, self._log_start))
            lines = file.read().decode("utf-8", "replace").split("\n")
        words = next((f"; {one_line(line, 200)}" for line in reversed(lines) if line.strip()), "")
        raise EngineDied(f"the engine died: {reason}{words}", f"see {self._log}")
