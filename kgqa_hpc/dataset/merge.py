"""From results to RUN/dataset: two passes, memory for a few row groups, counts that add up.

The first pass (first_pass.py) turns every shard into rows and gathers what needs all of them, filters and splits mark
rows, the second pass writes. The folder changes as a whole (store/replace_folder.py), and its bytes follow from
the results and the `dataset:` section alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.documents import write_documents
from kgqa_hpc.dataset.facts import gather_facts
from kgqa_hpc.dataset.files import PART_BYTES
from kgqa_hpc.dataset.filters import apply_filters
from kgqa_hpc.dataset.first_pass import FirstPass, first_pass
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.second_pass import write_rows
from kgqa_hpc.dataset.splits import divide
from kgqa_hpc.dataset.target import cut
from kgqa_hpc.dataset.workers import Crew, LocalCrew
from kgqa_hpc.errors import AccountingError, StoreError
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import StageProgress

PUBLISHED = (
    "biographletqa.jsonl"  # written beside the others when asked for, and kept up to date from then on
)


def merge(
    run: RunFolder,
    *,
    partial: bool = False,
    published: bool = False,
    progress: StageProgress | None = None,
    processes: int | None = None,
    part_bytes: int = PART_BYTES,
    crew: Crew | None = None,
) -> Accounting:
    """Write RUN/dataset and return its accounting.

    `partial` merges an unfinished run, with what has ended in its open shards; `published` adds
    biographletqa.jsonl, `progress(done, total, label)` is told of every shard, twice; `processes` work side by
    side (default: one per core where there is enough to do), or `crew` does (dask_crew.py). Raises
    AccountingError when work is left or counts do not add up, CorruptFile when a result is damaged (it is then
    in quarantine), InputError, DiskFull; RUN/dataset is what it was after each.
    """
    work = open_work(run)
    require_finished(work, partial)
    with nullcontext(crew) if crew else LocalCrew(processes) as all_hands:
        return merge_work(work, all_hands, published, progress, part_bytes)


def merge_work(
    work: FinishedWork, crew: Crew, published: bool, progress: StageProgress | None, part_bytes: int
) -> Accounting:
    """`merge` of opened work; `crew` does what can be shared out."""
    run, settings = work.run, work.config.dataset
    published = published or (run.dataset / PUBLISHED).exists()
    shard_done = _counter(2 * len(work.manifest.shards), progress)
    before = _identity(run.dataset)
    found: FirstPass | None = None

    def require(standing: Path) -> None:
        _require_newest(work, standing, before, found)

    with replaced_folder(run.dataset, require) as folder:
        scratch = folder / ".scratch"
        scratch.mkdir()
        found = filtered(work, scratch, shard_done, crew)
        if work.config.target is not None:
            found.accounting.filters["target"] = cut(found.rows, work.config.target)
        found.accounting.splits = divide(found.rows, settings.split, work.config.seed)
        found.rows.count(found.accounting)
        found.accounting.check()
        sums = write_rows(folder, found, shard_done, part_bytes, settings.order, crew)
        if published:
            _write_published(run, folder)
        shutil.rmtree(scratch)
        facts = gather_facts(run, __version__)
        write_documents(folder, run, facts, found, sums)
        crew.require_wanted()
    return found.accounting


def filtered(
    work: FinishedWork,
    scratch: Path,
    shard_done: Callable[[], None] = lambda: None,
    crew: Crew | None = None,
) -> FirstPass:
    """All rows with what decisions and filters make of them; `scratch` takes what they are read from."""
    if crew is None:
        with LocalCrew() as here:
            return filtered(work, scratch, shard_done, here)
    found = first_pass(work, scratch, shard_done, crew)
    apply_filters(found.rows, work.config.dataset, work.config.seed, found.folder, found.accounting, crew)
    return found


def _require_newest(
    work: FinishedWork, standing: Path, before: tuple[int, ...] | None, found: FirstPass | None
) -> None:
    """Raise StoreError when the run has changed since the merge began, or another merge took in more meanwhile.

    `standing` is the dataset that is about to be replaced, `before` the identity of the one at the beginning.
    """
    changed = open_work(work.run).state != work.state
    if not changed and found is not None and found.accounting.partial and _identity(standing) != before:
        accounting = standing / "accounting.json"
        waiting = json.loads(accounting.read_bytes())["waiting"] if accounting.exists() else None
        changed = waiting is not None and waiting < found.accounting.total.waiting
    if changed:
        raise StoreError(
            f"{work.run.dataset}: the run was changed while this merge was at work; the dataset is what it was",
            f"merge again: kgqa merge {work.run.path}",
        )


def _identity(folder: Path) -> tuple[int, ...] | None:
    """What tells a dataset from every other that stood under its name; None where there is none."""
    try:
        found = (folder / "accounting.json").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def require_finished(work: FinishedWork, partial: bool) -> None:
    """Raise AccountingError when shards are missing and that is not wanted."""
    missing, total = len(work.missing), len(work.manifest.shards)
    if missing and not partial:
        raise AccountingError(
            f"{missing:,} of {total:,} shards are not done, no dataset was written",
            f"run `kgqa run {work.run.path}` again, or merge what is there with --partial",
        )


def _counter(total: int, progress: StageProgress | None) -> Callable[[], None]:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total, "merge")

    return count


def _write_published(run: RunFolder, folder: Path) -> None:
    from kgqa_hpc.dataset.exports.biographletqa import write_published

    write_published(run, folder / "accepted.jsonl", folder / PUBLISHED)
