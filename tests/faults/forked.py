"""Runs `kgqa` commands in forked processes whose file system fails, or that die, at a chosen call.

Reads one JSON line per command from standard input, {words, output, root} and, where wanted, {fault, user, version},
and answers {code, calls}: the exit code, minus the signal's number when it was killed, and the number of calls that a
fault could have struck. `fault` is NAME@k: the k-th call below `root` and all after it fail with errno NAME, or the
process dies there (KILL). Python's audit events see each open, rename, link and folder, whoever makes it;
tests/disk_watch.py the writes. `user` is a user id, which may read everything (the interpreter may be root's) and
write by its rights; `version` is one that the package believes to have.
"""

import ctypes
import errno
import json
import os
import signal
import struct
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from kgqa_hpc.cli import main as kgqa
from kgqa_hpc.compile_kernels import compile_kernels
from kgqa_hpc.graphlets import sample
from tests.disk_watch import watch

# Loaded once, before the first fork: else each command takes seconds for modules and for machine code of kernels.
for module in (
    "duckdb",
    "h5py",
    "matplotlib.backends.backend_agg",
    "matplotlib.pyplot",
    "numba",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "scipy.stats",
):
    with suppress(ImportError):
        import_module(module)
for module in ("dataset.merge", "report", "runs.chain", "stages", "target", "work"):
    import_module(f"kgqa_hpc.{module}")
compile_kernels()
sample.shapes_png = lambda drawn: b"a picture"  # type: ignore[assignment]  # drawing takes 0.4 s
GROUP = 65533
CHANGES = {"os.rename", "os.link", "os.mkdir", "os.truncate", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Fault:
    """Counts the calls below `root`, and strikes from the k-th on."""

    def __init__(self, text: str, root: str) -> None:
        self.name, _, number = text.partition("@")
        self.at, self.root, self.calls, self.on = int(number or 0), root, 0, True

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and (event in CHANGES or event == "open") and arguments and self._below(arguments[0]):
            reading = event == "open" and not int(arguments[2] or 0) & WRITING
            if not reading or self.name == "EMFILE":
                self.strike(str(arguments[0]))

    def probe(self, call: str, where: str) -> None:
        if call in ("write", "pwrite", "fsync") and self.name != "EMFILE":
            path = os.readlink(f"/proc/self/fd/{where}") if where.isdigit() else where
            if self._below(path):
                self.strike(path)

    def _below(self, path: object) -> bool:
        return isinstance(path, str | Path) and str(path).startswith(self.root)

    def strike(self, path: str) -> None:
        self.calls += 1
        if self.at and self.calls >= self.at:
            if self.name == "KILL":
                os.kill(os.getpid(), signal.SIGKILL)
            number = getattr(errno, self.name)
            raise OSError(number, os.strerror(number), path)


def become(user: int | None, version: str) -> None:
    """Give up root, in a group that all users of the tests have; be another version of the package."""
    if user is not None:
        libc = ctypes.CDLL(None, use_errno=True)
        os.setgroups([])
        os.setgid(GROUP)
        libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
        os.setuid(user)
        reads = 1 << 2  # CAP_DAC_READ_SEARCH
        capabilities = struct.pack("6I", reads, reads, reads, 0, 0, 0)
        assert libc.capset(struct.pack("Ii", 0x20080522, 0), capabilities) == 0
        assert libc.prctl(47, 2, 2, 0, 0) == 0  # PR_CAP_AMBIENT: for engines, too
        os.umask(0o007)
    for module in list(sys.modules.values()) if version else ():
        if module.__name__.startswith("kgqa_hpc") and hasattr(module, "__version__"):
            module.__version__ = version


def work(order: dict[str, Any], fault: Fault, count: int) -> None:
    """Run a command in this process, which ends with it."""
    said = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    code = 1
    try:
        become(order.get("user"), order.get("version", ""))
        sys.argv = ["kgqa", *order["words"]]
        sys.addaudithook(fault.audit)
        with watch(fault.probe):
            kgqa()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except Exception:  # noqa: BLE001  the test sees the traceback and fails
        traceback.print_exc()
    finally:
        fault.on = False
        os.write(count, str(fault.calls).encode())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        fault = Fault(order.get("fault", ""), order["root"])
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            work(order, fault, writer)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        calls = int(os.read(reader, 100) or 0)
        os.close(reader)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "calls": calls}), flush=True)


main()
