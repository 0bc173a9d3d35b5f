"""House-keeping at the start of a run: what dead processes left behind, and results that do not read.

One process does it (rank 0); doing it twice at once is harmless.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kgqa_hpc.errors import CorruptFile, MissingFile
from kgqa_hpc.store import atomic, disk
from kgqa_hpc.store.litter import sweep_temps
from kgqa_hpc.store.origin import ResultOrigin
from kgqa_hpc.store.quarantine import quarantine
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.results import read_summary
from kgqa_hpc.store.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Swept:
    """What `sweep` did: temp files and journals of done shards removed, corrupt results quarantined."""

    temps: int = 0
    journals: int = 0
    quarantined: int = 0


def sweep(run: RunFolder, pass_name: str) -> Swept:
    """Remove old temp files and journals of shards whose result is there, and quarantine results whose header
    fails or that another run or pass has made.

    Reads 1 KiB per result. Raises StoreError.
    """
    origin = run.origin(pass_name)
    quarantined = sum(
        _quarantine_corrupt(run, origin, shard) for shard in sorted(done_shards(run, pass_name))
    )
    done = done_shards(run, pass_name)
    journals = 0
    folder = run.results(pass_name)
    for path in sorted(folder.glob("*.journal")) if folder.is_dir() else ():
        if path.name.split(".")[0] in done:
            with atomic.disk_errors(path), suppress(FileNotFoundError):
                disk.unlink(path)
                journals += 1
    return Swept(sum(sweep_temps(place) for place in _places(run, pass_name)), journals, quarantined)


def _quarantine_corrupt(run: RunFolder, origin: ResultOrigin, shard: str) -> bool:
    path = run.result(origin.pass_name, shard)
    try:
        read_summary(path, origin)
    except CorruptFile as problem:
        return quarantine(run.quarantine, path, problem.message) is not None
    except MissingFile:  # another process was first
        return False
    return False


def _places(run: RunFolder, pass_name: str) -> list[Path]:
    leases = run.leases(pass_name)
    fans = [entry for entry in leases.iterdir() if entry.is_dir()] if leases.is_dir() else []
    return [run.path, run.stats, run.pins, run.shards, run.results(pass_name), run.quarantine, leases, *fans]
