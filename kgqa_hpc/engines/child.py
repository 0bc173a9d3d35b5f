"""Main program of an engine process: `python -m kgqa_hpc.engines.child SOCKET_FD PARENT_PID`.

The main thread drives the engine and sends answers, many to a frame when many are ready; a second one takes
frames from the worker; a third sends a heartbeat with the engine's progress once a second, so that the worker
can tell a long answer from a stalled engine. The process never outlives its worker: the kernel kills it with
its parent (PR_SET_PDEATHSIG), and it ends when the socket closes. Signals to the whole job (Ctrl-C,
Slurm's USR1 and TERM) are ignored here: the worker handles them, and requests in flight can finish.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.clean import Redactor
from kgqa_hpc.engines.engine import EngineInfo, Response, ServerLoad
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.protocol import Frames, frame, read_requests, write_info, write_responses
from kgqa_hpc.engines.registry import ENGINES, Engine, parse_engine
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugin_files import load_plugin_file

BEAT_EVERY_S = 1.0
FLUSH_AT = 128  # largest number of responses in a frame; fewer are sent as soon as the engine is idle
_PR_SET_PDEATHSIG = 1
# Exceptions of wrong engine code, which every restart would repeat.
_MISTAKES = (AttributeError, ImportError, NameError, NotImplementedError, TypeError)


def main() -> None:
    """Serve one worker until it closes the connection or ends."""
    fd, parent = int(sys.argv[1]), int(sys.argv[2])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _Child(socket.socket(fileno=fd)).serve()


@contextmanager
def _naming_mistakes(kind: str) -> Iterator[None]:
    """Turn a mistake in the engine's code into an error with entry and line; other errors pass through."""
    try:
        yield
    except _MISTAKES:
        with ENGINES.calling(kind):
            raise


class _Child:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()
        self._received = self._receive()
        self._mailbox = Mailbox()
        self._mailbox.before_sleep = self._flush
        self._ready: list[Response] = []
        self._redact = Redactor(())
        self._engine: Engine | None = None
        self._sent_info: EngineInfo | None = None
        self._kind = ""
        self._sent_load: ServerLoad = {}

    def serve(self) -> None:
        threading.Thread(target=self._beat, daemon=True).start()
        _, hello = next(self._received)
        engine = self._start(hello)
        threading.Thread(target=self._read, args=(engine,), daemon=True).start()
        while not self._mailbox.ended:
            for response in engine.generate(self._mailbox):
                self._ready.append(response)
                if len(self._ready) >= FLUSH_AT:
                    self._flush()
            self._flush()
        self._send_load()
        engine.close()

    def _start(self, hello: dict[str, Any]) -> Engine:
        try:
            if hello["plugin"]:
                load_plugin_file(Path(hello["plugin"]))
            settings = parse_engine(hello["config"])
            self._redact = Redactor(settings.secret_names)
            with _naming_mistakes(settings.kind):
                kind = ENGINES.get(settings.kind)
                more = {"folder": Path(hello["batches"])} if getattr(kind, "keeps_batches", False) else {}
                engine: Engine = kind(settings, Path(hello["memory"]), **more)
                info = write_info(engine.info)
            self._engine, self._sent_info = engine, engine.info
            self._kind = settings.kind
        except InputError as problem:
            self._send("refused", self._refusal(problem))
            sys.exit(problem.exit_code)
        self._send("ready", info)
        return engine

    def _receive(self) -> Iterator[tuple[str, Any]]:
        """The worker's frames, one by one; ends the process when the worker has ended."""
        frames = Frames()
        while data := self._socket.recv(1 << 20):
            yield from frames.feed(data)
        os._exit(0)

    def _read(self, engine: Engine) -> None:
        try:
            for verb, content in self._received:
                self._obey(engine, verb, content)
        except Exception:  # noqa: BLE001 - a reader that dies unnoticed would leave the worker waiting
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _obey(self, engine: Engine, verb: str, content: Any) -> None:
        if verb == "requests":
            self._mailbox.put(read_requests(content))
        elif verb == "cancel":
            self._mailbox.cancel()
        elif verb == "close":
            self._mailbox.close()
        elif verb == "preflight":
            try:
                with _naming_mistakes(self._kind):
                    engine.preflight(content)
                self._sent_info = engine.info
                self._send("checked", write_info(engine.info))
            except InputError as problem:
                self._send("refused", self._refusal(problem))
        else:
            raise ValueError(f"unknown frame {verb!r}")

    def _flush(self) -> None:
        if self._ready:
            if self._engine and self._engine.info != self._sent_info:
                self._sent_info = self._engine.info
                self._send("described", write_info(self._sent_info))
            self._send("responses", write_responses(map(self._redact.response, self._ready)))
            self._ready = []

    def _send(self, verb: str, content: Any = None) -> None:
        data = frame(verb, content)
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError:  # the worker is gone
                os._exit(0)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT_EVERY_S):
            self._send("beat", int(getattr(self._engine, "progress", 0)))
            self._send_load()

    def _send_load(self) -> None:
        """Send the engine's counts of server failures, if it keeps them and they have changed."""
        load = dict(getattr(self._engine, "server_load", {}))
        if any(load.values()) and load != self._sent_load:
            self._sent_load = load
            self._send("load", load)

    def _refusal(self, problem: InputError) -> dict[str, str]:
        words = {"error": type(problem).__name__, "message": problem.message, "cure": problem.cure}
        return {key: self._redact.text(value) for key, value in words.items()}


if __name__ == "__main__":
    main()
