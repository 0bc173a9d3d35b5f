"""Who a process thinks it is, from the variables that real launchers set; an mpiexec of another MPI is refused."""

import re
from pathlib import Path

import pytest

from kgqa_hpc.cluster.ranks import (
    Mpi,
    World,
    assign_gpus,
    discover,
    launched_by,
    mismatch,
    parse_mpi,
    worker_name,
)
from kgqa_hpc.config import load_config
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.work.run import _gpus_per_worker


def variables(text: str) -> dict[str, str]:
    return dict(word.split("=") for word in text.split())


BATCH = variables("SLURM_JOB_ID=9 SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0")
STEP = variables("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=5 SLURM_STEP_TASKS_PER_NODE=2(x2),1 SLURM_NODEID=1")
STEP |= {"SLURM_PROCID": "3", "SLURM_LOCALID": "1"}
OPENMPI = variables("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4")
OPENMPI |= variables("OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2")
ARRAY = variables(
    "SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=16 SLURM_ARRAY_TASK_STEP=3"
)
SINGLE_STEP = variables("SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_ARRAY_TASK_ID=0")
PMI = variables("PMI_RANK=1 PMI_SIZE=3 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=3")
WORLDS = {
    "alone": ({}, World()),
    "batch": (BATCH, World()),
    "srun": (BATCH | STEP, World(3, 5, 1, 2, "srun")),
    "mpiexec": (OPENMPI, World(2, 4, 0, 2, "mpi")),
    "mpiexec in a job": (BATCH | STEP | OPENMPI, World(2, 4, 0, 2, "mpi")),
    "pmi": (PMI, World(1, 3, 1, 3, "mpi")),
    "pmix": (BATCH | STEP | {"PMIX_RANK": "3"}, World(3, 5, 1, 2, "mpi")),
    "array": (BATCH | ARRAY, World(2, 6, 0, 1, "array")),
    "srun in an array": (BATCH | STEP | SINGLE_STEP, World(0, 1, 0, 1, "array")),
    "requested": (OPENMPI | {"KGQA_LAUNCHER": "alone"}, World()),
    "requested srun": (BATCH | STEP | OPENMPI | {"KGQA_LAUNCHER": "srun"}, World(3, 5, 1, 2, "srun")),
}


@pytest.mark.parametrize(("environ", "world"), WORLDS.values(), ids=WORLDS.keys())
def test_the_world_is_what_the_launcher_says(environ: dict[str, str], world: World) -> None:
    assert discover(environ) == world


NONSENSE = {
    "OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=4": "OMPI_COMM_WORLD_RANK='x'",
    "PMI_RANK=4 PMI_SIZE=4": "PMI_RANK=4 does not fit PMI_SIZE=4",
    "KGQA_LAUNCHER=torque": "torque is not mpi",
    "KGQA_LAUNCHER=mpi": "nothing in the environment",
}


@pytest.mark.parametrize("environ", NONSENSE)
def test_nonsense_is_refused_and_named(environ: str) -> None:
    with pytest.raises(ConfigError, match=NONSENSE[environ]):
        discover(variables(environ))


def test_a_worker_name_is_never_used_twice_and_fits_a_file_name() -> None:
    names = {worker_name(World(3, 4), "node a/b") for _ in range(50)} | {worker_name(World(3, 4))}
    assert len(names) == 51
    assert all(re.fullmatch("[a-zA-Z0-9-]+", name) for name in names)


@pytest.mark.parametrize(
    ("local_rank", "per_worker", "seen", "gets"),
    [
        (1, 1, "0,1,2,3", "1"),
        (1, 2, "4,5,6,7", "6,7"),
        (3, 1, "2", "2"),  # srun --gpus-per-task gave it one already
        (2, 1, None, "2"),
        (1, 0, "0,1", None),
    ],
)
def test_each_worker_of_a_node_gets_its_own_gpus(
    local_rank: int, per_worker: int, seen: str | None, gets: str | None
) -> None:
    environ = {} if seen is None else {"CUDA_VISIBLE_DEVICES": seen}
    assert assign_gpus(World(local_rank, 4, local_rank, 4, "srun"), per_worker, environ) == gets
    assert environ.get("CUDA_VISIBLE_DEVICES") == (seen if gets is None else gets)


