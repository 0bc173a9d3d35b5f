"""A watched engine process: started, fed, read, and killed when it stalls.

The engine lives in a child because native code crashes, hangs and leaks, and a worker must not: whatever
happens in there, the worker gets an answer per request or one EngineDied. `start` may be called again
afterwards.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import BaseModel

from kgqa_hpc import errors
from kgqa_hpc.engines.engine import EngineInfo, Request, Response
from kgqa_hpc.engines.protocol import Frames, GarbledStream, frame, read_responses, write_requests
from kgqa_hpc.errors import EngineDied, InputError

START_LIMIT_S = 3600.0  # a 70B model from a cold parallel file system takes minutes, not an hour
CLOSE_GRACE_S = 20.0


def _never() -> bool:
    return False


class EngineProcess:
    """The worker's end of an engine child.

    `config` is an EngineConfig, `log` the file that collects what the child prints (appended). The child
    counts as stalled after `stall_after` seconds without any answer or progress while requests are in flight,
    or after `silent_after` seconds without a heartbeat (default: as long, but at least a minute: machines are
    busy). `start` from a thread that lives as long as the engine: the kernel ends the child together with the
    thread that started it.
    """

    def __init__(
        self, config: BaseModel, log: Path, stall_after: float = 600.0, silent_after: float | None = None
    ) -> None:
        self._config = config
        self._log = log
        self._log_start = 0
        self._stall_after = stall_after
        self._silent_after = max(stall_after, 60.0) if silent_after is None else silent_after
        self._info: EngineInfo | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._frames = Frames()
        self._outgoing: deque[memoryview] = deque()
        self._in_flight: set[str] = set()
        self._early: list[Response] = []  # answers that came while a preflight or count was awaited
        self._progress = 0
        self._silent = 0.0  # seconds in which we listened and heard nothing at all
        self._idle = 0.0  # seconds in which we listened and heard of no progress
        self._looked = 0.0

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.kill()

    @property
    def info(self) -> EngineInfo:
        """Of the engine that was started last."""
        assert self._info is not None, "start() first"
        return self._info

    @property
    def pid(self) -> int | None:
        """The child's process id, None when there is none."""
        return self._process.pid if self._process else None

    @property
    def in_flight(self) -> frozenset[str]:
        """Ids of the requests that were sent and not answered; after EngineDied: those that died with it."""
        return frozenset(self._in_flight)

    def start(self, stop: Callable[[], bool] = _never) -> EngineInfo:
        """Start the child and wait until its model is loaded.

        Raises EngineConfigError (or another InputError) with the engine's own words when it cannot start as
        configured, EngineDied when it dies or stalls while starting, or when `stop()` becomes true.
        """
        self.kill()
        self._launch()
        hello = {
            "config": self._config.model_dump(mode="json"),
            "memory": str(self._log.with_suffix(".faults")),
        }
        self._post(frame("hello", hello))
        began = time.monotonic()
        while True:
            for verb, content in self._listen(0.2, working=False):
                if verb == "ready":
                    self._info = EngineInfo(**content)
                    return self._info
                if verb == "refused":
                    self.kill()
                    raise _refusal(content)
            if stop():
                self._die("it was stopped while starting")
            if time.monotonic() - began > START_LIMIT_S:
                self._die(f"it did not start within {START_LIMIT_S:.0f} s")

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Have the engine check the schemas it will be given. Raises EngineConfigError."""
        self._ask("preflight", list(schemas), "checked")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text in the model's tokenizer."""
        return list(self._ask("count", list(texts), "counts"))

    def send(self, requests: Sequence[Request]) -> None:
        """Give the engine requests; returns at once, what the pipe cannot hold goes out with `receive`."""
        if requests:
            self._in_flight.update(request.id for request in requests)
            self._post(frame("requests", write_requests(requests)))

    def receive(self, timeout: float) -> list[Response]:
        """The answers that are there, waiting up to `timeout` seconds for the first; [] when there is none.

        Each answers one request that was sent. Raises EngineDied with the reason.
        """
        if self._early:
            early, self._early = self._early, []
            return early
        deadline = time.monotonic() + timeout
        while True:
            answers: list[Response] = []
            left = max(deadline - time.monotonic(), 0.0)
            for verb, content in self._listen(left, working=bool(self._in_flight)):
                if verb == "responses":
                    answers += self._accept(content)
            if answers or time.monotonic() >= deadline:
                return answers

    def cancel(self) -> None:
        """Abort what is in flight: each request is answered with finish `abort` soon."""
        self._post(frame("cancel"))

    def fileno(self) -> int:
        """To select on: readable when `receive(0)` has news."""
        assert self._socket is not None, "start() first"
        return self._socket.fileno()

    def close(self) -> None:
        """Let the engine end in order, within a grace time; kill it otherwise. Idempotent."""
        if self._process is None:
            return
        with suppress(EngineDied):
            self._post(frame("cancel") + frame("close"))
            deadline = time.monotonic() + CLOSE_GRACE_S
            while time.monotonic() < deadline:
                self._listen(0.1, working=False)  # ends with EngineDied: it closed its connection
        self.kill()

    def kill(self) -> None:
        """End the child and all it started, now. Idempotent."""
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
        with theirs, self._log.open("ab") as log:
            self._log_start = log.tell()
            # A new process, not a fork: a forked child that uses a loaded runtime deadlocks. A session of its
            # own: signals to the worker's process group do not reach it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kgqa_hpc.engines.child", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours
        self._frames = Frames()
        self._outgoing.clear()
        self._in_flight.clear()
        self._early.clear()
        self._silent = self._idle = 0.0
        self._looked = time.monotonic()

    def _ask(self, verb: str, content: Any, answer: str) -> Any:
        self._post(frame(verb, content))
        while True:
            replies = []
            for got, reply in self._listen(0.2, working=True):
                if got == "responses":
                    self._early += self._accept(reply)
                elif got != "beat":
                    replies.append((got, reply))
            for got, reply in replies:  # after all frames were seen: an answer may have come behind the reply
                if got == "refused":
                    raise _refusal(reply)
                if got == answer:
                    return reply

    def _accept(self, content: list[Any]) -> list[Response]:
        answers = read_responses(content)
        for answer in answers:
            if answer.id not in self._in_flight:
                self._die(f"it answered {answer.id!r}, which nobody had asked or was answered already")
            self._in_flight.discard(answer.id)
        return answers

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
            except BlockingIOError:
                return
            except OSError:
                return  # it is gone; reading tells why, after its last words
            if sent == len(self._outgoing[0]):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = self._outgoing[0][sent:]

    def _listen(self, timeout: float, *, working: bool) -> list[tuple[str, Any]]:
        """Frames that arrive within `timeout`; raises EngineDied when signs of life are missing."""
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
        except GarbledStream as problem:
            self._die(f"it sent gibberish ({problem})")
        except OSError:
            pass  # reset by its death: the same as the end of the stream
        if heard:
            return heard  # its last words first; the next read finds the end
        self._die(None)
        return heard

    def _watch(self, heard: list[tuple[str, Any]], working: bool) -> None:
        now = time.monotonic()
        # Only time in which we were here counts: a worker that was suspended must not blame its engine.
        elapsed = min(now - self._looked, self._stall_after / 4)
        self._looked = now
        beats = [content for verb, content in heard if verb == "beat"]
        moved = bool(beats) and beats[-1] != self._progress
        if beats:
            self._progress = beats[-1]
        answered = len(heard) > len(beats)
        self._silent = 0.0 if heard else self._silent + elapsed
        self._idle = 0.0 if answered or moved or not working else self._idle + elapsed
        if self._silent > self._silent_after:
            self._die(f"it showed no sign of life for {self._silent:.0f} s")
        if self._idle > self._stall_after:
            self._die(
                f"it answered nothing for {self._idle:.0f} s with {len(self._in_flight)} requests in flight"
            )

    def _die(self, reason: str | None) -> None:
        """Kill what is left and raise EngineDied; without a `reason`, its exit status is the reason."""
        assert self._process is not None
        reason = reason or _exit_words(self._process.pid) or "it closed its connection"
        self.kill()
        words = _last_line(self._log, self._log_start)
        raise EngineDied(f"the engine died: {reason}" + (f"; {words}" if words else ""), f"see {self._log}")


def _exit_words(pid: int, patience: float = 5.0) -> str:
    """How a child ended, without reaping it: its process group must not be reused before it is killed."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if state is not None:
            by_signal = state.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            name = signal.Signals(state.si_status).name if by_signal else ""
            return f"killed by {name}" if by_signal else f"exit code {state.si_status}"
        time.sleep(0.01)
    return ""


def _last_line(log: Path, start: int) -> str:
    """The last thing printed after byte `start`, cut to a readable length."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 2000, start))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def _refusal(content: dict[str, str]) -> InputError:
    kind = getattr(errors, content["error"], InputError)
    problem: InputError = kind(content["message"], content["cure"])
    return problem
