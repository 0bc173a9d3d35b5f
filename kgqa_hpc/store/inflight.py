"""A shard in flight: what predecessors finished is taken over, what is finished here is kept, the result
ends it.

`resume` and `finish` are the two ends of a worker's work on a shard; between them it appends to the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.journal import Damage, Journal, open_next, read_journal, remove_journals
from kgqa_hpc.store.quarantine import quarantine_copy
from kgqa_hpc.store.result import write_result
from kgqa_hpc.store.run import RunFolder
from kgqa_hpc.store.shard import ShardEntry


@dataclass(frozen=True, slots=True)
class InFlight:
    """The own journal of a shard, the records that predecessors finished by id, and what of theirs was
    damaged.
    """

    journal: Journal
    records: dict[str, dict[str, Any]]
    damages: tuple[Damage, ...]


def resume(
    run: RunFolder,
    pass_name: str,
    shard: ShardEntry,
    fingerprint: str,
    worker: str,
    commit_every: float | None = None,
) -> InFlight:
    """Open a journal of one's own for a leased shard and take over what others finished of it.

    `fingerprint` is the run's digest. A damaged journal's whole lines count; a copy of it goes to quarantine.
    Where an id comes twice, the first whole record counts. Raises DiskFull, StoreError, NewerFormat.
    """
    header = {
        "fingerprint": fingerprint,
        "pass": pass_name,
        "shard": shard.name,
        "shard_sha256": shard.sha256,
    }
    own = {**header, "worker": worker}
    journal, before = open_next(run.results(pass_name), shard.name, own, commit_every)
    records: dict[str, dict[str, Any]] = {}
    damages: list[Damage] = []
    for path in before:
        found, damage = _read(run, path, header)
        for record in found:
            records.setdefault(record["id"], record)
        damages += [damage] if damage else []
    return InFlight(journal, records, tuple(damages))


def finish(
    run: RunFolder,
    pass_name: str,
    shard: str,
    records: Sequence[dict[str, Any]],
    header: Mapping[str, Any],
    journal: Journal,
) -> bool:
    """Commit a shard's result (records in the order of the shard) and remove its journals.

    False when another worker was first: then its records count, these do not. Raises DiskFull, StoreError;
    the journals are then still there.
    """
    first = write_result(run.result(pass_name, shard), records, dict(header))
    journal.close()
    remove_journals(run.results(pass_name), shard)
    return first


def _read(run: RunFolder, path: Path, header: dict[str, Any]) -> tuple[list[dict[str, Any]], Damage]:
    try:
        found, damage = read_journal(path, header)
    except StoreError:
        if path.exists():
            raise
        return [], Damage(path)  # the shard was finished meanwhile, and its journals removed
    if damage:
        quarantine_copy(run.quarantine, path, str(damage))
    return found, damage
