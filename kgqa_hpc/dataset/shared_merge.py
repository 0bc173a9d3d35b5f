"""`kgqa merge RUN --shared`: a merge by several processes on any nodes, each started with this command.

Staging a shard is a leased task, and so is writing the dataset. Staged files are in a hidden folder beside
the dataset; its name is a digest of results and settings, so no process uses the files of another merge. When
all are complete, one process takes the last task: it decides, writes, and removes the folder. The other
processes end when it is removed.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.merge import merge_work, require_finished
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.stage import SUFFIX
from kgqa_hpc.dataset.staging import StagingWorker
from kgqa_hpc.dataset.write import PART_BYTES
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import TEMP_SUFFIX, disk_errors, exists, make_folder
from kgqa_hpc.store.canonical import canonical
from kgqa_hpc.store.regular import GONE
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import HEADER_BYTES
from kgqa_hpc.terminal import StageProgress

LAST = "dataset"  # name of the last task: writing the dataset
TRIES = 10


def merge_shared(
    run: RunFolder,
    *,
    published: bool = False,
    progress: StageProgress | None = None,
    part_bytes: int = PART_BYTES,
) -> Accounting | None:
    """Do this process's part of a merge; returns when RUN/dataset is written.

    The process that wrote it returns the accounting, the others None. Raises AccountingError, CorruptFile,
    InputError, DiskFull, StoreError.
    """
    work = open_work(run)
    require_finished(work, partial=False)
    path = run.path / f".{run.dataset.name}.shared-{_key(work, published)}{TEMP_SUFFIX}"
    with closing(_SharedFolder(path)) as folder:
        try:
            with StagingWorker(work, folder.opened) as worker:
                worker.stage()
                while folder.stands():
                    with worker.claimed(LAST) as ours:
                        if ours:
                            accounting = merge_work(
                                work,
                                folder.staged,
                                published=published,
                                progress=progress,
                                part_bytes=part_bytes,
                                require_wanted=folder.require,
                            )
                            folder.remove()
                            return accounting
                    worker.pause()
        except StoreError:
            if folder.stands():
                raise
        return None  # another process wrote the dataset and removed the staged files


class _SharedFolder:
    """The folder of a shared merge, held open by a descriptor; created if it is missing.

    Another process may remove it at any moment, or create a new folder of the same name. `opened` is its path
    through the descriptor, so files are never written to another folder; after its removal, writes fail.
    """

    def __init__(self, path: Path) -> None:
        descriptor = None
        while descriptor is None:
            make_folder(path)
            with disk_errors(path), suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.opened = Path(f"/proc/self/fd/{descriptor}")
        self.close = partial(os.close, descriptor)
        self._path = path
        self._status = os.fstat(descriptor)

    def staged(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        """Check that every shard is staged; return the folder of the staged files (a `Stage`, see staging.py)."""
        for name in work.manifest.names:
            if not exists(self._path / f"{name}{SUFFIX}"):
                raise StoreError(f"{self._path / name}: another process removed it", "merge again")
            shard_done()
        return self._path

    def stands(self) -> bool:
        """Whether the folder still exists and is the one that this process opened."""
        with disk_errors(self._path):
            try:
                return os.path.samestat(self._status, os.stat(self._path))
            except OSError as problem:
                if problem.errno in GONE:
                    return False
                raise

    def require(self) -> None:
        """Raise StoreError when others have finished this merge meanwhile."""
        if not self.stands():
            raise StoreError(
                f"{self._path}: another process has finished this merge", "nothing is left to do"
            )

    def remove(self) -> None:
        """Rename the folder, so that no process uses an incomplete set of its files, then remove it."""
        if not self.stands():
            return  # another process took over while this one was stopped
        gone = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}{TEMP_SUFFIX}")
        with disk_errors(self._path):
            os.rename(self._path, gone)
        for _ in range(TRIES):  # others may add a lease before they notice the removal
            shutil.rmtree(gone, ignore_errors=True)
            if not exists(gone):
                break


def _key(work: FinishedWork, published: bool) -> str:
    """A digest of all inputs of the staged files: this program, the settings, and every result by its header."""
    digest = hashlib.blake2b(digest_size=16)
    sources = [__version__, published, work.run.manifest().digest, work.config.model_dump(mode="json")]
    digest.update(canonical(sources))
    for name in sorted(work.done):
        path = work.run.result(work.pass_name, name)
        try:
            with path.open("rb") as file:
                digest.update(name.encode() + file.read(HEADER_BYTES))
        except OSError as problem:
            raise StoreError(f"{path}: {problem.strerror}", "merge again") from problem
    return digest.hexdigest()
