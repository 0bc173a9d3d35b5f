"""Python side of chaos_preload.c, which gives a kgqa process transient file-system errors and a wrong clock."""

import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KGQA = [sys.executable, "-m", "kgqa_hpc"]
LOOK, WRITE = 1, 2  # kinds of calls


class Control:
    """Control file of one process's preloaded library: the faults that are active now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(32))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 32)
        self._skew = 0

    def burst(self, code: int, seconds: float, which: int = LOOK | WRITE) -> None:
        """Make calls of kind `which` fail with `code` for the next `seconds`."""
        until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(seconds * 1e9)
        self._memory[:] = struct.pack("=4q", code, until, self._skew, which)

    def skew(self, seconds: int) -> None:
        """Move the clock."""
        self._skew = seconds
        self._memory[16:24] = struct.pack("=q", seconds)


def compile_preload(folder: Path) -> Path:
    """The library of tools/chaos_preload.c. Raises FileNotFoundError without a C compiler."""
    library = folder / "chaos_preload.so"
    source = ROOT / "tools" / "chaos_preload.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def environment(
    library: Path | None = None, control: Control | None = None, root: Path | None = None
) -> dict[str, str]:
    """This environment without a launcher's variables, with the preloaded library when it is given."""
    foreign = ("SLURM_", "OMPI_", "PMI", "PRTE_", "KGQA_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    clean["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [clean.get("PYTHONPATH")])])
    if library and control and root:
        clean |= {"LD_PRELOAD": str(library), "CHAOS_CONTROL": str(control.path), "CHAOS_ROOT": str(root)}
    return clean
