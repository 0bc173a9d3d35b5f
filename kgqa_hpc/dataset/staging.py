"""Staging by any number of processes, through the same queue of shards as the workers of a run (store/queue.py).

Each process claims a shard, stages it and gives its lease back. A process that dies leaves a lease that expires, and
another stages its shard. Run as a program with RUN FOLDER, this module is one more process of a merge.
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
from pathlib import Path

from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.stage import SUFFIX, Stager
from kgqa_hpc.store.lease import Lease, Leases
from kgqa_hpc.store.lease_renewal import Heartbeat
from kgqa_hpc.store.queue import ShardQueue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.threads import usable_cores

FEW = 20_000  # items; for fewer, starting another process costs more time than it saves
Stage = Callable[[FinishedWork, Path, Callable[[], None]], Path]  # stages all shards; see merge.py


class StagingWorker:
    """A process that takes shards from the queue and stages them into `folder`. A context manager.

    Raises InputError when the run cannot be staged at all.
    """

    def __init__(self, work: FinishedWork, folder: Path) -> None:
        expiry = work.config.runtime.lease
        self._folder = folder
        self._leases = Leases(folder / "leases", f"merge-{os.getpid()}-{secrets.token_hex(4)}", expiry)
        self._queue = ShardQueue(work.manifest.names, folder, SUFFIX, self._leases)
        self._stager = Stager(work)
        # After a missed heartbeat another process stages the shard too.
        self._heart = Heartbeat(expiry, lambda *_, **__: None)

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
                    with self._kept(lease):
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
    def claimed(self, task: str) -> Iterator[bool]:
        """Context that holds the lease of another task; gives False when another process holds it."""
        lease = self._leases.claim(task)
        if lease is None:
            yield False
            return
        with self._kept(lease):
            yield True

    @contextmanager
    def _kept(self, lease: Lease) -> Iterator[None]:
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


def main() -> None:
    """Stage shards of a run beside the merge that started this process, and end with it."""
    # The end of the starting process closes the standard input of this one.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
    run, folder = map(Path, sys.argv[1:])
    with StagingWorker(open_work(RunFolder.open(run)), folder) as worker:
        worker.stage()


if __name__ == "__main__":
    main()
