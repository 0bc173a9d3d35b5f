"""Merge by several processes on any nodes: staging a shard is a leased task, and so is writing the dataset.

Every process runs `kgqa merge RUN --shared`. Staged files lie in a hidden folder beside the dataset, named by the
results and the settings they are made from, so no process takes another merge's. When all are there, one process
takes the last task: it decides and writes. A process that dies leaves a lease that expires; its task, and nothing
else, is done again. A process that was stopped so long that others went on without it finds the folder gone or
another in its place, and ends.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.merge import merge_work, require_finished
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.stage import SUFFIX, Stager
from kgqa_hpc.dataset.write import PART_BYTES
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import TEMP_SUFFIX, disk_errors, exists, make_folder
from kgqa_hpc.store.canonical import canonical
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.lease_renewal import Heartbeat
from kgqa_hpc.store.regular import GONE
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import HEADER_BYTES
from kgqa_hpc.terminal import StageProgress

LAST = "dataset"  # the task of writing it
TRIES = 10
WAIT = 1.0  # seconds, give or take half, between two looks at tasks that others hold


def merge_shared(
    run: RunFolder,
    *,
    published: bool = False,
    progress: StageProgress | None = None,
    part_bytes: int = PART_BYTES,
) -> Accounting | None:
    """Do this process's part of a merge; returns when RUN/dataset is written.

    The accounting comes from the process that wrote it, None from the others. Raises as `merge`.
    """
    work = open_work(run)
    require_finished(work, partial=False)
    folder = run.path / f".{run.dataset.name}.shared-{_key(work, published)}{TEMP_SUFFIX}"
    tasks = _Tasks(folder, work.config.runtime.lease)
    try:
        tasks.stage(work)
        while tasks.are_there():
            with tasks.held(LAST) as ours:
                if ours:
                    counts = merge_work(
                        work,
                        tasks.staged,
                        published=published,
                        progress=progress,
                        part_bytes=part_bytes,
                        require_wanted=tasks.require_there,
                    )
                    tasks.remove()
                    return counts
            tasks.wait()
        return None
    except StoreError:
        if tasks.are_there():
            raise
        return None  # another process wrote the dataset and removed the staged files
    finally:
        tasks.close()


class _Tasks:
    """The tasks of one shared merge, and the leases on them as this process holds them."""

    def __init__(self, folder: Path, expiry: float) -> None:
        self.folder = folder
        worker = f"merge-{os.getpid()}-{secrets.token_hex(4)}"
        self._random = random.Random(worker)
        self._open = _opened(folder)
        self._identity = _identity(os.fstat(self._open))
        # Through the open folder: a claim makes its folders where they are missing, but not a folder that was removed.
        self._leases = Leases(Path(f"/proc/self/fd/{self._open}/leases"), worker, expiry)
        self._heart = Heartbeat(expiry, lambda *_, **__: None)  # a missed heartbeat costs work done twice
        self._heart.start()

    def stage(self, work: FinishedWork) -> None:
        """Until every shard is staged: stage those that no other process stages, in an order of our own."""
        stager = Stager(work)
        names = sorted(work.manifest.names)
        self._random.shuffle(names)
        while names and self.are_there():
            names = [name for name in names if not self._made(stager, name)]
            if names:
                self.wait()

    def _made(self, stager: Stager, name: str) -> bool:
        """Whether a shard is staged, perhaps by us just now; not when another process is at it."""
        path = self.folder / f"{name}{SUFFIX}"
        if not exists(path):
            with self.held(name) as ours:
                if not ours:
                    return False
                if not exists(path):
                    stager.write(name, self.folder)
        return True

    def staged(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        """The folder of the staged files, which are all there (a `Stage`, see workers.py)."""
        for name in work.manifest.names:
            if not exists(self.folder / f"{name}{SUFFIX}"):
                raise StoreError(f"{self.folder / name}: another process removed it", "merge again")
            shard_done()
        return self.folder

    @contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Whether the task is ours for the block; its lease is kept alive and then given back."""
        self._heart.check()
        lease = self._leases.claim(name) if self.are_there() else None
        if lease is None:
            yield False
            return
        self._heart.keep(lease)
        try:
            yield True
        finally:
            self._heart.forget(lease)
            lease.release()

    def wait(self) -> None:
        """A moment, not the same for all."""
        time.sleep(WAIT * self._random.uniform(0.5, 1.5))

    def remove(self) -> None:
        """Remove the staged files, at once, so that no process takes half of them for a merge."""
        if not self.are_there():
            return  # another process took over while this one was stopped
        gone = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}{TEMP_SUFFIX}")
        with disk_errors(self.folder):
            os.rename(self.folder, gone)
        for _ in range(TRIES):  # others may put a lease there before they see that it is gone
            shutil.rmtree(gone, ignore_errors=True)
            if not exists(gone):
                break

    def close(self) -> None:
        """Give back what this process holds."""
        self._heart.stop()
        if self.are_there():
            self._leases.close()
        os.close(self._open)

    def require_there(self) -> None:
        """Raise StoreError when others have finished this merge meanwhile."""
        if not self.are_there():
            raise StoreError(
                f"{self.folder}: another process has finished this merge", "nothing is left to do"
            )

    def are_there(self) -> bool:
        """Whether the folder is still the one that this process began with."""
        with disk_errors(self.folder):
            try:
                return self._identity == _identity(os.stat(self.folder))
            except OSError as problem:
                if problem.errno in GONE:
                    return False
                raise


def _opened(folder: Path) -> int:
    """A descriptor of the folder, which is made where it is missing: others remove it when they are done."""
    while True:
        make_folder(folder)
        with disk_errors(folder), suppress(FileNotFoundError):
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _key(work: FinishedWork, published: bool) -> str:
    """A digest of all that staged files follow from: this program, the settings, and every result by its header."""
    digest = hashlib.blake2b(digest_size=16)
    about = [__version__, published, work.run.manifest().digest, work.config.model_dump(mode="json")]
    digest.update(canonical(about))
    for name in sorted(work.done):
        path = work.run.result(work.pass_name, name)
        try:
            with path.open("rb") as file:
                digest.update(name.encode() + file.read(HEADER_BYTES))
        except OSError as problem:
            raise StoreError(f"{path}: {problem.strerror}", "merge again") from problem
    return digest.hexdigest()