def test_a_run_takes_as_many_gpus_for_each_worker_as_its_most_demanding_engine_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that `command` starts has its own cards, as a model in the process has."""
    file = tmp_path / "config.yaml"
    server = "{kind: openai, model: m, command: [serve, '{port}'], gpus: 2}"
    passes = f"[{{name: write, steps: [generate]}}, {{name: judge, steps: [judge], engine: {server}}}]"
    file.write_text(f"seed: 1\nengine: {{kind: scripted}}\npasses: {passes}\n")
    config = load_config(file)
    monkeypatch.delenv("KGQA_GPUS_PER_WORKER", raising=False)
    assert _gpus_per_worker(config) == 2
    monkeypatch.setenv("KGQA_GPUS_PER_WORKER", "4")
    assert _gpus_per_worker(config) == 4


def test_one_worker_without_a_list_leaves_cuda_alone_and_more_workers_than_gpus_are_refused() -> None:
    environ: dict[str, str] = {}
    assert assign_gpus(World(), 1, environ) is None
    assert environ == {}
    with pytest.raises(ConfigError, match="local rank 2 needs 1 GPU"):
        assign_gpus(World(2, 4, 2, 4, "srun"), 1, {"CUDA_VISIBLE_DEVICES": "0,1"})


LIBRARY = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11, repo rev: v5.0.11"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LIBRARY, Mpi("Open MPI", "5.0.11")),
        ("mpiexec (Open MPI) 5.0.11\n\nReport bugs to the list\n", Mpi("Open MPI", "5.0.11")),
        ("mpirun (Open MPI) 4.1.4\n", Mpi("Open MPI", "4.1.4")),
        ("Open MPI 5.0.8", Mpi("Open MPI", "5.0.8")),
        ("HYDRA build details:\n    Version:      4.0.2\n    CC: gcc", Mpi("MPICH", "4.0.2")),
        ("MPICH Version:      4.2.1\nMPICH Release date: unknown", Mpi("MPICH", "4.2.1")),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307", Mpi("Intel MPI", "2021.9")),
        ("MVAPICH2 Version      :\t2.3.7", Mpi("MVAPICH", "2.3.7")),
        ("MPI VERSION    : CRAY MPICH version 8.1.27.26 (ANL base 3.4a2)", Mpi("Cray MPICH", "8.1.27.26")),
        ("something else 1.2", None),
    ],
)
def test_every_way_an_mpi_names_itself_is_understood(text: str, expected: Mpi | None) -> None:
    assert parse_mpi(text) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ("", None),
        ("PMI_SIZE=4 SLURM_STEP_ID=0", None),  # srun serves several
        ("OMPI_COMM_WORLD_SIZE=4 OMPI_VERSION=5.0.11", Mpi("Open MPI", "5.0.11")),
        ("OMPI_COMM_WORLD_SIZE=4 PMIX_VERSION=3.2.3", Mpi("Open MPI", "4")),
        ("PMI_SIZE=4 PMI_RANK=0", Mpi("MPICH", "")),
    ],
)
def test_the_launcher_is_read_from_the_variables_it_sets(environ: str, expected: Mpi | None) -> None:
    assert launched_by(variables(environ)) == expected


@pytest.mark.parametrize(
    ("launcher", "library", "fits"),
    [
        (Mpi("Open MPI", "5.0.3"), Mpi("Open MPI", "5.0.11"), True),
        (Mpi("Open MPI", "4.1.4"), Mpi("Open MPI", "5.0.11"), False),
        (Mpi("MPICH", ""), Mpi("Open MPI", "5.0.11"), False),
        (Mpi("Intel MPI", "2021.9"), Mpi("MPICH", "4.2"), True),
    ],
)
def test_mpis_of_one_family_fit_and_others_do_not(launcher: Mpi, library: Mpi, fits: bool) -> None:
    assert (mismatch(launcher, library) is None) is fits


def test_a_foreign_mpiexec_is_named_with_its_cure() -> None:
    for welcome in ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_VERSION": "5.0.8"}, {}):
        assert mismatch(launched_by(welcome), parse_mpi(LIBRARY)) is None
    foreign = launched_by({"OMPI_COMM_WORLD_SIZE": "2", "PMIX_VERSION": "4.2.2"})
    reason, cure = mismatch(foreign, parse_mpi(LIBRARY)) or ("", "")
    assert "mpiexec is Open MPI 4 and the MPI library is Open MPI 5.0.11" in reason
    assert "use an mpiexec of Open MPI 5" in cure
