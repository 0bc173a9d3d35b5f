"""Main program of an engine process (`python -m kgqa_hpc.engines.child SOCKET_FD PARENT_PID`), and its protocol.

The main thread drives the engine and sends answers, many to a frame when many are ready; a second one takes
frames from the worker; a third sends a heartbeat with the engine's progress once a second, so that the worker
can tell a long answer from a stalled engine. The process never outlives its worker: the kernel kills it with
its parent (PR_SET_PDEATHSIG), and it ends when the socket closes. Signals to the whole job (Ctrl-C,
Slurm's USR1 and TERM) are ignored here: the worker handles them, and requests in flight can finish.

A frame is four bytes (length of the body, little-endian) and a body, the JSON array [verb, content]:

    worker → engine   hello {config, plugin, memory, batches}   preflight [schemas]   requests   cancel   close
    engine → worker   ready info   refused {error, message, cure}   checked info   described info   responses
                      beat {progress, retries, throttled, waited_s}

Requests travel as [objects, rows]: `objects` holds each message and each schema once, because the long instructions
are the same in all requests, and a row refers to them by number: a batch engine holds 400,000 requests at once.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields, replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args

from kgqa_hpc import errors
from kgqa_hpc.engines import ENGINES, Engine, parse_engine
from kgqa_hpc.engines.engine import LOAD, EngineInfo, Finish, Redactor, Request, Response, count_of, one_line
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.errors import ExtensionError, InputError
from kgqa_hpc.registry import load_plugin_file
from kgqa_hpc.store import canonical

BEAT_EVERY_S = 1.0
FLUSH_AT = 128  # largest number of responses in a frame; fewer are sent as soon as the engine is idle
HEAD = 4  # bytes of a frame's length
LONGEST = 1 << 30  # a larger length means that the stream is corrupt
_PR_SET_PDEATHSIG = 1
# Exceptions of wrong engine code, which every restart would repeat.
_MISTAKES = (AttributeError, ImportError, NameError, NotImplementedError, SystemExit, TypeError)
FINISHES = get_args(Finish)
_CURE = 'see "An engine" in docs/guide/extending.md'
_INFO = {"str": str, "int": int, "float": int | float}
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


def frame(verb: str, content: Any = None) -> bytes:
    """The bytes of a frame; `read_frames` is the inverse. Lone surrogates, which UTF-8 cannot encode, become '?'."""
    if verb == "requests":
        objects: dict[Any, Any] = {
            (m["role"], m["content"]): m for request in content for m in request.messages
        }
        objects |= {id(request.schema): request.schema for request in content}
        numbers = {key: number for number, key in enumerate(objects)}
        rows = [
            (name, [numbers[m["role"], m["content"]] for m in messages], max_tokens, temperature, seed,
             numbers[id(schema)])
            for name, messages, max_tokens, temperature, seed, schema in content
        ]  # fmt: skip
        content = [list(objects.values()), rows]
    elif verb == "responses":
        content = [tuple(response) for response in content]
    elif isinstance(content, EngineInfo):
        content = asdict(content)
    body = canonical.dumps([verb, content])
    return len(body).to_bytes(HEAD, "little") + body


def read_frames(received: bytearray) -> Iterator[tuple[str, Any]]:
    """Remove the complete frames from the received bytes; yields verb and parsed content of each.

    Raises AttributeError, KeyError, TypeError or ValueError for bytes that are no frame.
    """
    while len(received) >= HEAD:
        length = int.from_bytes(received[:HEAD], "little")
        if length > LONGEST:
            raise ValueError(f"a frame of {length:,} bytes")
        if len(received) < HEAD + length:
            return
        with memoryview(received) as view, view[HEAD : HEAD + length] as body:
            verb, content = canonical.loads(body)
        del received[: HEAD + length]
        yield verb, _parsed(verb, content)


def _parsed(verb: str, content: Any) -> Any:
    """The objects in a frame's content. Token counts are bounded, an error's texts are made printable."""
    match verb:
        case "hello" | "preflight" | "cancel" | "close":
            return content
        case "requests":
            objects, rows = content
            return [
                Request(name, tuple([objects[n] for n in messages]), max_tokens, temperature, seed, objects[schema])
                for name, messages, max_tokens, temperature, seed, schema in rows
            ]  # fmt: skip
        case "responses":
            responses = []
            for name, text, finish, prompt, completion, cached, error, thought in content:
                if not isinstance(text, str) or finish not in FINISHES:
                    raise ValueError(f"a response of type {type(text).__name__} with finish {finish!r}")
                counts = count_of(prompt), count_of(completion), count_of(cached)
                responses.append(Response(name, text, finish, *counts, error, thought))
            return responses
        case "ready" | "checked" | "described":
            return EngineInfo(**{**content, "max_batch": max(content["max_batch"], 1)})
        case "refused":
            # An error class of a package is unknown here.
            kind = getattr(errors, content["error"], InputError)
            return kind(*("\n".join(map(one_line, content[key].split("\n"))) for key in ("message", "cure")))
        case "beat":
            return {name: float(content.get(name, 0)) for name in ("progress", *LOAD)}
    raise ValueError(f"the verb {verb!r}")


class _Child:
    """An engine, its mailbox, and the connection to the worker."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()
        self._mailbox = Mailbox()
        self._mailbox.before_sleep = self._flush
        self._answers: list[Response] = []
        self._redact = Redactor(())
        self._engine: Engine | None = None
        self._sent_info: EngineInfo | None = None
        self._kind = ""

    def serve(self) -> None:
        """Serve one worker until it closes the connection."""
        threading.Thread(target=self._beat, daemon=True).start()
        frames = self._receive()
        _, hello = next(frames)
        self._kind = hello["config"]["kind"]
        if not self._reply("ready", lambda: self._start(hello)):
            return
        assert self._engine is not None
        threading.Thread(target=self._obey, args=(self._engine, frames), daemon=True).start()
        try:
            while not self._mailbox.ended:
                with ENGINES.calling(self._kind):
                    responses = self._engine.generate(self._mailbox)
                    if not ENGINES.ships(self._kind):
                        responses = checked_responses(ENGINES.entry(self._kind), responses)
                    for response in responses:
                        self._answers.append(response)
                        if len(self._answers) >= FLUSH_AT:
                            self._flush()
                self._flush()
        except InputError as problem:
            traceback.print_exc()
            if isinstance(problem, ExtensionError) and problem.__cause__:
                # An exception. A request may be the cause, so the worker restarts the engine.
                sys.exit(problem.message)
            self._flush()
            self._refuse(problem)
            sys.stderr.flush()
            os._exit(1)  # without waiting for the engine's threads
        self._send_beat()
        self._engine.close()

    def _start(self, hello: dict[str, Any]) -> None:
        if hello["plugin"]:
            load_plugin_file(Path(hello["plugin"]))
        settings = parse_engine(hello["config"])
        self._redact = Redactor(settings.secret_names)
        kind = ENGINES.get(settings.kind)
        more = {"folder": Path(hello["batches"])} if getattr(kind, "keeps_batches", False) else {}
        self._engine = kind(settings, Path(hello["memory"]), **more)

    def _reply(self, verb: str, work: Callable[[], None]) -> bool:
        """Reply with the engine's description after `work()`, or with the error that the user can fix.

        A mistake in the engine's code is such an error, with its entry and line. Other exceptions end the process.
        """
        try:
            try:
                work()
                assert self._engine is not None
                data = frame(verb, self._described(self._engine))
            except _MISTAKES:
                with ENGINES.calling(self._kind):
                    raise
        except InputError as problem:
            self._refuse(problem)
            return False
        self._send(data)
        return True

    def _described(self, engine: Engine) -> EngineInfo:
        """The engine's description, which is now sent. Raises ExtensionError for a wrong one."""
        self._sent_info = info = engine.info
        return (
            info if ENGINES.ships(self._kind) else checked_info(ENGINES.entry(self._kind), self._kind, info)
        )

    def _refuse(self, problem: InputError) -> None:
        words = {"error": type(problem).__name__, "message": problem.message, "cure": problem.cure}
        self._send(frame("refused", {key: self._redact.text(value) for key, value in words.items()}))

    def _receive(self) -> Iterator[tuple[str, Any]]:
        """The worker's frames; ends the process when the worker has ended."""
        received = bytearray()
        while data := self._socket.recv(1 << 20):
            received += data
            yield from read_frames(received)
        os._exit(0)

    def _obey(self, engine: Engine, frames: Iterator[tuple[str, Any]]) -> None:
        try:
            for verb, content in frames:
                if verb == "requests":
                    self._mailbox.put(content)
                elif verb == "cancel":
                    self._mailbox.cancel()
                elif verb == "close":
                    self._mailbox.close()
                else:
                    self._reply("checked", partial(engine.preflight, content))
        except BaseException:  # noqa: BLE001 - without this thread the worker would wait for ever
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _flush(self) -> None:
        if self._answers and self._engine is not None:
            if self._engine.info != self._sent_info:
                self._send(frame("described", self._described(self._engine)))
            self._send(frame("responses", map(self._redact.response, self._answers)))
            self._answers = []

    def _send(self, data: bytes) -> None:
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError:  # the worker has ended
                os._exit(0)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT_EVERY_S):
            self._send_beat()

    def _send_beat(self) -> None:
        progress, load = getattr(self._engine, "progress", 0), getattr(self._engine, "server_load", {})
        self._send(frame("beat", {"progress": int(progress), **load}))


