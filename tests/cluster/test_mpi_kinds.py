"""kgqa_hpc.cluster.mpi: an mpiexec of another MPI is told apart before anything can hang."""

from __future__ import annotations

import pytest

from kgqa_hpc.cluster.mpi import Mpi, launched_by, mismatch, parse_mpi, refuse_foreign_launcher
from kgqa_hpc.errors import InputError

LIBRARY = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11, repo rev: v5.0.11"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LIBRARY, Mpi("Open MPI", "5.0.11")),
        ("mpiexec (Open MPI) 5.0.11\n\nReport bugs to the list\n", Mpi("Open MPI", "5.0.11")),
        ("mpirun (Open MPI) 4.1.4\n", Mpi("Open MPI", "4.1.4")),
        ("Open MPI 5.0.8", Mpi("Open MPI", "5.0.8")),
        (
            "HYDRA build details:\n    Version:                                 4.0.2\n    CC: gcc",
            Mpi("MPICH", "4.0.2"),
        ),
        ("MPICH Version:      4.2.1\nMPICH Release date: unknown", Mpi("MPICH", "4.2.1")),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307", Mpi("Intel MPI", "2021.9")),
        ("MVAPICH2 Version      :\t2.3.7", Mpi("MVAPICH", "2.3.7")),
        ("MPI VERSION    : CRAY MPICH version 8.1.27.26 (ANL base 3.4a2)", Mpi("Cray MPICH", "8.1.27.26")),
        ("something else 1.2", None),
    ],
)
def test_every_way_an_mpi_names_itself_is_understood(text: str, expected: Mpi | None) -> None:
    assert parse_mpi(text) == expected


def test_the_launcher_is_read_from_the_variables_it_sets() -> None:
    assert launched_by({}) is None
    assert launched_by({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_VERSION": "5.0.11"}) == Mpi("Open MPI", "5.0.11")
    assert launched_by({"OMPI_COMM_WORLD_SIZE": "4", "PMIX_VERSION": "3.2.3"}) == Mpi("Open MPI", "4")
    assert launched_by({"PMI_SIZE": "4", "PMI_RANK": "0"}) == Mpi("MPICH", "")


def test_srun_serves_several_mpis_and_is_not_judged() -> None:
    assert launched_by({"PMI_SIZE": "4", "SLURM_STEP_ID": "0"}) is None


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
    assert (mismatch(launcher, library) == "") is fits


def test_a_foreign_mpiexec_is_refused_with_reason_and_cure() -> None:
    with pytest.raises(InputError) as refusal:
        refuse_foreign_launcher(LIBRARY, {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_VERSION": "4.2.2"})
    assert "mpiexec is Open MPI 4 and the MPI library is Open MPI 5.0.11" in refusal.value.message
    assert "use an mpiexec of Open MPI 5" in refusal.value.cure


@pytest.mark.parametrize("environ", [{"OMPI_COMM_WORLD_SIZE": "2", "OMPI_VERSION": "5.0.8"}, {}])
def test_the_own_mpiexec_and_none_at_all_are_welcome(environ: dict[str, str]) -> None:
    try:
        refuse_foreign_launcher(LIBRARY, environ)
    except InputError as refusal:
        pytest.fail(f"refused: {refusal.message}")
