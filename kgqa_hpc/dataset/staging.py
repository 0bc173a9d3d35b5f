"""Staging by any number of processes, through the same queue of shards as the workers of a run (store/queue.py).

Each process claims a shard, stages it and gives its lease back. A process that dies leaves a lease that expires, and
another stages its shard. Run as a program with RUN FOLDER, this module is one more process of a merge.

On a Dask cluster, staging is a map over the names of the shards. Its workers need kgqa_hpc and a shared file system on
which the run has the same path. A new cluster consists of Slurm jobs, set up by dask-jobqueue's own settings.
"""

from __future__ import annotations

import gc
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.stage import SUFFIX, Stager
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.store.lease import Heartbeat, Lease, Leases
from kgqa_hpc.store.queue import ShardQueue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.threads import usable_cores

FEW = 20_000  # items of a merge; for fewer items, starting another process costs more time than it saves
MOST = 64  # largest number of simultaneous Slurm jobs of a Dask cluster
INSTALL = "pip install 'kgqa_hpc[dask]'"
SETTINGS = "jobqueue.slurm in ~/.config/dask/jobqueue.yaml"
SLURM = "slurm"  # value of --dask for a new cluster of Slurm jobs, instead of an address
Stage = Callable[[FinishedWork, Path, Callable[[], None]], Path]  # stages all shards; see merge.py


class StagingWorker:
    """A process that takes shards from the queue and stages them into `folder`. A context manager.

    Raises InputError when the run cannot be staged at all.
    """

    def __init__(self, work: FinishedWork, folder: Path) -> None:
        expiry = work.config.runtime.lease
        self._folder = folder
        self.leases = Leases(folder / "leases", f"merge-{os.getpid()}-{secrets.token_hex(4)}", expiry)
        self._queue = ShardQueue(work.manifest.names, folder, SUFFIX, self.leases)
        self._stager = Stager(work)
        # After a missed heartbeat another process stages the shard too.
        self._heart = Heartbeat(expiry)

    def __enter__(self) -> StagingWorker:
        self._heart.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._heart.stop()

    def stage(self, staged: Callable[[], None] = lambda: None) -> None:
        """Stage shards until all are staged, here or elsewhere; `staged` is called after each shard of this process."""
        collects = gc.isenabled()
        gc.disable()  # a shard creates a million objects and no cycles; gc would take a third of the time
        try:
            while True:
                lease = self._queue.claim()
                if lease is not None:
                    with self.kept(lease):
                        self._stager.write(lease.shard, self._folder)
                    staged()
                elif self._queue.complete:
                    return
                else:
                    self.pause()
        finally:
            if collects:
                gc.enable()

    @contextmanager
    def kept(self, lease: Lease) -> Iterator[None]:
        """Context that renews a lease while it is open and releases it at the end."""
        self._heart.check()
        self._heart.keep(lease)
        try:
            yield
        finally:
            self._heart.forget(lease)
            lease.release()

    def pause(self) -> None:
        """Wait for a random time before the next look at tasks that other processes hold."""
        time.sleep(self._queue.poll_interval())


def stage_here(
    work: FinishedWork, folder: Path, staged: Callable[[], None], processes: int | None = None
) -> Path:
    """Stage all shards into `folder` with `processes` on this machine, and return the folder.

    Default: a process per core where there is enough to do. `staged` is called after each shard of this process.
    The shards of a process that dies are staged by the others when its lease has expired.
    """
    if processes is None:
        items = sum(shard.items for shard in work.manifest.shards)
        processes = min(usable_cores(), len(work.manifest.names)) if items > FEW else 1
    with StagingWorker(work, folder) as worker, _helpers(work.run.path, folder, processes - 1):
        worker.stage(staged)
    return folder


@contextmanager
def _helpers(run: Path, folder: Path, number: int) -> Iterator[None]:
    """Start more processes that stage into `folder`; they end with this one.

    They are new programs, not forks, so that they share no lock or file of this process."""
    command = [sys.executable, "-P", "-m", "kgqa_hpc.dataset.staging", str(run), str(folder)]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    with ExitStack() as stack:
        for _ in range(number):
            helper = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            stack.callback(helper.wait)
            stack.callback(helper.kill)
        yield


@contextmanager
def stage_by_dask(address: str) -> Iterator[Stage]:
    """A `Stage` on the Dask cluster at `address`, or on a new cluster of Slurm jobs (`slurm`).

    Raises InputError when Dask is not installed or Slurm refuses its jobs; StoreError when the cluster cannot be
    reached.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError("--dask needs Dask, which is not installed", INSTALL) from None

    def stage(work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        paths = {"run": str(work.run.path.resolve()), "folder": str(scratch.resolve())}
        for future in as_completed(client.map(_stage_shard, work.manifest.names, pure=False, **paths)):
            future.result()
            shard_done()
        return scratch

    with ExitStack() as stack:
        cluster = stack.enter_context(_slurm_cluster()) if address == SLURM else address
        try:
            client = stack.enter_context(Client(cluster, timeout="30s"))
        except (OSError, ValueError) as problem:
            cure = "is its scheduler running?"
            raise StoreError(f"no Dask cluster at {address}: {problem}", cure) from None
        yield stage


def _stage_shard(name: str, run: str, folder: str) -> None:
    """Stage a shard; runs on a Dask worker."""
    _stager(run, folder).write(name, Path(folder))


@lru_cache(1)
def _stager(run: str, folder: str) -> Stager:
    """The stager of a worker, opened once per merge: every merge has its own folder."""
    return Stager(open_work(RunFolder.open(Path(run))))


def _slurm_cluster() -> Any:
    """A cluster whose jobs are cancelled when it is closed.

    Raises InputError when dask-jobqueue is not installed or lacks settings, or when Slurm refuses its jobs.
    """
    try:
        from dask_jobqueue import SLURMCluster

        cluster = SLURMCluster()
    except ImportError:
        raise InputError("--dask slurm needs dask-jobqueue, which is not installed", INSTALL) from None
    except ValueError as problem:  # its message names the missing settings
        raise InputError(
            f"--dask slurm: {str(problem).splitlines()[0].partition(', for example')[0]}",
            f"set it under {SETTINGS}, e.g. cores: 4 and memory: 8GB",
        ) from None
    command = ["sbatch", "--test-only"]
    try:  # without this check Dask would wait for ever for a job that Slurm refuses
        test = subprocess.run(command, input=cluster.job_script(), capture_output=True, text=True)
    except OSError as problem:
        message = f"--dask slurm: no sbatch here: {problem.strerror}"
        raise InputError(message, "run it on a login node") from None
    if test.returncode:
        complaint = test.stderr.strip().splitlines() or ["without a reason"]
        raise InputError(f"Slurm refuses Dask's jobs: {complaint[0]}", f"mend {SETTINGS}")
    cluster.adapt(minimum=1, maximum_jobs=MOST)
    return cluster


def main() -> None:
    """Stage shards of a run beside the merge that started this process, and end with it."""
    # The end of the starting process closes the standard input of this one.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
    run, folder = map(Path, sys.argv[1:])
    with StagingWorker(open_work(RunFolder.open(run)), folder) as worker:
        worker.stage()


if __name__ == "__main__":
    main()
