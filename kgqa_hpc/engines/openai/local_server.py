"""A model server that the engine starts (`engine.command`), waits for, and stops.

A supervisor, a process of this module (`python -m kgqa_hpc.engines.openai.local_server COMMAND …`), runs the
server. The engine holds the supervisor's standard input. When that closes, because the engine closed it or
died, all processes of the server's group are killed; a byte before the end asks for an orderly stop first.
"""

import http.client
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kgqa_hpc.errors import EngineConfigError

# Ports below Linux's default range of ephemeral ports (from 32768 on), which any program may get meanwhile:
# a server may load its model for minutes before it uses its port.
PORTS = range(20_000, 32_768)
LOOK_EVERY_S = 0.2
GRACE_S = 10.0


def supervised(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command under a supervisor, whose standard input is to be held; returns the supervisor."""
    return subprocess.Popen(
        [sys.executable, "-m", "kgqa_hpc.engines.openai.local_server", *command],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # survives a kill of the engine's group, to take the command down
    )


class LocalServer:
    """A running server on a free loopback port. `{port}` in the command is replaced by its number.

    It ends with this process, however this process ends.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self.port = _free_port()
        self._name = command[0]
        words = [word.replace("{port}", str(self.port)) for word in command]
        self._supervisor = supervised(words, environment)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def exit_code(self) -> int | None:
        """The server's exit code; None while it runs."""
        return self._supervisor.poll()

    def wait_until_healthy(self, path: str, patience_s: float) -> None:
        """Wait for status 200 at `path`. Raises EngineConfigError when the server ends or takes too long."""
        deadline = time.monotonic() + patience_s
        while not self._is_healthy(path):
            if self.exit_code is not None:
                raise EngineConfigError(
                    f"engine.command: {self._name} ended with exit code {self.exit_code} before it was ready",
                    "its last words are in the engine's log",
                )
            if time.monotonic() > deadline:
                self.close()
                raise EngineConfigError(
                    f"engine.command: {self._name} was not ready within {patience_s:.0f} s (GET {path})",
                    "raise engine.start_timeout_s, or check engine.health_path",
                )
            time.sleep(LOOK_EVERY_S)

    def close(self) -> None:
        """Stop the server; kill it if it does not end by itself. Idempotent."""
        if self._supervisor.stdin is not None and not self._supervisor.stdin.closed:
            with suppress(BrokenPipeError):
                self._supervisor.stdin.write(b"x")
                self._supervisor.stdin.close()
        self._supervisor.wait()

    def _is_healthy(self, path: str) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


_turns = itertools.count()


def _free_port() -> int:
    """An unused port; each process starts the search at another number, so that two on a machine do not get
    the same port.
    """
    for _ in PORTS:
        port = PORTS[(7919 * os.getpid() + next(_turns)) % len(PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port
    raise EngineConfigError(
        f"engine.command: no port from {PORTS[0]} to {PORTS[-1]} is free", "stop what uses them"
    )


def main() -> None:
    """Entry point of the supervisor process: run the server's command until it ends or the owner has ended.

    Exits with the command's code."""
    # The engine ignores this signal; the server should not inherit that
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as problem:
        print(f"cannot start {sys.argv[1]}: {problem.strerror}", file=sys.stderr)
        sys.exit(127)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process ends last
    while server.poll() is None:
        if select.select([0], [], [], LOOK_EVERY_S)[0]:
            if os.read(0, 1):  # asked for an orderly stop
                with suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    server.wait(GRACE_S)
            break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)
    sys.exit(server.wait() & 0xFF)


if __name__ == "__main__":
    main()
