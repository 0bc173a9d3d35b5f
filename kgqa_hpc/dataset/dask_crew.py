"""Merge on a Dask cluster a site has anyway: its workers read the shards, look for near duplicates, a band each, and
write the parts of the dataset.

This process plans and joins. The workers see the run under the same path (a shared file system) and have kgqa_hpc
installed. Which worker does what changes no byte. Needs the extra `dask`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.dataset.tasks import Tasks
from kgqa_hpc.dataset.worker import kept_tasks
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.store.run_folder import RunFolder

SLURM = "slurm"
MOST = 64  # jobs that are asked of Slurm at once
SETTINGS = "jobqueue.slurm in ~/.config/dask/jobqueue.yaml"


@contextmanager
def dask_crew(address: str) -> Iterator[DaskCrew]:
    """The workers of the cluster at `address`, or jobs of Slurm (`slurm`) as dask-jobqueue's own settings
    describe them (jobqueue.slurm in ~/.config/dask).

    Raises InputError when Dask is not installed or does not know what to ask of Slurm, or Slurm
    refuses it; StoreError when the cluster cannot be reached.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--dask needs Dask, which is not installed", "pip install 'kgqa_hpc[dask]'"
        ) from None
    with ExitStack() as stack:
        where = stack.enter_context(_slurm()) if address == SLURM else address
        try:
            client = stack.enter_context(Client(where, timeout="30s"))
        except (OSError, ValueError) as problem:
            raise StoreError(
                f"no Dask cluster at {address}: {problem}", "is its scheduler running?"
            ) from None
        yield DaskCrew(client)


def _slurm() -> Any:
    """A cluster whose jobs end with it."""
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
        said = asked.stderr.strip().splitlines() or ["without a reason"]
        raise InputError(f"Slurm refuses Dask's jobs: {said[0]}", f"mend {SETTINGS}")


class DaskCrew:
    """The workers that a Dask client reaches."""

    durable = True

    def __init__(self, client: Any) -> None:
        self._client = client

    def spools(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        folder, run = str(scratch.resolve()), str(work.run.path.resolve())
        self._each(_write_spool, work.manifest.names, shard_done, run=run, folder=folder)
        return scratch

    def share(self, tasks: Tasks, task_done: Callable[[], None] = lambda: None) -> None:
        self._each(_do, range(tasks.number), task_done, folder=str(tasks.folder.resolve()))

    def require_wanted(self) -> None:
        pass

    def _each(
        self, do: Callable[..., None], tasks: Iterable[Any], done: Callable[[], None], **same: str
    ) -> None:
        from distributed import as_completed

        for future in as_completed(self._client.map(do, list(tasks), pure=False, **same)):
            future.result()
            done()


def _write_spool(name: str, run: str, folder: str) -> None:
    """On a worker."""
    _reader(run, folder).write(name, Path(folder))


def _do(task: int, folder: str) -> None:
    """On a worker."""
    kept_tasks(Path(folder)).do(task)


@lru_cache(1)
def _reader(run: str, folder: str) -> ShardReader:
    """Opened once per worker and merge: every merge has a folder of its own."""
    return ShardReader(open_work(RunFolder.open(Path(run))), durable=True)
