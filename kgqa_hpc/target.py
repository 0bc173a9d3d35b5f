"""`kgqa run` towards a target: run, look, draw a larger sample, run again, until it or the budget is reached.

Workers know of each other only through the run folder, as everywhere: one at a time, under a lease, looks at the
finished sample and writes what follows into target.json before it does it, so whoever comes after a kill goes on
with the same number.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kgqa_hpc.config import RunConfig
from kgqa_hpc.config.dataset import Target
from kgqa_hpc.dataset.target import Standing, next_size
from kgqa_hpc.errors import CorruptFile, InputError
from kgqa_hpc.runs import open_run, run_config
from kgqa_hpc.runs.alone import alone
from kgqa_hpc.runs.sampling import extend, size_of
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import exists, make_folder
from kgqa_hpc.store.document import read_document, write_document
from kgqa_hpc.store.regular import read_if_there
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note
from kgqa_hpc.text import bounded_json
from kgqa_hpc.work.run import run_command

KIND = "target"
ROLE = ".target"  # no pass can have this name
LONGEST_LOG = 1 << 28  # bytes of a log that are read, from its end


def run_towards(folder: Path, worker: str | None = None, *, trust: bool = False) -> None:
    """Work on a run until it is complete and, where it has one, its target is reached; see work/run.py."""
    finish_growth(folder, trust=trust)
    run_command(folder, worker, trust=trust, further=_further)


def _further(run: RunFolder, config: RunConfig, stopped: Callable[[float], bool]) -> bool:
    """Whether there is more to do on a run whose every shard is done; the sample is larger then.

    `stopped(seconds)` waits so long, or until this process is to stop. Raises StoppedEarly, and as `extend`.
    """
    if config.target is None or _ended(run, config):
        return False
    with alone(run, ROLE, config.runtime.lease, stopped):
        present = run_config(run)
        if size_of(present) != size_of(config):
            return True  # another worker has drawn the larger sample
        if not _ended(run, config):
            try:
                _note(run, _decide(run, present))
            except (CorruptFile, _Unfinished):
                return True  # a result was set aside: it is done again first
        size = _last(run)["next"]
        if size is not None:
            _grow(run, size)
        return size is not None


def _grow(run: RunFolder, size: int, *, trust: bool = False) -> None:
    """Draw the larger sample, unless another worker drew it while this process was suspended."""
    try:
        extend(run.path, size, trust=trust)
    except InputError:
        if (size_of(run_config(run)) or 0) < size:
            raise


class _Unfinished(Exception):
    """Work is left in the sample, so nothing can be decided."""


def finish_growth(folder: Path, *, trust: bool = False) -> None:
    """Go on with the larger sample that a killed process had begun to draw, if any."""
    run, config = open_run(folder)
    if config.target is None or not _growth_pending(run):
        return
    with alone(run, ROLE, config.runtime.lease):
        if _growth_pending(run):
            _grow(run, _last(run)["next"], trust=trust)


def _growth_pending(run: RunFolder) -> bool:
    """Whether the last decision was a larger sample than that of the manifest, which a growth writes last."""
    next_size = _last(run).get("next")
    key = type(run_config(run).anchors).size
    present = run.manifest().sections["sampling"]["values"].get(key)
    return next_size is not None and present is not None and present < next_size


def _decide(run: RunFolder, config: RunConfig) -> dict[str, Any]:
    """What follows from the finished sample, as plain data. Raises CorruptFile, _Unfinished."""
    assert config.target is not None
    now = _standing(run, config)
    size, why = next_size(config.target, now)
    _say(config.target, now, size, why)
    return {
        "of": _identity(run, config),
        "size": now.size,
        "sampled": now.items,
        "accepted": now.counts(config.target),
        "spent": now.spent,
        "next": size,
        "why": why,
    }


def _standing(run: RunFolder, config: RunConfig) -> Standing:
    """The finished sample as merge sees it, after every filter."""
    from kgqa_hpc.dataset.merge import filtered
    from kgqa_hpc.dataset.read import open_work

    work = open_work(run)
    if work.missing:
        raise _Unfinished
    scratch = run.path / ".target"
    shutil.rmtree(scratch, ignore_errors=True)
    make_folder(scratch)
    try:
        with filtered(work, scratch) as (candidates, accounting):
            query = (
                "SELECT grp, count(*) FILTER (status = 'accepted') FROM candidate GROUP BY grp ORDER BY grp"
            )
            accepted = dict(candidates.database.execute(query).fetchall())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sampled = {name: counts.sampled for name, counts in accounting.groups.items()}
    tokens = sum(row["tokens"][kind] for row in accounting.requests for kind in ("prompt", "completion"))
    hours = round(_gpu_hours(run, config), 4)
    spent = {"items": sum(sampled.values()), "tokens": tokens, "gpu_hours": hours}
    even = type(config.anchors).size == "per_shape"
    return Standing(size_of(config) or 0, even, sampled, accepted, spent)


def _gpu_hours(run: RunFolder, config: RunConfig) -> float:
    """Hours between the first and the last line of every worker's sessions, times its GPUs."""
    least = max(int(config.engine_of(pass_config.name).gpus_per_worker) for pass_config in config.passes)
    seconds = 0.0
    for path in sorted(run.logs.glob("*/*.jsonl")):
        began, gpus = 0.0, 0
        for entry in _log_entries(path):
            if entry.get("event") == "started":
                named = entry.get("gpus")
                gpus = len(named.split(",")) if isinstance(named, str) and named else least
            elif began:
                seconds += gpus * (entry["time"] - began)
            began = entry["time"]
    return seconds / 3600


def _log_entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a worker's log that tell a time, from the first start on; others may have written the file."""
    started = False
    for line in (read_if_there(path, LONGEST_LOG) or b"").splitlines():
        try:
            entry = bounded_json.loads(line)
        except ValueError:
            continue  # the torn last line of a killed worker
        if isinstance(entry, dict) and isinstance(entry.get("time"), int | float):
            started = started or entry.get("event") == "started"
            if started:
                yield entry


def _identity(run: RunFolder, config: RunConfig) -> str:
    """What a decision follows from: the run with its sample, what merge keeps, and the target."""
    plain_ = config.plain()
    return canonical.digest([run.manifest().digest, plain_["dataset"], plain_["target"]])


def _rounds(run: RunFolder) -> list[dict[str, Any]]:
    """All decisions so far; none where they cannot be read, for they follow from the results again."""
    path = run.path / "target.json"
    try:
        return list(read_document(path, KIND)["rounds"]) if exists(path) else []
    except CorruptFile:
        return []


def _last(run: RunFolder) -> dict[str, Any]:
    rounds = _rounds(run)
    return rounds[-1] if rounds else {}


def _note(run: RunFolder, decision: dict[str, Any]) -> None:
    rounds = [*_rounds(run), decision]
    write_document(run.path / "target.json", {"format": f"kgqa-{KIND}", "version": 1, "rounds": rounds})


def _ended(run: RunFolder, config: RunConfig) -> bool:
    """Whether this very sample was decided on already, and nothing more is to be drawn."""
    last = _last(run)
    return bool(last) and last["of"] == _identity(run, config) and last["next"] is None


def _say(target: Target, now: Standing, size: int | None, why: str) -> None:
    counts = now.counts(target)
    have = sum(min(number, target.accepted) for number in counts.values())
    goal = target.accepted * len(counts)
    then = why if size is None else f"next a sample of {size:,} instead of {now.size:,}"
    note(f"target  {have:,} of {goal:,} accepted, {now.items:,} items: {then}")
