"""Compiler of the kernels (numba), and the cache folder of their machine code.

`kernel` compiles a function to machine code that runs without the interpreter lock. The cache folder is named after a
digest of the sources of graphlets/kernels, because these kernels use helpers of other files. Other kernels have their
helpers in their own file, which numba checks itself. So old machine code is never used for changed sources.
Candidates for the folder, in order:

1. `$NUMBA_CACHE_DIR`; 2. the package's own `__pycache__`; 3. the user's cache folder; 4. a temporary folder, deleted
at the end of the process. The first writable folder is used. If an earlier folder holds compiled code but is read-only
(a container image, a shared installation), its files are copied into the folder in use; numba itself would ignore
them. Without any writable folder, kernels are compiled in memory.

The first compilation in a process logs that it takes some seconds, once per machine.
"""

import atexit
import contextlib
import functools
import hashlib
import logging
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

_PACKAGE = Path(__file__).parent
_SHARED_SOURCES = _PACKAGE / "graphlets" / "kernels"
_log = logging.getLogger(__name__)


helper = numba.njit(nogil=True, boundscheck=False)
"""For functions that only kernels call: compiled with them, not cached on their own."""


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call (nopython, nogil), with a cache on disk if a writable folder exists.

    If the cache cannot be written or read (disk full, truncated file), the function is compiled again.
    """
    settings: Any = numba.config
    folder, before = _cache_folder(), settings.CACHE_DIR
    settings.CACHE_DIR = str(folder) if folder else before  # numba reads it when a function is decorated
    try:
        compiled: Any = numba.njit(nogil=True, cache=True, boundscheck=False)(function)
    except RuntimeError:  # numba found no writable cache folder
        compiled = helper(function)
    finally:
        settings.CACHE_DIR = before  # functions of other packages keep their own folder

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal compiled
        try:
            return compiled(*arguments)
        except (OSError, EOFError, pickle.UnpicklingError) as problem:
            # Only the cache raises these, never a kernel.
            _log.warning("compiled kernels are not cached: %s", problem)
            compiled = helper(function)
            return compiled(*arguments)

    return call


@functools.cache
def _cache_folder() -> Path | None:
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    for path in sorted(_SHARED_SOURCES.rglob("*.py")):
        digest.update(path.read_bytes())
    home: Path | None = None
    with contextlib.suppress(RuntimeError):  # the user has no home folder
        home = Path.home() / ".cache"
    numba_folder, user = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    bases = (numba_folder, _PACKAGE / "__pycache__", user or home)
    candidates = [Path(base) / f"kgqa-kernels-{digest.hexdigest()[:16]}" for base in bases if base]
    folder = next(filter(_is_writable, candidates), None)
    if folder is None:
        try:
            folder = Path(tempfile.mkdtemp(prefix="kgqa-kernels-"))
        except OSError:
            return None
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for shipped in candidates[: candidates.index(folder) if folder in candidates else None]:
        _seed(folder, shipped)
    return folder


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _seed(folder: Path, shipped: Path) -> None:
    """Copy missing compiled files into `folder`, each by atomic rename, because other processes may read there."""
    for source in shipped.glob("*/*.nb[ic]"):
        target = folder / source.parent.name / source.name
        if target.exists():
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=target.parent)
            os.close(handle)
            shutil.copyfile(source, temporary)
            os.replace(temporary, target)
        except OSError as problem:  # without the copy, kernels are compiled again
            _log.warning("compiled kernels were not copied to %s: %s", folder, problem)
            return


class _Announce(event.Listener):
    """Listener of numba's compile event: logs once per process that kernels are being compiled."""

    announced = False

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if not self.announced and module.startswith("kgqa_hpc.graphlets"):
            self.announced = True
            _log.warning("compiling the graphlet kernels for this machine: some 10-40 s, once")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announce())
