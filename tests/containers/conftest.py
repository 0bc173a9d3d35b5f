"""One image for all tests of this folder, built once per checkout's content.

It is kept in a cache folder outside the repository (${XDG_CACHE_HOME:-~/.cache}/kgqa_hpc/images) under a hash
of everything that goes in, so a second run on the same sources starts at once and a fresh machine builds it.
KGQA_TEST_IMAGE=some.sif uses that one instead.
"""

import fcntl
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.conftest import slurm  # noqa: F401  a fixture

ROOT = Path(__file__).resolve().parents[2]
GOES_IN = ("kgqa_hpc", "prompts", "configs", "containers", "pyproject.toml", "LICENSE", "README.md")
APPTAINER = shutil.which("apptainer")


def locked_down() -> bool:
    """Root without CAP_SYS_RESOURCE: apptainer wants to be told (see docs/guide/containers.md)."""
    status = Path("/proc/self/status").read_text()
    permitted = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return os.geteuid() == 0 and not int(permitted, 16) >> 24 & 1


def host_environment() -> dict[str, str]:
    """A clean environment with this project's mpiexec and whatever apptainer needs."""
    launchers = ("OMPI", "PMI", "PRTE", "SLURM", "KGQA")
    keep = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    keep["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if locked_down():
        keep["APPTAINER_DROP_CAPS"] = "CAP_SYS_RESOURCE"
    if os.geteuid() == 0:
        for prefix in ("OMPI", "PRTE"):
            keep[f"{prefix}_ALLOW_RUN_AS_ROOT"] = keep[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return keep


@dataclass(frozen=True)
class Image:
    """A built image, its lock file, and how long it took."""

    path: Path
    lock: Path
    wall_seconds: float
    cpu_seconds: float

    def exec(
        self,
        *command: str | Path,
        options: tuple[str | Path, ...] = (),
        timeout: float = 900,
        **popen: object,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside; never raises for its exit status."""
        return self._run("--quiet", "exec", *options, self.path, *command, timeout=timeout, **popen)

    def apptainer(self, verb: str, *options: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Any other verb on the image: test, inspect, run-help."""
        return self._run(verb, *options, self.path, timeout=timeout)

    def _run(self, *words: object, **popen: object) -> subprocess.CompletedProcess[str]:
        popen = {"env": host_environment(), "stdin": subprocess.DEVNULL, **popen}
        return subprocess.run(["apptainer", *map(str, words)], capture_output=True, text=True, **popen)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """A clean environment with this project's mpiexec and whatever apptainer needs."""
    return host_environment()


@pytest.fixture(scope="session")
def image() -> Image:
    """The ci image of this checkout, built by containers/build.sh unless the cache holds it."""
    if APPTAINER is None:
        pytest.skip("SKIPPED: APPTAINER IS NOT INSTALLED (tools/install_system.sh apptainer)")
    if own := os.environ.get("KGQA_TEST_IMAGE"):
        path = Path(own).resolve()
        return Image(path, path.with_suffix(".lock"), 0.0, 0.0)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kgqa_hpc" / "images"
    folder = cache / content_hash()
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs build it once
        if not (folder / "built.json").exists():
            keep_only_newest(cache)
            build(folder)
    built = json.loads((folder / "built.json").read_text())
    path = Path(built["image"])
    return Image(path, path.with_suffix(".lock"), built["wall_seconds"], built["cpu_seconds"])


def content_hash() -> str:
    digest = hashlib.sha256(str(locked_down()).encode())
    for top in GOES_IN:
        path = ROOT / top
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def keep_only_newest(cache: Path, count: int = 2) -> None:
    folders = sorted(
        (f for f in cache.iterdir() if f.is_dir()), key=lambda f: f.stat().st_mtime, reverse=True
    )
    for folder in folders[count:]:
        shutil.rmtree(folder, ignore_errors=True)


def build(folder: Path) -> None:
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [ROOT / "containers" / "build.sh", "--out", folder, "--no-test", "ci"]
    done = subprocess.run(command, env=host_environment(), capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, f"containers/build.sh ci failed:\n{done.stderr[-4000:]}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    built = {
        "image": done.stdout.strip(),
        "wall_seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }
    (folder / "built.json").write_text(json.dumps(built))


@pytest.fixture(scope="session")
def host() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command on the host, in the same clean environment."""

    def run(*command: str | Path, timeout: float = 900, **popen: object) -> subprocess.CompletedProcess[str]:
        popen.setdefault("env", host_environment())
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **popen
        )

    return run
