"""`kgqa merge`: writes RUN/dataset from the results in three phases: stage, decide, write.

Staging (stage.py) turns every shard into a file of candidate records. Rules (filters.py, splits.py) decide
the outcome of each record in one narrow table. Writing (write.py) streams the staged records and appends the decided
fields. The dataset folder is replaced as a whole (store/replace_folder.py); its bytes depend on the results and the
`dataset:` section alone.

A shared merge (`--shared`) runs in several processes on any nodes, each started with this command: staging a shard is
a leased task, and so is the rest. Staged files are in a hidden folder beside the dataset; its name is a digest of
results and settings, so no process uses the files of another merge. When all are complete, one process takes the last
task: it decides, writes, and removes the folder. The other processes end when it is removed.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial as bound
from itertools import count
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.candidates import Candidates, open_candidates
from kgqa_hpc.dataset.documents import write_documents
from kgqa_hpc.dataset.facts import gather_facts
from kgqa_hpc.dataset.filters import apply_filters, cut
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.splits import divide
from kgqa_hpc.dataset.stage import collect_staged
from kgqa_hpc.dataset.staging import Stage, StagingWorker, stage_here
from kgqa_hpc.dataset.write import PART_BYTES, fate_of, ordered, write_dataset
from kgqa_hpc.errors import AccountingError, StoreError
from kgqa_hpc.store.atomic import GONE, TEMP_SUFFIX, disk_errors, make_folder
from kgqa_hpc.store.canonical import canonical
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import HEADER_BYTES
from kgqa_hpc.terminal import StageProgress
from kgqa_hpc.text.plain_text import shell_word
from kgqa_hpc.text.streams import read_bytes

PUBLISHED = "biographletqa.jsonl"  # written on request, and afterwards by every merge of the run
LAST = "dataset"  # name of the last task of a shared merge: writing the dataset
TRIES = 10


def merge(
    run: RunFolder,
    *,
    partial: bool = False,
    published: bool = False,
    progress: StageProgress | None = None,
    processes: int | None = None,
    part_bytes: int = PART_BYTES,
    stage: Stage | None = None,
) -> Accounting:
    """Write RUN/dataset and return its accounting.

    `partial` merges an unfinished run, including finished items of open shards; `published` adds
    biographletqa.jsonl; `progress(done, total, label)` counts every shard twice, staged and written; `processes`
    is the number of staging processes (default: one per core if there is enough work); `stage` replaces them
    (staging.py). Raises AccountingError when work is left or counts do not add up, CorruptFile when a result is
    damaged (it is then in quarantine), InputError, DiskFull; after an error RUN/dataset is unchanged.
    """
    work = _finished_work(run, partial)
    return _merge(work, stage or bound(stage_here, processes=processes), published, progress, part_bytes)


def merge_shared(
    run: RunFolder,
    *,
    published: bool = False,
    progress: StageProgress | None = None,
    part_bytes: int = PART_BYTES,
) -> Accounting | None:
    """Do this process's part of a shared merge; returns when RUN/dataset is written.

    The process that wrote it returns the accounting, the others None. Raises AccountingError, CorruptFile,
    InputError, DiskFull, StoreError.
    """
    work = _finished_work(run)
    path = run.path / f".{run.dataset.name}.shared-{_key(work, published)}{TEMP_SUFFIX}"
    descriptor = None
    while descriptor is None:  # another process may remove the folder at any moment
        make_folder(path)
        with disk_errors(path), suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def staged(work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        for _ in work.manifest.names:
            shard_done()
        return path

    def require_wanted() -> None:
        if not _stands(path, descriptor):
            raise StoreError(f"{path}: another process has finished this merge", "nothing is left to do")

    try:
        # The path through the descriptor: files are never written to another folder of this name, and after the
        # removal of the folder, writes fail.
        with StagingWorker(work, Path(f"/proc/self/fd/{descriptor}")) as worker:
            worker.stage()
            while _stands(path, descriptor):
                if (lease := worker.leases.claim(LAST)) is not None:
                    with worker.kept(lease):
                        accounting = _merge(work, staged, published, progress, part_bytes, require_wanted)
                        _remove_shared(path, descriptor)
                        return accounting
                worker.pause()
    except StoreError:
        if _stands(path, descriptor):
            raise
    finally:
        os.close(descriptor)
    return None  # another process wrote the dataset and removed the staged files


@contextmanager
def filtered(
    work: FinishedWork,
    scratch: Path,
    stage: Stage = stage_here,
    shard_done: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Candidates, Accounting]]:
    """The candidates after all filters, and the accounting without their outcomes; `scratch` holds temporary files."""
    staged, accounting = collect_staged(work, stage(work, scratch, shard_done))
    with open_candidates(staged, scratch) as candidates:
        apply_filters(candidates, work.config.dataset, work.config.seed, scratch, accounting)
        yield candidates, accounting


def _finished_work(run: RunFolder, partial: bool = False) -> FinishedWork:
    """The opened run. Raises AccountingError when shards are missing, unless `partial`."""
    work = open_work(run)
    missing, total = len(work.missing), len(work.manifest.shards)
    if missing and not partial:
        raise AccountingError(
            f"{missing:,} of {total:,} shards are not done, no dataset was written",
            f"run `kgqa run {shell_word(run.path)}` again, or merge what is there with --partial",
        )
    return work


def _merge(
    work: FinishedWork,
    stage: Stage,
    published: bool,
    progress: StageProgress | None,
    part_bytes: int,
    require_wanted: Callable[[], None] = lambda: None,
) -> Accounting:
    """Merge opened work; `require_wanted` raises when another process has written the dataset meanwhile."""
    run, config, shards, shard_number = work.run, work.config, len(work.manifest.shards), count(1)
    settings, published = config.dataset, published or (run.dataset / PUBLISHED).exists()
    report = progress or (lambda *_: None)
    before = _identity(run.dataset)
    accounting: Accounting | None = None

    def require_newest(standing: Path) -> None:
        """Raise StoreError if the run has changed since this merge began, or another merge has written `standing`
        meanwhile, and its dataset includes more results.
        """
        changed = open_work(run).state != work.state
        if not changed and accounting is not None and accounting.partial and _identity(standing) != before:
            path = standing / "accounting.json"
            waiting = json.loads(read_bytes(path))["waiting"] if path.exists() else None
            changed = waiting is not None and waiting < accounting.total.waiting
        if changed:
            raise StoreError(
                f"{run.dataset}: the run changed during this merge; the dataset is unchanged",
                f"merge again: kgqa merge {shell_word(run.path)}",
            )

    with replaced_folder(run.dataset, require_newest) as folder:
        scratch = folder / ".scratch"
        scratch.mkdir()

        def shard_done() -> None:
            report(next(shard_number), 2 * shards, "merge")

        with filtered(work, scratch, stage, shard_done) as (candidates, accounting):
            if config.target is not None:
                accounting.filters["target"] = cut(candidates, config.target)
            accounting.splits = divide(candidates, settings.split, config.seed)
            candidates.count(accounting)
            accounting.check()
            fate = fate_of(candidates)
            if settings.order is not None:
                fate = ordered(candidates, fate, settings.order, scratch)

        def written(share: float) -> None:
            report(shards + round(shards * share), 2 * shards, "merge")

        write_dataset(folder, fate, part_bytes, written)
        if published:
            from kgqa_hpc.dataset.exports.items import write_published

            write_published(run, folder / "accepted.jsonl", folder / PUBLISHED)
        shutil.rmtree(scratch)
        facts = gather_facts(run)
        write_documents(folder, run, facts, accounting, fate.staged.columns, fate.parts)
        require_wanted()
    return accounting


def _identity(folder: Path) -> tuple[int, ...] | None:
    """Device, inode and modification time of a dataset, which change when it is replaced; None without a dataset."""
    try:
        status = (folder / "accounting.json").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _stands(path: Path, descriptor: int) -> bool:
    """Whether the folder still exists and is the one that this process opened."""
    with disk_errors(path):
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(path))
        except OSError as problem:
            if problem.errno in GONE:
                return False
            raise


def _remove_shared(path: Path, descriptor: int) -> None:
    """Rename the folder, so that no process uses an incomplete set of its files, then remove it."""
    if not _stands(path, descriptor):
        return  # another process took over while this one was stopped
    gone = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMP_SUFFIX}")
    with disk_errors(path):
        os.rename(path, gone)
    for _ in range(TRIES):  # another process may add a lease before it notices the removal
        shutil.rmtree(gone, ignore_errors=True)


def _key(work: FinishedWork, published: bool) -> str:
    """A digest of all inputs of the staged files: this program, the settings, and every result by its header."""
    digest = hashlib.blake2b(digest_size=16)
    sources = [__version__, published, work.run.manifest().digest, work.config.model_dump(mode="json")]
    digest.update(canonical(sources))
    for name in sorted(work.done):
        path = work.run.result(work.pass_name, name)
        with disk_errors(path), path.open("rb") as file:
            digest.update(name.encode() + file.read(HEADER_BYTES))
    return digest.hexdigest()
