"""Finished items of unfinished shards, from journals and earlier passes, for `kgqa merge --partial`.

The other items of such a shard are counted as waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kgqa_hpc.config import PassConfig, RunConfig
from kgqa_hpc.errors import MissingFile
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import exists
from kgqa_hpc.store.journal import journals_of, read_journal
from kgqa_hpc.store.results import read_result
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import ShardEntry

ENDED = ("accepted", "rejected", "invalid", "failed")


def ended_items(run: RunFolder, config: RunConfig, entry: ShardEntry) -> dict[str, dict[str, Any]]:
    """The records of the finished items of a shard, by id.

    Damaged lines of a journal are ignored: the next worker of the shard does those items again. Raises CorruptFile,
    StoreError.
    """
    ended: dict[str, dict[str, Any]] = {}
    for position in reversed(range(len(config.passes))):
        later = config.passes[position + 1 :]
        for record in _records(run, config.passes[position].name, entry):
            if has_ended(record, later):
                ended.setdefault(record["id"], {key: record[key] for key in record if key != "at"})
    return ended


def _records(run: RunFolder, pass_name: str, entry: ShardEntry) -> Iterator[dict[str, Any]]:
    """The records of a pass in a shard so far.

    Journals are read first: a journal that vanishes was replaced by its result.
    """
    origin, path = run.origin(pass_name), run.result(pass_name, entry.name)
    if not exists(path):
        for journal in journals_of(path.parent, entry.name):
            with suppress(MissingFile):
                yield from read_journal(journal, origin.header(entry.name, entry.sha256))[0]
    if exists(path):
        yield from read_result(path, origin)


def has_ended(record: dict[str, Any], later: list[PassConfig]) -> bool:
    """Whether an item is finished when the `later` passes are still to come.

    A later pass takes accepted items, and items that another judge may decide anew.
    """
    if record["status"] not in ENDED:
        return False
    if record["status"] == "accepted":
        return not later
    judged = any(STEPS.get(step.use).adds == "verdict" for pass_config in later for step in pass_config.steps)
    return not (judged and record["status"] == "rejected" and record["decided"])
