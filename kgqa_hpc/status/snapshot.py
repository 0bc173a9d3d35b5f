"""Where a run stands, derived from its files alone: what is done, how fast it goes, who is stalled.

`survey` reads 1 KiB per result it has not seen yet (the lead saves its sums in status.json), one small file
per worker, and nothing else, so it answers within two seconds on ten thousand shards.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.cluster import slurm
from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.status import history
from kgqa_hpc.status.tally import Tally
from kgqa_hpc.status.worker_states import ALIVE, read_states
from kgqa_hpc.store import canonical
from kgqa_hpc.store.partition import ShardsManifest, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder

STALLED = 120.0  # s without an answer although requests are in flight
VERDICTS = ("accepted", "rejected", "invalid", "failed", "waiting")
Status = dict[str, Any]


def survey(folder: Path) -> Status:
    """The state of a run as plain data. Raises InputError when there is no run."""
    run = RunFolder.open(folder)
    config = parse_config(run.config(), str(run.config_file))
    shards = _shards(run)
    tallies = load_tallies(run, [each.name for each in config.passes], shards.names if shards else [])
    for tally in tallies:
        tally.refresh(run)
    return compose(run, shards, tallies, list(read_states(run.logs)), slurm.queue_state(run.logs))


def load_tallies(run: RunFolder, passes: Sequence[str], names: list[str]) -> list[Tally]:
    """The sums the lead saved last, or empty ones."""
    try:
        saved = canonical.loads(run.status_file.read_bytes())["tallies"]
        return [Tally.from_dict(name, saved[name], names) for name in passes]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return [Tally(name) for name in passes]


def compose(
    run: RunFolder,
    shards: ShardsManifest | None,
    tallies: Sequence[Tally],
    states: Sequence[Status],
    queue: Sequence[slurm.Job] | None,
) -> Status:
    """Put the state together; `tallies` in the order of the passes, refreshed."""
    alive = [state for state in states if state["age"] <= ALIVE]
    total = len(shards.shards) if shards else 0
    items = shards.items if shards else 0
    current = next((tally for tally in tallies if len(tally.counted) < total), tallies[-1])
    in_journals = sum(state.get("ended_open", 0) for state in alive)
    ended = sum(tally.items for tally in tallies) + in_journals
    everything = items * len(tallies)
    speed = history.rate(run.logs)
    complete = total > 0 and all(len(tally.counted) == total for tally in tallies)
    return {
        "run": run.name,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "complete": complete,
        "pass": current.pass_name,
        "shards": {
            "total": total,
            "done": len(current.counted),
            "in_work": sum(state.get("open_shards", 0) for state in alive),
            "quarantined": _count(run.quarantine, ".reason.json"),
        },
        "items": {"total": everything, "ended": min(ended, everything)},
        "verdicts": {**tallies[-1].counts, "waiting": in_journals},
        "reasons": dict(tallies[-1].reasons),
        "passes": [_pass(tally) for tally in tallies],
        "rate": {"per_day": speed.overall, "last_hour_per_day": speed.last_hour},
        "seconds_left": None if complete else _seconds_left(everything - ended, speed),
        "workers": _workers(states, alive),
        "journal_bytes": sum(_journal_bytes(run.results(tally.pass_name)) for tally in tallies),
        "queue": None if queue is None else [job.to_dict() for job in queue],
    }


def _shards(run: RunFolder) -> ShardsManifest | None:
    try:
        return read_shards_manifest(run) if run.shards_manifest.exists() else None
    except CorruptFile:
        return None  # `kgqa run` quarantines it and cuts the shards again


def _pass(tally: Tally) -> Status:
    data = tally.to_dict()
    del data["counted"]
    return {"name": tally.pass_name, "shards_done": len(tally.counted), **data}


def _workers(states: Sequence[Status], alive: Sequence[Status]) -> Status:
    speeds = [
        state["ended"] / state["up"] for state in alive if state.get("ended") and state.get("up", 0) > 60
    ]
    stalled = [s["worker"] for s in alive if s.get("in_flight") and s.get("silent", 0) > STALLED]
    return {
        "alive": len(alive),
        "silent": [state["worker"] for state in states if state["age"] > ALIVE],
        "stalled": stalled,
        "slowest": max(sum(speeds) / len(speeds) / min(speeds), 1.0) if speeds else None,
        "engine_deaths": sum(state.get("deaths", 0) for state in alive),
        "retries": sum(state.get("retries", 0) for state in alive),
        "list": list(alive),
    }


def _seconds_left(left: int, speed: history.Rate) -> float | None:
    per_day = speed.last_hour or speed.overall
    return left / per_day * history.DAY if per_day else None


def _count(folder: Path, ending: str) -> int:
    try:
        return sum(entry.name.endswith(ending) for entry in folder.iterdir())
    except FileNotFoundError:
        return 0


def _journal_bytes(folder: Path) -> int:
    """Bytes of journaled items. They grow with every answer, so two looks tell whether anything was kept."""
    total = 0
    for path in folder.glob("*.journal"):
        try:
            with path.open("rb") as file:
                header = file.readline()
                total += file.seek(0, 2) - len(header)
        except FileNotFoundError:
            continue  # its shard was finished just now
    return total
