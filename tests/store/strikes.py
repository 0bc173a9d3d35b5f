"""Strike work at its k-th call of the file system: kill the process, or refuse the call."""

import errno
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from kgqa_hpc.errors import DiskFull
from kgqa_hpc.store import atomic
from tests.disk_watch import Probe, watch

KILLED, DONE = -signal.SIGKILL, 0
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)
# What a full disk refuses; it still removes, renames and closes.
NEEDS_SPACE = ("open", "write", "pwrite", "truncate", "fsync", "mkdir", "link")


class Strike:
    """A probe. `kill`: die before the nth call. `torn`: let the nth write put down 7 bytes and die before the next
    call. `refuse`: the nth call fails, and a write before it fell short. `full`: from the nth call on, what needs
    space fails.
    """

    def __init__(self, fault: str, nth: int) -> None:
        self.fault, self.nth, self.calls, self.refused = fault, nth, 0, ""

    def __call__(self, call: str, where: str) -> int | None:
        self.calls += 1
        ahead = self.nth - self.calls
        if (self.fault, ahead) in (("kill", 0), ("torn", -1)):
            os.kill(os.getpid(), signal.SIGKILL)
        full = self.fault == "full" and ahead <= 0 and call in NEEDS_SPACE
        if full or (self.fault, ahead) == ("refuse", 0):
            self.refused = call
            number = ERRORS[self.nth % len(ERRORS)]
            raise OSError(number, os.strerror(number))
        if (self.fault, ahead, call) == ("torn", 0, "write"):
            return 7
        return 5 if (self.fault, ahead) == ("refuse", 1) else None


def start(work: Callable[[], object], probe: Probe) -> int:
    """Work in a forked child under the probe; the child's id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with watch(probe):
                work()
            code = DONE
        except BaseException:  # noqa: BLE001  a forked child must not return
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def end(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def suffer(work: Callable[[], object], strike: Strike, path: Path) -> None:
    """Work until it is struck. A refusal is one clear error about a path below `path`, and leaves no temp file."""
    if strike.fault in ("kill", "torn"):
        assert end(start(work, strike)) in (KILLED, DONE)
        return
    with watch(strike):
        try:
            work()
            assert strike.refused not in NEEDS_SPACE, f"call {strike.nth}, {strike.refused}, went unnoticed"
        except DiskFull as problem:
            assert str(path) in problem.message
            assert any(os.strerror(number) in problem.message for number in ERRORS)
            assert problem.cure
    # Removing and closing files that nobody needs any more may fail without harm: they are swept later.
    assert strike.refused in ("unlink", "close") or temps(path) == []


def temps(folder: Path) -> list[str]:
    """Names of the temp files below the folder, except the clocks of living workers."""
    names = [path.name for path in folder.rglob(f".*{atomic.TEMP_SUFFIX}")]
    return [name for name in names if not name.startswith(".clock.")]
