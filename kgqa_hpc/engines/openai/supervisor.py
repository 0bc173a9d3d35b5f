"""A process that runs a command and ends it with its owner, however the owner ends.

The owner holds the supervisor's standard input. When that closes, because the owner closed it or died, all
processes of the command's group are killed; a byte before the end asks for an orderly stop first.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

LOOK_EVERY_S = 0.2
GRACE_S = 10.0


def supervised(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command under a supervisor; returns the supervisor, which exits with the command's code."""
    return subprocess.Popen(
        [sys.executable, "-m", "kgqa_hpc.engines.openai.supervisor", *command],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # survives a kill of the owner's group, to take the command down
    )


def main() -> None:
    """Entry point of the supervisor: run the command of the arguments until it or the owner has ended."""
    # The engine ignores this signal; the command should not inherit that
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as problem:
        print(f"cannot start {sys.argv[1]}: {problem.strerror}", file=sys.stderr)
        sys.exit(127)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process ends last
    while command.poll() is None:
        if select.select([0], [], [], LOOK_EVERY_S)[0]:
            if os.read(0, 1):  # an orderly stop is requested
                with suppress(ProcessLookupError):
                    os.killpg(command.pid, signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    command.wait(GRACE_S)
            break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(command.pid, signal.SIGKILL)
    sys.exit(command.wait() & 0xFF)


if __name__ == "__main__":
    main()
