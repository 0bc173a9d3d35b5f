"""`kgqa merge`: writes RUN/dataset from the results in three phases: stage, decide, write.

Staging (stage.py) turns every shard into a file of candidate records. Rules (filters.py, target.py, splits.py) decide
the outcome of each record in one narrow table. Writing (write.py) streams the staged records and appends the decided
fields. The dataset folder is replaced as a whole (store/replace_folder.py); its bytes depend on the results and the
`dataset:` section alone.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial as bound
from itertools import count
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.candidates import Candidates, open_candidates
from kgqa_hpc.dataset.documents import write_documents
from kgqa_hpc.dataset.facts import gather_facts
from kgqa_hpc.dataset.filters import apply_filters
from kgqa_hpc.dataset.order import ordered
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.splits import divide
from kgqa_hpc.dataset.staged import Staged, survey
from kgqa_hpc.dataset.staging import Stage, stage_here
from kgqa_hpc.dataset.target import cut
from kgqa_hpc.dataset.write import PART_BYTES, Fate, fate_of, write_dataset
from kgqa_hpc.errors import AccountingError, StoreError
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import StageProgress
from kgqa_hpc.text.opener import read_bytes

PUBLISHED = "biographletqa.jsonl"  # written on request, and then by every later merge of the run


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
    (dask_map.py). Raises
    AccountingError when work is left or counts do not add up, CorruptFile when a result is damaged (it is then
    in quarantine), InputError, DiskFull; after an error RUN/dataset is unchanged.
    """
    work = open_work(run)
    require_finished(work, partial)
    stage = stage or bound(stage_here, processes=processes)
    return merge_work(work, stage, published=published, progress=progress, part_bytes=part_bytes)


def merge_work(
    work: FinishedWork,
    stage: Stage,
    *,
    published: bool,
    progress: StageProgress | None,
    part_bytes: int,
    require_wanted: Callable[[], None] = lambda: None,
) -> Accounting:
    """Merge opened work; `require_wanted` raises when another process has written the dataset meanwhile."""
    run = work.run
    published = published or (run.dataset / PUBLISHED).exists()
    report, shards, shard_number = progress or (lambda *_: None), len(work.manifest.shards), count(1)

    def shard_done() -> None:
        report(next(shard_number), 2 * shards, "merge")

    def written(share: float) -> None:
        report(shards + round(shards * share), 2 * shards, "merge")

    before = _identity(run.dataset)
    accounting: Accounting | None = None

    def require(standing: Path) -> None:
        _require_newest(work, standing, before, accounting)

    with replaced_folder(run.dataset, require) as folder:
        scratch = folder / ".scratch"
        scratch.mkdir()
        with filtered(work, scratch, stage, shard_done) as (candidates, accounting):
            staged, fate = _decide(work, candidates, scratch, accounting)
        write_dataset(folder, staged, fate, part_bytes, written)
        if published:
            from kgqa_hpc.dataset.exports.biographletqa import write_published

            write_published(run, folder / "accepted.jsonl", folder / PUBLISHED)
        shutil.rmtree(scratch)
        facts = gather_facts(run, __version__)
        write_documents(folder, run, facts, accounting, staged.columns, fate.parts)
        require_wanted()
    return accounting


@contextmanager
def filtered(
    work: FinishedWork,
    scratch: Path,
    stage: Stage = stage_here,
    shard_done: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Candidates, Accounting]]:
    """The candidates after all filters, and the accounting without their outcomes; `scratch` holds temporary files."""
    staged, accounting = survey(work, stage(work, scratch, shard_done))
    with open_candidates(staged, scratch) as candidates:
        apply_filters(candidates, work.config.dataset, work.config.seed, scratch, accounting)
        yield candidates, accounting


def _decide(
    work: FinishedWork, candidates: Candidates, scratch: Path, accounting: Accounting
) -> tuple[Staged, Fate]:
    """Cut, split and count the filtered rows; returns them in the order of the dataset, and their outcomes."""
    settings = work.config.dataset
    if work.config.target is not None:
        accounting.filters["target"] = cut(candidates, work.config.target)
    accounting.splits = divide(candidates, settings.split, work.config.seed)
    candidates.count(accounting)
    accounting.check()
    fate = fate_of(candidates)
    if settings.order is None:
        return candidates.staged, fate
    return ordered(candidates, fate, settings.order, scratch)


def _require_newest(
    work: FinishedWork, standing: Path, before: tuple[int, ...] | None, accounting: Accounting | None
) -> None:
    """Raise StoreError when the run has changed since the merge began, or another merge has included more
    results meanwhile.

    `standing` is the dataset that is about to be replaced, `before` the identity of the one at the beginning.
    """
    changed = open_work(work.run).state != work.state
    if not changed and accounting is not None and accounting.partial and _identity(standing) != before:
        path = standing / "accounting.json"
        waiting = json.loads(read_bytes(path))["waiting"] if path.exists() else None
        changed = waiting is not None and waiting < accounting.total.waiting
    if changed:
        raise StoreError(
            f"{work.run.dataset}: the run was changed while this merge was at work; the dataset is what it was",
            f"merge again: kgqa merge {work.run.path}",
        )


def _identity(folder: Path) -> tuple[int, ...] | None:
    """Device, inode and modification time of a dataset, which change when it is replaced; None without a dataset."""
    try:
        status = (folder / "accounting.json").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def require_finished(work: FinishedWork, partial: bool) -> None:
    """Raise AccountingError when shards are missing, unless `partial`."""
    missing, total = len(work.missing), len(work.manifest.shards)
    if missing and not partial:
        raise AccountingError(
            f"{missing:,} of {total:,} shards are not done, no dataset was written",
            f"run `kgqa run {work.run.path}` again, or merge what is there with --partial",
        )
