"""Merge on a Dask cluster a site has anyway: every shard is read by one of its workers, this process does the rest.

The workers see the run under the same path (a shared file system) and have kgqa_hpc installed. Which worker reads which
shard changes no byte. Needs the extra `dask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.dataset.workers import Spools
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.store.run_folder import RunFolder

SLURM = "slurm"
MOST = 64  # jobs that are asked of Slurm at once


@contextmanager
def dask_spools(address: str) -> Iterator[Spools]:
    """Shards read on the cluster at `address`, or on jobs of Slurm (`slurm`) as dask-jobqueue's own settings
    describe them (jobqueue.slurm in ~/.config/dask).

    Raises InputError when Dask is not installed; StoreError when the cluster cannot be reached.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--dask needs Dask, which is not installed", "pip install 'kgqa_hpc[dask]'"
        ) from None
    try:
        client = Client(_slurm() if address == SLURM else address, timeout="30s")
    except (OSError, ValueError) as problem:
        raise StoreError(f"no Dask cluster at {address}: {problem}", "is its scheduler running?") from None
    with client:
        yield lambda work, folder, done: _on(client, work, folder, done)


def _slurm() -> Any:
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise InputError(
            "--dask slurm needs dask-jobqueue, which is not installed", "pip install 'kgqa_hpc[dask]'"
        ) from None
    cluster = SLURMCluster()
    cluster.adapt(minimum=1, maximum_jobs=MOST)
    return cluster


def _on(client: Any, work: FinishedWork, folder: Path, shard_done: Callable[[], None]) -> None:
    from distributed import as_completed

    names, run = work.manifest.names, str(work.run.path.resolve())
    futures = client.map(_write_spool, names, run=run, folder=str(folder.resolve()), pure=False)
    for future in as_completed(futures):
        future.result()
        shard_done()


def _write_spool(name: str, run: str, folder: str) -> None:
    """On a worker."""
    _reader(run, folder).write(name, Path(folder))


@lru_cache(1)
def _reader(run: str, folder: str) -> ShardReader:
    """Opened once per worker and merge: every merge has a folder of its own."""
    return ShardReader(open_work(RunFolder.open(Path(run))), durable=True)
