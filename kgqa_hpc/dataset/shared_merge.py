"""Merge by several processes on any nodes: reading a shard is a leased task, so is comparing what agrees in a band of
signatures, and so is writing a part of the dataset.

Every process runs `kgqa merge RUN --shared`. The spools of shards (spool.py) lie in a hidden folder beside the
dataset, named by the results and the settings they are made from, so nobody takes another merge's. When all are
there, one process takes the last task: filters and splits, the plan of the search for near duplicates and that of the
parts (tasks.py), which lie in the same folder; all who are there do what is planned, and it joins what they made. A
process that dies leaves a lease that expires; its task, and nothing else, is done again. One that was stopped so long
that others went on without it finds the folder gone or another in its place, and ends.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.files import PART_BYTES
from kgqa_hpc.dataset.merge import merge_work, require_finished
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.dataset.tasks import PLAN, Tasks
from kgqa_hpc.dataset.worker import KINDS, open_tasks
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
        return _take_part(tasks, lambda: merge_work(work, tasks, published, progress, part_bytes), work)
    except StoreError:
        if tasks.are_there():
            raise
        return None  # another process wrote the dataset and removed what it was made from
    finally:
        tasks.close()


def _take_part(tasks: _Tasks, write: Callable[[], Accounting], work: FinishedWork) -> Accounting | None:
    tasks.read(work)
    while tasks.are_there():
        with tasks.held(LAST) as ours:
            if ours:
                counts = write()
                tasks.remove()
                return counts
        tasks.help()
        tasks.wait()
    return None


class _Tasks:
    """The tasks of one merge, and the leases on them as this process holds them: the `Crew` of who writes."""

    durable = True

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
        self._helped: set[str] = set()

    def read(self, work: FinishedWork) -> None:
        """Until every shard has its spool."""
        reader = ShardReader(work, durable=True)
        self._share(work.done, lambda name: exists(self._spool(name)), lambda n: reader.write(n, self.folder))

    def spools(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        """They are there, read by all."""
        for name in work.done:
            if not exists(self._spool(name)):
                raise StoreError(f"{self._spool(name)}: another process removed it", "merge again")
            shard_done()
        return self.folder

    def share(self, tasks: Tasks, task_done: Callable[[], None] = lambda: None) -> None:
        """Until all are done."""
        names = {f"{tasks.NAME}-{number:05d}": number for number in range(tasks.number)}
        self._share(names, lambda n: tasks.is_done(names[n]), lambda n: tasks.do(names[n]), task_done)

    def require_wanted(self) -> None:
        if not self.are_there():
            raise StoreError(f"{self.folder}: another process finished this merge", "merge again")

    def help(self) -> None:
        """Take part in what another process planned."""
        for kind in KINDS:
            if kind.NAME not in self._helped and exists(self.folder / kind.NAME / PLAN):
                self.share(open_tasks(self.folder / kind.NAME))
                self._helped.add(kind.NAME)

    def _share(
        self,
        names: Iterable[str],
        done: Callable[[str], bool],
        make: Callable[[str], None],
        task_done: Callable[[], None] = lambda: None,
    ) -> None:
        """Until all are done: make those that nobody makes, in an order of our own."""
        left = sorted(names)
        self._random.shuffle(left)
        while left and self.are_there():
            left = [name for name in left if not self._made(name, done, make, task_done)]
            if left:
                self.wait()

    def _made(
        self,
        name: str,
        done: Callable[[str], bool],
        make: Callable[[str], None],
        task_done: Callable[[], None],
    ) -> bool:
        """Whether a task is done, perhaps by us just now; not when another process is at it."""
        if not done(name):
            with self.held(name) as ours:
                if not ours:
                    return False
                if not done(name):
                    make(name)
        task_done()
        return True

    @contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Whether the task is ours for the block; its lease is kept alive and then given back."""
        self._heart.check()
        if not self.are_there():
            yield False
            return
        lease = self._leases.claim(name)
        if lease is None:
            yield False
            return
        self._heart.keep(lease)
        try:
            yield True
        finally:
            self._heart.forget(lease)
            lease.release()

    def _spool(self, name: str) -> Path:
        return self.folder / f"{name}.spool"

    def wait(self) -> None:
        """A moment, not the same for all."""
        time.sleep(WAIT * self._random.uniform(0.5, 1.5))

    def remove(self) -> None:
        """What the dataset was made from, at once, so that nobody takes half of it for a merge."""
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
        self._heart.stop()
        if self.are_there():
            self._leases.close()
        os.close(self._open)

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
    """What the spools follow from: this program, the settings, and every result by its header."""
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
