"""Supervisor of an engine process: it starts it, sends requests, reads answers, and kills it when it stalls.

Native code may crash, hang or leak; in a child process it cannot harm the worker. The worker gets an
answer per request or one EngineDied, after which `start` may be called again.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from kgqa_hpc.engines.clean import Redactor, exit_words, last_line
from kgqa_hpc.engines.engine import LOAD, EngineInfo, EngineSettings, Request, Response, ServerLoad
from kgqa_hpc.engines.protocol import Frames, frame, read_info, read_refusal, read_responses, write_requests
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import EngineDied
from kgqa_hpc.store.regular import open_append

T = TypeVar("T")

START_LIMIT_S = 3600.0  # a 70B model from a cold parallel file system takes minutes, not an hour
CLOSE_GRACE_S = 20.0
LOG_GRACE_S = 2.0  # for the last output to reach the log
LOOK_EVERY_S = 0.2  # s between two checks for a stop while the engine starts or checks schemas


class EngineProcess:
    """The worker's end of an engine child.

    `log` collects what the child prints (appended, secrets masked), `batches` is a batch engine's folder. The child
    counts as stalled after `stall_after` seconds (or `EngineInfo.stall_s`, if that is less) without any answer or
    progress while requests are in flight, or after as long without a heartbeat, but at least a minute. `start` from
    a thread that lives as long as the engine: the kernel ends the child together with the thread that started it.
    `described` is called with every description of the engine, also with those that come between answers.
    """

    def __init__(
        self, settings: EngineSettings, log: Path, stall_after: float = 600.0, batches: Path | None = None
    ) -> None:
        self._settings = settings
        self._batches = (batches or log.with_suffix(".batches")).resolve()
        self._redact = Redactor(settings.secret_names)
        self._log = log
        self._log_start = 0
        self._stall_after = stall_after
        self._silent_after = max(stall_after, 60.0)
        self._info: EngineInfo | None = None
        self.described: Callable[[EngineInfo], None] = lambda info: None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._frames = Frames()
        self._outgoing: deque[memoryview] = deque()
        self._in_flight: set[str] = set()
        self._early: list[Response] = []  # answers that came while a preflight was awaited
        self._copier: threading.Thread | None = None
        self._progress = 0
        self._load = self._load_before = dict.fromkeys(LOAD, 0.0)
        # Seconds since the last frame, and since the last frame that shows progress.
        self._silent = self._idle = 0.0
        self._looked = 0.0

    def __enter__(self) -> EngineProcess:
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

    @property
    def pid(self) -> int | None:
        """The child's process id, None when there is none."""
        return self._process.pid if self._process else None

    @property
    def in_flight(self) -> frozenset[str]:
        """Ids of the requests that were sent and not answered; after EngineDied: those that died with it."""
        return frozenset(self._in_flight)

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
        }
        hello |= {"memory": str(self._log.with_suffix(".faults")), "batches": str(self._batches)}
        self._post(frame("hello", hello))
        began = time.monotonic()
        while True:
            if stop():
                self._die("it was stopped while starting")
            for verb, content in self._listen(LOOK_EVERY_S, working=False):
                if verb == "ready":
                    return self._describe(content)
                if verb == "refused":
                    refusal = self._parsed(read_refusal, content)
                    self.kill()
                    if self._info is None:
                        raise refusal
                    # The engine has started with this configuration before, so the cause may be temporary: try again.
                    raise EngineDied(f"the engine did not start again: {refusal.message}", f"see {self._log}")
            if time.monotonic() - began > START_LIMIT_S:
                self._die(f"it did not start within {START_LIMIT_S:.0f} s")

    def preflight(
        self, schemas: Sequence[Mapping[str, Any]], stop: Callable[[], bool] = lambda: False
    ) -> EngineInfo:
        """Make the engine check the schemas of the run; returns its description afterwards.

        Raises EngineConfigError when it cannot serve one, EngineDied when it dies, or when `stop()` becomes
        true: an engine that compiles for minutes must not keep a worker that was told to go.
        """
        self._post(frame("preflight", list(schemas)))
        while True:
            replies = []
            for verb, content in self._listen(LOOK_EVERY_S, working=True):
                if verb == "responses":
                    self._early += self._accept(content)
                elif verb in ("checked", "refused"):
                    replies.append((verb, content))
            for verb, content in replies:  # after all frames, because an answer may follow the reply
                if verb == "refused":
                    raise self._parsed(read_refusal, content)
                return self._describe(content)
            if stop():
                self._die("it was stopped while checking the schemas")

    def send(self, requests: Sequence[Request]) -> None:
        """Send requests to the engine; returns at once. `receive` sends the rest that the pipe cannot hold."""
        if requests:
            self._in_flight.update(request.id for request in requests)
            self._post(frame("requests", write_requests(requests)))

    def receive(self, timeout: float) -> list[Response]:
        """The answers received so far; waits up to `timeout` seconds for the first, then returns [].

        Each answers one request that was sent. Raises EngineDied with the reason.
        """
        if self._early:
            early, self._early = self._early, []
            return early
        deadline = time.monotonic() + timeout
        while True:
            answers: list[Response] = []
            remaining = max(deadline - time.monotonic(), 0.0)
            for verb, content in self._listen(remaining, working=bool(self._in_flight)):
                if verb == "responses":
                    answers += self._accept(content)
            if answers or time.monotonic() >= deadline:
                return answers

    def cancel(self) -> None:
        """Abort all requests in flight: each is soon answered with finish `abort`."""
        self._post(frame("cancel"))

    def close(self) -> None:
        """Ask the engine to end, and kill it after a grace period. Idempotent."""
        if self._process is None:
            return
        with suppress(EngineDied):
            self._post(frame("cancel") + frame("close"))
            deadline = time.monotonic() + CLOSE_GRACE_S
            while time.monotonic() < deadline:
                self._listen(0.1, working=False)  # ends with EngineDied: it closed its connection
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
            self._copier = self._redact.copy(self._process.stdout, self._log)
        ours.setblocking(False)
        self._socket = ours
        self._frames = Frames()
        self._load_before, self._load = self.server_load, dict.fromkeys(LOAD, 0.0)
        self._outgoing.clear()
        self._in_flight.clear()
        self._early.clear()
        self._silent = self._idle = 0.0
        self._looked = time.monotonic()

    def _accept(self, content: list[Any]) -> list[Response]:
        answers: list[Response] = self._parsed(read_responses, content)
        for answer in answers:
            if answer.id not in self._in_flight:
                self._die(f"it answered {answer.id!r}, a request that was not sent or was answered before")
            self._in_flight.discard(answer.id)
        return answers

    def _parsed(self, read: Callable[[Any], T], content: Any) -> T:
        """The result of `read(content)`; if it cannot be read, kill the engine and raise EngineDied."""
        try:
            return read(content)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            self._die(f"it sent gibberish ({problem})")

    def _describe(self, content: Any) -> EngineInfo:
        self._info = self._parsed(read_info, content)
        self.described(self._info)
        return self._info

    def _post(self, data: bytes) -> None:
        if self._socket is None:
            raise EngineDied("the engine is not running")
        self._outgoing.append(memoryview(data))
        self._write()

    def _write(self) -> None:
        assert self._socket is not None
        while self._outgoing:
            try:
                sent = self._socket.send(self._outgoing[0])
            except OSError:  # full, or the child is gone: reading reports the reason, after its last output
                return
            if sent == len(self._outgoing[0]):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = self._outgoing[0][sent:]

    def _listen(self, timeout: float, *, working: bool) -> list[tuple[str, Any]]:
        """Frames that arrive within `timeout`. Raises EngineDied if heartbeat or progress are missing for too long."""
        if self._socket is None:
            raise EngineDied("the engine is not running")
        writable = [self._socket] if self._outgoing else []
        readable, can_write, _ = select.select([self._socket], writable, [], timeout)
        if can_write:
            self._write()
        heard = self._read() if readable else []
        self._watch(heard, working)
        return heard

    def _read(self) -> list[tuple[str, Any]]:
        assert self._socket is not None
        heard: list[tuple[str, Any]] = []
        try:
            while data := self._socket.recv(1 << 20):
                heard += self._frames.feed(data)
                if len(data) < 1 << 16:
                    return heard
        except BlockingIOError:
            return heard
        except (TypeError, ValueError) as problem:
            self._die(f"it sent gibberish ({problem})")
        except OSError:
            pass  # a reset by the child's death is the end of the stream
        if heard:
            return heard  # return its last output first; the next read finds the end
        self._die(None)
        return heard

    def _watch(self, heard: list[tuple[str, Any]], working: bool) -> None:
        now = time.monotonic()
        # Time in which this process was suspended does not count as silence of the engine.
        elapsed = min(now - self._looked, self._stall_after / 4)
        self._looked = now
        before = self._progress
        for verb, content in heard:
            if verb == "beat":
                self._progress = content
            elif verb == "load":
                self._load = {name: float(content.get(name, 0)) for name in LOAD}
            elif verb == "described":
                self._describe(content)
        moved = self._progress != before or any(
            verb not in ("beat", "load", "described") for verb, _ in heard
        )
        self._silent = 0.0 if heard else self._silent + elapsed
        self._idle = 0.0 if moved or not working else self._idle + elapsed
        if self._silent > self._silent_after:
            self._die(f"it showed no sign of life for {self._silent:.0f} s")
        # A child that compiles a schema reports no progress; its own, shorter limit applies only to answers.
        stall = self._info.stall_s if self._info and self._in_flight else 0.0
        if self._idle > (min(stall, self._stall_after) if stall else self._stall_after):
            self._die(
                f"it answered nothing for {self._idle:.0f} s with {len(self._in_flight)} requests in flight"
            )

    def _die(self, reason: str | None) -> NoReturn:
        """Kill the remaining processes and raise EngineDied; the default `reason` is the exit status."""
        assert self._process is not None
        reason = reason or exit_words(self._process.pid) or "it closed its connection"
        self.kill()
        if self._copier is not None:
            self._copier.join(LOG_GRACE_S)
        words = last_line(self._log, self._log_start)
        raise EngineDied(f"the engine died: {reason}" + (f"; {words}" if words else ""), f"see {self._log}")
