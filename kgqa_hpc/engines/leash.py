"""Keeps a server from outliving its owner: `python -m kgqa_hpc.engines.leash COMMAND …`.

The owner holds the other end of this process's standard input. Its end, for whatever reason, is the server's:
all processes of its group are killed. A byte before the end asks for an orderly stop first.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

GRACE_S = 10.0
LOOK_EVERY_S = 0.2


def main() -> None:
    """Run the command until it ends or the owner is gone; exit with its code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the engine ignores it; the server should not inherit that
    try:
        server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as problem:
        print(f"cannot start {sys.argv[1]}: {problem.strerror}", file=sys.stderr)
        sys.exit(127)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process goes last
    while server.poll() is None:
        if select.select([0], [], [], LOOK_EVERY_S)[0]:
            if os.read(0, 1):
                _stop(server)
            break
    _kill(server.pid)
    sys.exit(server.wait() & 0xFF)


def _stop(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
