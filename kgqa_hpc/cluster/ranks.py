"""The rank of this process, the number of ranks (from MPI, srun or a job array; 1 if alone), and its GPUs.

They come from environment variables only. mpi4py is imported (cluster/mpi.py) only if these show that a launcher with
MPI started this process, because importing it elsewhere may hang or print. Ranks are independent and send no messages
while they work; rank 0 is merely the first to try for the coordinator's role (work/coordinator.py).
"""

import os
import re
import secrets
import socket
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Literal

from kgqa_hpc.errors import ConfigError

Launcher = Literal["mpi", "srun", "array", "alone"]
LAUNCHERS: tuple[Launcher, ...] = ("mpi", "srun", "array")  # in the order in which they are looked for
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
