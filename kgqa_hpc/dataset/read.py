"""The finished work of a run, streamed shard by shard: anchors with the records of their items, checksums verified.

The sampled anchors are read from anchors.h5 too, so that shards and results are checked against an independent
source. For `kgqa merge --partial`, finished items of unfinished shards are read from journals and earlier passes.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kgqa_hpc.config import PassConfig, RunConfig
from kgqa_hpc.dataset.accounting import OUTCOMES
from kgqa_hpc.errors import AccountingError, CorruptFile, FingerprintMismatch, InputError, MissingFile
from kgqa_hpc.runs import run_config
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import exists
from kgqa_hpc.store.canonical import digest
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.fingerprint import anchors_origin, require_origin
from kgqa_hpc.store.journal import journals_of, read_journal
from kgqa_hpc.store.partition import ShardsManifest, read_shards_manifest, stream_shard
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.store.shards import ANCHORS, GROUP, ShardEntry, iter_result
from kgqa_hpc.store.table import open_table
from kgqa_hpc.text.plain_text import shell_word

# An anchor and its item's record, as stored; None for an unfinished item of an open shard.
Pair = tuple[dict[str, Any], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class FinishedWork:
    """The shards of a run whose last pass is done; `done` and `state` are fixed when it is opened.

    `pass_name` is the last pass, whose records include the results of all earlier passes. `state` is a digest
    of all inputs of the dataset: the fingerprint, the anchors, and the settings that merge applies.
    """

    run: RunFolder
    config: RunConfig
    manifest: ShardsManifest
    done: frozenset[str]
    pass_name: str
    state: str

    @property
    def missing(self) -> list[str]:
        """Names of the shards that are not done."""
        return [name for name in self.manifest.names if name not in self.done]

    def pairs(self, entry: ShardEntry) -> Iterator[Pair]:
        """Anchors and records of a shard as plain data, in its order.

        Raises CorruptFile, after the result was moved to quarantine, when it is damaged or not of this shard.
        """
        with stream_shard(self.run, self.manifest, entry.name) as anchors:
            if entry.name not in self.done:
                ended = self._ended_items(entry)
                yield from ((anchor, ended.get(anchor["id"])) for anchor in anchors)
                return
            path = self.run.result(self.pass_name, entry.name)
            try:
                records = iter_result(path, self.run.origin(self.pass_name))
                for anchor, record in zip_longest(anchors, records):
                    if anchor is None or record is None or anchor["id"] != record["id"]:
                        raise CorruptFile(f"{path}: holds other items than its shard")
                    yield anchor, record
            except CorruptFile as problem:
                quarantine(self.run.quarantine, path, problem.message)
                cure = (
                    f"it lies in {self.run.quarantine} now; `kgqa run {shell_word(self.run.path)}` redoes it"
                )
                raise CorruptFile(problem.message, cure) from problem

    def _ended_items(self, entry: ShardEntry) -> dict[str, dict[str, Any]]:
        """The records of the finished items of a shard that is not done, by id, from results and journals."""
        ended: dict[str, dict[str, Any]] = {}
        for position, pass_config in reversed(list(enumerate(self.config.passes))):
            for _, record in stored_records(self.run, pass_config.name, entry):
                if has_ended(record, self.config.passes[position + 1 :]):
                    ended.setdefault(record["id"], {key: record[key] for key in record if key != "at"})
        return ended

    def sampled(self) -> Iterator[tuple[ShardEntry, list[str], list[str]]]:
        """Every shard with the ids and groups of its anchors, from anchors.h5.

        Raises AccountingError when the shards do not hold exactly these anchors.
        """
        with _curable_anchors(self.run), open_table(self.run.anchors, ANCHORS, GROUP) as anchors:
            start = 0
            for entry in self.manifest.shards:
                stop = start + entry.items
                yield entry, anchors.text("id", start, stop), anchors.text("group", start, stop)
                start = stop
            if start != anchors.rows:
                raise AccountingError(
                    f"{self.run.anchors} holds {anchors.rows:,} anchors, the shards together {start:,}",
                    f"remove {self.run.shards_manifest} and run `kgqa run {shell_word(self.run.path)}` again",
                )


def open_work(run: RunFolder) -> FinishedWork:
    """The finished work of a run. Raises InputError when nothing was partitioned yet, StoreError and its subclasses."""
    config = run_config(run)
    if not run.shards_manifest.exists():
        raise InputError(f"{run.path}: nothing was generated yet", f"first: kgqa run {shell_word(run.path)}")
    manifest = read_shards_manifest(run)
    with _curable_anchors(run):
        header = read_header(run.anchors, ANCHORS)
        require_origin(run.anchors, header, anchors_origin(run.manifest().sections))
        anchors_sha256 = header["sha256"]
    if anchors_sha256 != manifest.anchors_sha256:
        if manifest.anchors_sha256[:16] in {start for _, start in header.get("grown", ())}:
            raise InputError(
                f"{run.path}: the sample was extended, and its new anchors are not in shards yet",
                f"first: kgqa run {shell_word(run.path)}",
            )
        raise FingerprintMismatch(
            f"{run.shards} was cut from another anchors.h5", "use another run folder, or restore anchors.h5"
        )
    last = config.passes[-1].name
    done = frozenset(done_shards(run, last)) & frozenset(manifest.names)
    plain = config.plain()
    applied = {key: plain[key] for key in ("dataset", "target", "passes")}
    state = digest([run.manifest().digest, anchors_sha256, applied])
    return FinishedWork(run, config, manifest, done, last, state)


@contextmanager
def _curable_anchors(run: RunFolder) -> Iterator[None]:
    """Context that adds a cure to errors of a damaged or missing anchors.h5: sample again, because the same
    seed gives the same file.
    """
    try:
        yield
    except (CorruptFile, MissingFile) as problem:
        removal = "remove it and run " if isinstance(problem, CorruptFile) else ""
        cure = f"{removal}`kgqa sample {shell_word(run.path)}` again: the same seed gives the same anchors"
        raise type(problem)(problem.message, cure) from problem


def stored_records(
    run: RunFolder, pass_name: str, entry: ShardEntry
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(file, record) of the items of a shard in a pass, from its journals or its result.

    Damaged lines of a journal are ignored: the next worker of the shard does those items again. Journals are read
    before the result: a journal that vanishes was replaced by it. Raises CorruptFile, StoreError.
    """
    origin, result = run.origin(pass_name), run.result(pass_name, entry.name)
    if not exists(result):
        for journal in journals_of(result.parent, entry.name):
            with suppress(MissingFile):
                records, _ = read_journal(journal, origin.header(entry.name, entry.sha256))
                yield from ((journal, record) for record in records)
    if exists(result):
        yield from ((result, record) for record in iter_result(result, origin))


def has_ended(record: dict[str, Any], later: list[PassConfig]) -> bool:
    """Whether an item is finished when the `later` passes are still to come.

    A later pass takes accepted items, and items that another judge may decide anew.
    """
    if record["status"] not in OUTCOMES:
        return False
    if record["status"] == "accepted":
        return not later
    judged = any(STEPS.get(step.use).adds == "verdict" for pass_config in later for step in pass_config.steps)
    return not (judged and record["status"] == "rejected" and record["decided"])
