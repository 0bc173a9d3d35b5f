"""A Dask cluster of Slurm jobs, as dask-jobqueue's own settings (jobqueue.slurm in ~/.config/dask) describe them."""

from __future__ import annotations

import subprocess
from typing import Any

from kgqa_hpc.errors import InputError

MOST = 64  # jobs that are asked of Slurm at once
SETTINGS = "jobqueue.slurm in ~/.config/dask/jobqueue.yaml"


def slurm_cluster() -> Any:
    """A cluster whose jobs end with it.

    Raises InputError when dask-jobqueue is not installed, does not know what to ask of Slurm, or Slurm refuses it.
    """
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise InputError(
            "--dask slurm needs dask-jobqueue, which is not installed", "pip install 'kgqa_hpc[dask]'"
        ) from None
    try:
        cluster = SLURMCluster()
    except ValueError as problem:  # it says which of its settings are missing
        raise InputError(
            f"--dask slurm: {str(problem).splitlines()[0].rstrip(':')}",
            f"say it under {SETTINGS}, e.g. cores: 4 and memory: 8GB",
        ) from None
    _require_accepted(cluster.job_script())
    cluster.adapt(minimum=1, maximum_jobs=MOST)
    return cluster


def _require_accepted(script: str) -> None:
    """Raise InputError when Slurm would not take such a job: Dask would wait for it without end."""
    try:
        asked = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True)
    except OSError as problem:
        raise InputError(
            f"--dask slurm: no sbatch here: {problem.strerror}", "run it on a login node"
        ) from None
    if asked.returncode:
        complaint = asked.stderr.strip().splitlines() or ["without a reason"]
        raise InputError(f"Slurm refuses Dask's jobs: {complaint[0]}", f"mend {SETTINGS}")
