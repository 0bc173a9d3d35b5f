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
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import clean_environment, slurm  # noqa: F401  a fixture

ROOT = Path(__file__).resolve().parents[2]
GOES_IN = ("kgqa_hpc", "prompts", "configs", "containers", "pyproject.toml", "LICENSE", "README.md")
Done = subprocess.CompletedProcess[str]


def locked_down() -> bool:
    """Root without CAP_SYS_RESOURCE: apptainer wants to be told (see docs/guide/containers.md)."""
    status = Path("/proc/self/status").read_text()
    permitted = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return os.geteuid() == 0 and not int(permitted, 16) >> 24 & 1


def host_environment() -> dict[str, str]:
    keep = clean_environment()
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
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def lock(self) -> Path:
        return self.path.with_suffix(".lock")

    def exec(self, *command: object, options: tuple[object, ...] = (), timeout: float = 900) -> Done:
        """Run a command inside; never raises for its exit status."""
        return on_host("apptainer", "--quiet", "exec", *options, self.path, *command, timeout=timeout)

    def apptainer(self, verb: str, *options: str) -> Done:
        """Any other verb on the image: test, inspect, run-help."""
        return on_host("apptainer", verb, *options, self.path)


def on_host(*command: object, timeout: float = 900, **more: Any) -> Done:
    more = {"env": host_environment(), "stdin": subprocess.DEVNULL, "text": True, "timeout": timeout, **more}
    return subprocess.run([*map(str, command)], capture_output=True, **more)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """A clean environment with this project's mpiexec and whatever apptainer needs."""
    return host_environment()


@pytest.fixture(scope="session")
def host() -> Callable[..., Done]:
    """Run a command on the host, in that environment."""
    return on_host


@pytest.fixture(scope="session")
def image() -> Image:
    """The ci image of this checkout, built by containers/build.sh unless the cache holds it."""
    if shutil.which("apptainer") is None:
        pytest.skip("SKIPPED: APPTAINER IS NOT INSTALLED (tools/install_system.sh apptainer)")
    if own := os.environ.get("KGQA_TEST_IMAGE"):
        return Image(Path(own).resolve())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kgqa_hpc" / "images"
    folder = cache / content_hash()
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs build it once
        if not (folder / "built.json").exists():
            kept = sorted(filter(Path.is_dir, cache.iterdir()), key=lambda path: path.stat().st_mtime)
            for old in kept[:-2]:
                shutil.rmtree(old, ignore_errors=True)
            build(folder)
    built = json.loads((folder / "built.json").read_text())
    return Image(Path(built["image"]), built["wall_seconds"], built["cpu_seconds"])


def content_hash() -> str:
    digest = hashlib.sha256(str(locked_down()).encode())
    for top in GOES_IN:
        path = ROOT / top
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def build(folder: Path) -> None:
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = on_host(ROOT / "containers" / "build.sh", "--out", folder, "--no-test", "ci", timeout=3000)
    assert done.returncode == 0, f"containers/build.sh ci failed:\n{done.stderr[-4000:]}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    built = {"image": done.stdout.strip(), "wall_seconds": round(time.monotonic() - start, 1)}
    (folder / "built.json").write_text(json.dumps({**built, "cpu_seconds": round(cpu, 1)}))