# Checks of what an engine of the user's own gives. `entry` is the engine in messages: "engine echo of my-package 1.0".


def checked_info(entry: str, name: str, info: Any) -> EngineInfo:
    """The description of the engine that is registered as `name`, under this name."""
    if not isinstance(info, EngineInfo):
        raise ExtensionError(f"{entry}: info is {_brief(info)}, no EngineInfo", _CURE)
    for field in fields(info):
        value = getattr(info, field.name)
        if not isinstance(value, _INFO[str(field.type)]):
            raise ExtensionError(f"{entry}: info.{field.name} is {_brief(value)}, not a {field.type}", _CURE)
    return info if info.name == name else replace(info, name=name)


def checked_responses(entry: str, responses: Any) -> Iterator[Response]:
    """The responses, with an exception in `error` as its text and numbers of tokens as ints."""
    if not isinstance(responses, Iterable):
        words = f"generate() returned {_brief(responses)}, not an iterator of responses"
        raise ExtensionError(f"{entry}: {words}", _CURE)
    for response in responses:
        if not isinstance(response, Response):
            raise ExtensionError(f"{entry}: {_brief(response)} is no Response", _CURE)
        if isinstance(problem := response.error, BaseException):
            response = response._replace(error=f"{type(problem).__name__}: {problem}")
        if wrong := _wrong_field(response):
            raise ExtensionError(f"{entry}: response to {_brief(response.id)} has {wrong}", _CURE)
        counts = {name: getattr(response, name) for name in _COUNTS}
        counts = {name: count_of(int(n) if isinstance(n, Integral) else n) for name, n in counts.items()}
        yield response._replace(thought=response.thought or "", **counts)


def _wrong_field(response: Response) -> str:
    """The first field that has another type than documented, in words; "" if there is none."""
    if not isinstance(response.finish, str) or response.finish not in FINISHES:
        return f"finish {_brief(response.finish)}, not one of {', '.join(FINISHES)}"
    for name in ("id", "text", "thought", "error"):
        value = getattr(response, name)
        if not isinstance(value, str) and not (value is None and name in ("thought", "error")):
            return f"{name} {_brief(value)}, not a text"
    for name in _COUNTS:
        value = getattr(response, name)
        if not isinstance(value, Real | None):
            return f"{name} {_brief(value)}, not a number"
    return ""


def _brief(value: Any) -> str:
    return one_line(repr(value), 80)


def main() -> None:
    """Serve the worker whose socket and process id are given."""
    fd, parent = int(sys.argv[1]), int(sys.argv[2])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the worker died before prctl took effect
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _Child(socket.socket(fileno=fd)).serve()


if __name__ == "__main__":
    main()
