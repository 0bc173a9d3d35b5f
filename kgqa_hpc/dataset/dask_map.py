"""Staging on a Dask cluster: a map over the names of the shards.

The workers need kgqa_hpc and a shared file system on which the run has the same path. The assignment of shards to
workers does not affect the dataset. A new cluster consists of Slurm jobs, set up by dask-jobqueue's own settings
(jobqueue.slurm in ~/.config/dask). Needs the extra `dask`.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.stage import Stager
from kgqa_hpc.dataset.staging import Stage
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.store.run_folder import RunFolder

MOST = 64  # jobs at once
SETTINGS = "jobqueue.slurm in ~/.config/dask/jobqueue.yaml"

SLURM = "slurm"


@contextmanager
def stage_by_dask(address: str) -> Iterator[Stage]:
    """A `Stage` on the Dask cluster at `address`, or on a new cluster of Slurm jobs (`slurm`).

    Raises InputError when Dask is not installed or Slurm refuses its jobs; StoreError when the cluster cannot be
    reached.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--dask needs Dask, which is not installed", "pip install 'kgqa_hpc[dask]'"
        ) from None
    with ExitStack() as stack:
        cluster = stack.enter_context(slurm_cluster()) if address == SLURM else address
        try:
            client = stack.enter_context(Client(cluster, timeout="30s"))
        except (OSError, ValueError) as problem:
            cure = "is its scheduler running?"
            raise StoreError(f"no Dask cluster at {address}: {problem}", cure) from None
        yield partial(_stage, client)


def _stage(client: Any, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
    from distributed import as_completed

    paths = {"run": str(work.run.path.resolve()), "folder": str(scratch.resolve())}
    for future in as_completed(client.map(_stage_shard, work.manifest.names, pure=False, **paths)):
        future.result()
        shard_done()
    return scratch


def _stage_shard(name: str, run: str, folder: str) -> None:
    """Stage a shard; runs on a Dask worker."""
    _stager(run, folder).write(name, Path(folder))


@lru_cache(1)
def _stager(run: str, folder: str) -> Stager:
    """The stager of a worker, opened once per merge: every merge has its own folder."""
    return Stager(open_work(RunFolder.open(Path(run))))


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
    try:  # without this check Dask would wait for ever for a job that Slurm refuses
        test = subprocess.run(
            ["sbatch", "--test-only"], input=cluster.job_script(), capture_output=True, text=True
        )
    except OSError as problem:
        raise InputError(
            f"--dask slurm: no sbatch here: {problem.strerror}", "run it on a login node"
        ) from None
    if test.returncode:
        complaint = test.stderr.strip().splitlines() or ["without a reason"]
        raise InputError(f"Slurm refuses Dask's jobs: {complaint[0]}", f"mend {SETTINGS}")
    cluster.adapt(minimum=1, maximum_jobs=MOST)
    return cluster
