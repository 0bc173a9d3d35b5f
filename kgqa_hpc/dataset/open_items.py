"""What has ended in a shard that is not done: items that wait for nothing any more, from journals and earlier passes.

`kgqa merge --partial` takes them in. The rest of such a shard is waiting, and is counted as that.
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
    """The records of the items of one shard that no later pass changes, by id.

    Lines of a journal that are damaged do not count; the worker that goes on does them again. Raises CorruptFile,
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
    """What a pass has of a shard so far. Journals first: one that is gone meanwhile has its result."""
    origin, path = run.origin(pass_name), run.result(pass_name, entry.name)
    if not exists(path):
        for journal in journals_of(path.parent, entry.name):
            with suppress(MissingFile):
                yield from read_journal(journal, origin.header(entry.name, entry.sha256))[0]
    if exists(path):
        yield from read_result(path, origin)


def has_ended(record: dict[str, Any], later: list[PassConfig]) -> bool:
    """Whether an item waits for nothing any more, with the passes that are still to come.

    They take up accepted ones, and those that another judge may decide anew.
    """
    if record["status"] not in ENDED:
        return False
    if record["status"] == "accepted":
        return not later
    judged = any(STEPS.get(step.use).adds == "verdict" for pass_config in later for step in pass_config.steps)
    return not (judged and record["status"] == "rejected" and record["decided"])
