"""Merge by several processes on any nodes: reading a shard is a leased task, so is comparing what agrees in a band of
signatures, and so is writing the dataset.

Every process runs `kgqa merge RUN --shared`. The spools of shards (spool.py) lie in a hidden folder beside the
dataset, named by the results and the settings they are made from, so nobody takes another merge's. When all are
there, one process takes the last task: filters, splits and files, in the order of the shards, which is why the bytes
are those of one process. Where it looks for near duplicates, it plans that in the same folder (near_search.py), and
all who are there find what each band joins. A process that dies leaves a lease that expires; its task, and nothing
else, is done again.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.files import PART_BYTES
from kgqa_hpc.dataset.merge import merge_work, require_finished
from kgqa_hpc.dataset.near_search import FOLDER, NearSearch
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import TEMP_SUFFIX, exists, make_folder
from kgqa_hpc.store.canonical import canonical
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.lease_renewal import Heartbeat
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import HEADER_BYTES
from kgqa_hpc.terminal import StageProgress

LAST = "dataset"  # the task of writing it
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
    make_folder(folder)
    tasks = _Tasks(folder, work.config.runtime.lease)
    try:
        tasks.read(work)
        while exists(folder):
            with tasks.held(LAST) as ours:
                if ours:
                    counts = merge_work(work, tasks, published, progress, part_bytes)
                    tasks.remove()
                    return counts
            tasks.help()
            tasks.wait()
        return None
    except StoreError:
        if exists(folder):
            raise
        return None  # another process wrote the dataset and removed what it was made from
    finally:
        tasks.close()


class _Tasks:
    """The tasks of one merge, and the leases on them as this process holds them: the `Crew` of who writes."""

    def __init__(self, folder: Path, expiry: float) -> None:
        self.folder = folder
        worker = f"merge-{os.getpid()}-{secrets.token_hex(4)}"
        self._random = random.Random(worker)
        self._leases = Leases(folder / "leases", worker, expiry)
        self._heart = Heartbeat(expiry, lambda *_, **__: None)  # a missed heartbeat costs work done twice
        self._heart.start()
        self._search = NearSearch(folder / FOLDER)
        self._helped = False

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

    def bands(self, search: NearSearch) -> None:
        """Until it is known what every band joins."""
        names = {f"band-{band:03d}": band for band in range(search.bands)}
        self._share(
            names, lambda n: search.links(names[n]) is not None, lambda name: search.find(names[name])
        )

    def help(self) -> None:
        """Take part in a search that another process planned."""
        if not self._helped and self._search.is_planned:
            self.bands(self._search)
            self._helped = True

    def _share(self, names: Iterable[str], done: Callable[[str], bool], make: Callable[[str], None]) -> None:
        """Until all are done: make those that nobody makes, in an order of our own."""
        left = sorted(names)
        self._random.shuffle(left)
        while left and exists(self.folder):
            waiting = []
            for name in left:
                if done(name):
                    continue
                with self.held(name) as ours:
                    if not ours:
                        waiting.append(name)
                    elif not done(name):
                        make(name)
            left = waiting
            if left:
                self.wait()

    @contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Whether the task is ours for the block; its lease is kept alive and then given back."""
        self._heart.check()
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
        gone = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}{TEMP_SUFFIX}")
        os.rename(self.folder, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        self._heart.stop()
        if exists(self.folder):
            self._leases.close()


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
