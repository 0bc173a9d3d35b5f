"""Growth of a run towards a target: process the sample, count, draw a larger one, until target or budget is reached.

The decisions depend on the content of finished samples alone, not on the order of work or on restarts.

Workers coordinate through the run folder only. One worker at a time, under a lease, evaluates the finished sample and
writes its decision to target.json before it acts, so after a kill another worker continues with the same sample size.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path
from typing import Any

from kgqa_hpc.config import RunConfig
from kgqa_hpc.config.sections import Target
from kgqa_hpc.errors import CorruptFile, InputError, StoreError
from kgqa_hpc.runs import open_run, run_config
from kgqa_hpc.runs.open import alone
from kgqa_hpc.runs.sampling import extend, size_of
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import exists, make_folder, read_if_there
from kgqa_hpc.store.canonical import read_document, write_document
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note
from kgqa_hpc.text.streams import parse_json
from kgqa_hpc.work.run import run_command

KIND = "target"
ROLE = ".target"  # name of the lease of the decision; no pass can have this name
ALL = "all"
ROOM = 1.02  # factor on the estimated sample size, so that a small extra round is rarely needed
STEP = 4  # largest factor by which a sample grows in one round: the first acceptance rates are uncertain
LONGEST_LOG = 1 << 28  # largest number of bytes read from the end of a log


@dataclass(frozen=True, slots=True)
class Standing:
    """A finished sample: its requested size, its cost, and its items and accepted records by group.

    `even`: the size counts items per group (as for shapes), else items in all.
    """

    size: int
    even: bool
    sampled: dict[str, int]
    accepted: dict[str, int]
    spent: dict[str, float]  # resources spent so far, by the keys of Budget

    @property
    def items(self) -> int:
        return sum(self.sampled.values())

    def counts(self, target: Target) -> dict[str, int]:
        """Accepted records by group or in total, whichever the target limits."""
        if target.per == ALL:
            return {ALL: sum(self.accepted.values())}
        return {group: self.accepted.get(group, 0) for group in self.sampled}


def run_towards(folder: Path, worker: str | None = None, *, trust: bool = False) -> None:
    """Process a run until it is complete and its target, if any, is reached; see kgqa_hpc/work."""
    finish_growth(folder, trust=trust)
    run_command(folder, worker, trust=trust, further=_further)


def is_due(folder: Path) -> bool:
    """Whether a target waits for a decision or a larger sample, although every item drawn so far may be done.

    False if config.yaml cannot be read; the next `kgqa run` reports it.
    """
    run = RunFolder(folder)
    with suppress(InputError, StoreError):
        rounds = _rounds(run)
        return bool(run.config().get("target")) and (not rounds or rounds[-1]["next"] is not None)
    return False


def _further(run: RunFolder, config: RunConfig, stopped: Callable[[float], bool]) -> bool:
    """Decide about a run whose shards are all done; returns whether more work exists, after growing the sample.

    `stopped(seconds)` waits for that time or until this process must stop. Raises StoppedEarly, and as `extend`.
    """
    if config.target is None or _ended(run, config):
        return False
    with alone(run, ROLE, config.runtime.lease, stopped):
        present = run_config(run)
        if size_of(present) != size_of(config):
            return True  # another worker has drawn the larger sample
        if not _ended(run, config):
            try:
                rounds = [*_rounds(run), _decide(run, present)]
            except CorruptFile:
                return True  # a damaged result is in quarantine: its shard is processed again first
            document = {"format": f"kgqa-{KIND}", "version": 1, "rounds": rounds}
            write_document(run.path / "target.json", document)
        size = _rounds(run)[-1]["next"]
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


def finish_growth(folder: Path, *, trust: bool = False) -> None:
    """Complete a growth of the sample that a killed process had started, if there is one."""
    run, config = open_run(folder)
    if config.target is not None and _pending_size(run) is not None:
        with alone(run, ROLE, config.runtime.lease):
            if (size := _pending_size(run)) is not None:
                _grow(run, size, trust=trust)


def _pending_size(run: RunFolder) -> int | None:
    """The last decided sample size, if the sample has not grown to it yet; otherwise None.

    The manifest holds the present size; it is the last file that a growth changes.
    """
    next_size: int | None = (_rounds(run) or [{}])[-1].get("next")
    present = run.manifest().sections["sampling"]["values"].get(type(run_config(run).anchors).size)
    return next_size if next_size is not None and present is not None and present < next_size else None


def _decide(run: RunFolder, config: RunConfig) -> dict[str, Any]:
    """The decision after a finished sample, as plain data. Raises CorruptFile."""
    assert config.target is not None
    now = _standing(run, config)
    size, why = next_size(config.target, now)
    counts, each_goal = now.counts(config.target), config.target.accepted
    have, goal = sum(min(number, each_goal) for number in counts.values()), each_goal * len(counts)
    then = why if size is None else f"next a sample of {size:,} instead of {now.size:,}"
    note(f"target  {have:,} of {goal:,} accepted, {now.items:,} items: {then}")
    return {
        "of": _identity(run, config),
        "size": now.size,
        "sampled": now.items,
        "accepted": counts,
        "spent": now.spent,
        "next": size,
        "why": why,
    }


def _standing(run: RunFolder, config: RunConfig) -> Standing:
    """Counts of the finished sample after all filters of merge, and the resources spent."""
    from kgqa_hpc.dataset.merge import filtered
    from kgqa_hpc.dataset.read import open_work

    work = open_work(run)
    if work.missing:
        raise CorruptFile(f"{run.path}: a result was set aside; its shard is not done again yet")
    scratch = run.path / ".target"
    shutil.rmtree(scratch, ignore_errors=True)
    make_folder(scratch)
    query = "SELECT grp, count(*) FILTER (status = 'accepted') FROM candidate GROUP BY grp ORDER BY grp"
    try:
        with filtered(work, scratch) as (candidates, accounting):
            accepted = dict(candidates.database.execute(query).fetchall())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sampled = {name: counts.sampled for name, counts in accounting.groups.items()}
    tokens = sum(row["tokens"][kind] for row in accounting.requests for kind in ("prompt", "completion"))
    hours = round(_gpu_hours(run, config), 4)
    spent = {"items": sum(sampled.values()), "tokens": tokens, "gpu_hours": hours}
    prices = {
        step.label: config.engine_of(entry.name).price for entry in config.passes for step in entry.steps
    }
    if any(prices.values()):
        rows = [(prices.get(row["step"]), row["tokens"]) for row in accounting.requests]
        spent["money"] = round(sum(price.of(used) for price, used in rows if price), 6)
    even = type(config.anchors).size == "per_shape"
    return Standing(size_of(config) or 0, even, sampled, accepted, spent)


def _gpu_hours(run: RunFolder, config: RunConfig) -> float:
    """GPU-hours: for each worker session, the time from its first to its last log line times its GPUs.

    Malformed lines of the untrusted log are skipped, among them the torn last line of a killed worker.
    """
    least = max(int(engine.gpus_per_worker) for engine in config.engines)
    seconds = 0.0
    for path in sorted(run.logs.glob("*/*.jsonl")):
        before, gpus = None, 0
        for line in (read_if_there(path, LONGEST_LOG) or b"").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                entry = parse_json(line)
                now = float(entry["time"])
                if entry.get("event") == "started":
                    named = entry.get("gpus")
                    gpus = len(named.split(",")) if isinstance(named, str) and named else least
                elif before is not None:
                    seconds += gpus * (now - before)
                if before is not None or entry.get("event") == "started":
                    before = now
    return seconds / 3600


def _identity(run: RunFolder, config: RunConfig) -> str:
    """Digest of everything a decision depends on: manifest (with the sample), `dataset:` and `target:`."""
    plain = config.plain()
    return canonical.digest([run.manifest().digest, plain["dataset"], plain["target"]])


def _rounds(run: RunFolder) -> list[dict[str, Any]]:
    """All decisions so far; empty if the file is damaged, because they can be derived again from the results."""
    path = run.path / "target.json"
    try:
        return list(read_document(path, KIND)["rounds"]) if exists(path) else []
    except CorruptFile:
        return []


def _ended(run: RunFolder, config: RunConfig) -> bool:
    """Whether the last decision refers to this sample and ends the growth."""
    rounds = _rounds(run)
    return bool(rounds) and rounds[-1]["of"] == _identity(run, config) and rounds[-1]["next"] is None


def next_size(target: Target, now: Standing) -> tuple[int | None, str]:
    """The next sample size, or None when the target needs no larger one; and the reason, in words."""
    counts = now.counts(target)
    lacking = {group: have for group, have in counts.items() if have < target.accepted}
    if not lacking:
        return None, "reached"
    # Groups that a larger sample may extend: those with as many items as requested.
    if now.even:
        growing = {group for group, number in now.sampled.items() if number >= now.size}
    else:
        growing = set(now.sampled) if now.items >= now.size else set()
    able = [have for group, have in lacking.items() if group == ALL or group in growing]
    if not growing or not able:
        return None, "there are no more anchors"
    factor = max(target.accepted / have * ROOM if have else STEP for have in able)
    wished = max(now.size + 1, ceil(now.size * min(factor, STEP)))
    most, limit = _affordable(target, now, growing)
    if most <= now.size:
        return None, f"the budget of {limit} allows no more"
    return min(wished, most), "more is needed"


def _affordable(target: Target, now: Standing, growing: set[str]) -> tuple[int, str]:
    """The largest sample size that the budget allows at the present cost per item, and the limit that binds."""
    most, limit = STEP * now.size + 1, ""
    for name, allowed in target.budget:
        spent = now.spent.get(name, 0)
        if allowed is None or spent <= 0:
            continue
        items = floor(now.items * allowed / spent)
        ended = sum(number for group, number in now.sampled.items() if group not in growing)
        size = (items - ended) // len(growing) if now.even else items
        if size < most:
            most, limit = size, name.replace("gpu_hours", "GPU-hours")
    return most, limit
