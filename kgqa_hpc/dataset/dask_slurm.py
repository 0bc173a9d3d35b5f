"""A Dask cluster of Slurm jobs, set up by dask-jobqueue's settings (jobqueue.slurm in ~/.config/dask)."""

from __future__ import annotations

import subprocess
from typing import Any

from kgqa_hpc.errors import InputError

MOST = 64  # jobs at once
SETTINGS = "jobqueue.slurm in ~/.config/dask/jobqueue.yaml"


def slurm_cluster() -> Any:
    """A cluster whose jobs are cancelled when it is closed.

    Raises InputError when dask-jobqueue is not installed or lacks settings, or when Slurm refuses its jobs.
    """
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise InputError(
            "--dask slurm needs dask-jobqueue, which is not installed", "pip install 'kgqa_hpc[dask]'"
        ) from None
    try:
        cluster = SLURMCluster()
    except ValueError as problem:  # its message names the missing settings
        raise InputError(
            f"--dask slurm: {str(problem).splitlines()[0].rstrip(':')}",
            f"say it under {SETTINGS}, e.g. cores: 4 and memory: 8GB",
        ) from None
    _require_accepted(cluster.job_script())
    cluster.adapt(minimum=1, maximum_jobs=MOST)
    return cluster


def _require_accepted(script: str) -> None:
    """Raise InputError when Slurm rejects the job script: Dask would wait for the job for ever."""
    try:
        asked = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True)
    except OSError as problem:
        raise InputError(
            f"--dask slurm: no sbatch here: {problem.strerror}", "run it on a login node"
        ) from None
    if asked.returncode:
        complaint = asked.stderr.strip().splitlines() or ["without a reason"]
        raise InputError(f"Slurm refuses Dask's jobs: {complaint[0]}", f"mend {SETTINGS}")
