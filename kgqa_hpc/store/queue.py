"""Choose the next shard: each worker decides alone, from the files of the run folder.

A worker checks the shards in its own pseudo-random order, so that thousands of workers rarely meet; it remembers
which shards are done and when to check a lease again. The folder of results is listed only after many shards in
a row were done, never per claim. The number of file system calls is bounded for 3,200 workers at once:
docs/reference/format.md, section 8.

`sweep` cleans up at the start of a run: leftovers of dead processes, and unreadable results. One process
(rank 0) does it; two at once are harmless.
"""

import os
import random
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kgqa_hpc.errors import CorruptFile, MissingFile
from kgqa_hpc.store import atomic, cleanup, partition, shards
from kgqa_hpc.store.lease import SPECULATIVE, Holder, Lease, Leases
from kgqa_hpc.store.run_folder import RunFolder

RESULT = ".h5"
# Number of done shards in a row after which all results are listed once.
DONE_IN_A_ROW = 64
# Seconds per remaining shard until a live lease is checked again: at most four checks per second and worker.
PACE = 0.25
SOONEST = 5.0
# Largest number of live leases checked in one search. Near the end almost all remaining shards are leased:
# if thousands of workers checked all, they would make two million calls a second (simulate_workers.py --looks).
LOOKS = 32
# Number of leased shards that an idle worker checks each time for a result, or for speculative work.
SAMPLE = 16
# Longest time between two attempts of a worker that finds nothing to do.
LONGEST_WAIT = 15.0
# A shard counts as stuck after this many times the worker's mean time per shard; more than shards vary.
SLOW = 3.0
REMEMBERED = 10  # number of latest shards in the mean


@dataclass
class Supply:
    """Estimate of whether free shards run out, from the shards that a worker checked last: `free` or leased.

    Far from the end of the run, few of these are leased. All workers must notice the end before the last shard is
    claimed: a worker that does not notice would hold more shards than others and end later (tools/simulate_workers.py).
    """

    free: deque[bool] = field(default_factory=lambda: deque(maxlen=SAMPLE))

    @property
    def low(self) -> bool:
        """Whether other workers hold at least an eighth of the unfinished shards."""
        return len(self.free) >= 4 and 8 * sum(self.free) <= 7 * len(self.free)


class ShardQueue:
    """The shards that are not done, as one worker sees them; a shard is done when `folder` holds NAME + `suffix`."""

    def __init__(self, names: Sequence[str], folder: Path, suffix: str, leases: Leases) -> None:
        self._folder = folder
        self._suffix = suffix
        self.leases = leases
        self._random = random.Random(f"{leases.worker} {folder.name}")
        self._todo = deque(self._random.sample(names, len(names)))
        self._not_before: dict[str, float] = {}
        self._claimed: dict[str, Lease] = {}
        self._done_in_a_row = 0
        self._in_vain = 0
        self._look_again = 0.0
        # Seconds from claim to result of this worker's latest shards; the worker adds them.
        self.durations: deque[float] = deque(maxlen=REMEMBERED)
        self.supply = Supply()

    @property
    def complete(self) -> bool:
        """Whether this worker has found every shard done, as of its last call of `claim` or `next`."""
        return not self._todo

    def next(self) -> str | None:
        """A shard that is neither done nor leased, or whose lease has expired; None when none was found.

        The next call continues where this one ended. It only searches; `claim` also claims.
        """
        looks = 0
        for _ in range(len(self._todo)):
            if not self._todo:
                break
            if looks == LOOKS:
                return None
            name = self._todo[0]
            if name in self._claimed:
                # Claimed by this process: offer the shard again only after its release, even if the lease was lost,
                # because the worker may not have noticed yet and must not open a shard twice.
                if not self._drop_if_done() and self._claimed[name].nonce not in self.leases.held:
                    del self._claimed[name]
            elif self._not_before.get(name, 0.0) > time.monotonic():
                self._todo.rotate(-1)
            elif not self._drop_if_done():
                holder = self.leases.holder(name)
                free = holder is None or self.leases.expired(holder)
                self.supply.free.append(free)
                if holder is None or free:
                    return name
                self._look_later(name, holder)
                looks += 1
        for _ in range(min(SAMPLE, len(self._todo))):
            if self._todo:
                self._drop_if_done()
        return None

    def claim(self, slow_after: float | None = None) -> Lease | None:
        """Claim a shard and return its lease; None if no shard is free now.

        Then wait `poll_interval` and ask again, unless all is `complete`. With `slow_after`, and no free shard: a
        second, speculative lease on a shard that its owner has held for more than so many seconds. The first
        committed result wins.
        """
        lease = None
        while lease is None and (name := self.next()) is not None:
            lease = self._claim_undone(name)
            self._not_before[name] = time.monotonic() + self.jitter(SOONEST)
        if lease is None and slow_after is not None:
            for name in self._random.sample(self._todo, min(SAMPLE, len(self._todo))):
                holder = None if name in self._claimed else self.leases.holder(name)
                slow = holder is not None and holder.held > slow_after
                if slow and (lease := self._claim_undone(name, SPECULATIVE)) is not None:
                    break
        self._in_vain = 0 if lease is not None else self._in_vain + 1
        return lease

    def claim_when_due(self, *, idle: bool) -> Lease | None:
        """Claim a lease; None if no shard is free, or it is too early to look again.

        `idle`: this worker has nothing else to do, so it may help a straggler. Raises DiskFull, StoreError.
        """
        if time.monotonic() < self._look_again:
            return None
        lease = self.claim(self.slow_after if idle else None)
        if lease is None:
            self._look_again = time.monotonic() + self.poll_interval()
        return lease

    @property
    def slow_after(self) -> float | None:
        """Seconds after which another worker's shard counts as stuck; None before this worker has finished a shard."""
        if not self.durations:
            return None
        return max(SLOW * sum(self.durations) / len(self.durations), self.leases.expiry)

    def poll_interval(self) -> float:
        """Seconds to wait after a `claim` that returned None: from half a second up, with jitter."""
        return self.jitter(min(0.5 * 1.5 ** min(self._in_vain, 20), LONGEST_WAIT))

    def is_done(self, name: str, surely: bool = False) -> bool:
        """Whether the shard is done. `surely` makes a network file system ask its server first."""
        if surely:
            # Opening a folder makes NFS ask for its change time and forget cached "no such file" answers.
            with atomic.disk_errors(self._folder), suppress(FileNotFoundError):
                os.close(os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY))
        return atomic.exists(self._folder / f"{name}{self._suffix}")

    def jitter(self, seconds: float) -> float:
        """A time around `seconds`, so that thousands of waiting workers do not look at the same moment."""
        return seconds * self._random.uniform(0.75, 1.25)

    def _claim_undone(self, name: str, suffix: str = "") -> Lease | None:
        """Claim a shard's lease, and release it if the shard was finished meanwhile."""
        lease = self.leases.claim(name + suffix)
        if lease is not None and self.is_done(name, surely=True):
            lease.release()
            return None
        if lease is not None:
            self._claimed[name] = lease
        return lease

    def _drop_if_done(self) -> bool:
        """Remove the first shard if it is done, else move it to the end."""
        if not self.is_done(self._todo[0]):
            self._todo.rotate(-1)
            self._done_in_a_row = 0
            return False
        name = self._todo.popleft()
        self._not_before.pop(name, None)
        self._claimed.pop(name, None)
        self._done_in_a_row += 1
        if self._done_in_a_row >= DONE_IN_A_ROW:
            done = _names(self._folder, self._suffix)
            self._todo = deque(name for name in self._todo if name not in done)
            self._done_in_a_row = 0
        return True

    def _look_later(self, name: str, holder: Holder) -> None:
        pause = max(SOONEST, PACE * len(self._todo))
        if not self.leases.beats(holder):
            # The lease may belong to a dead worker: look again when it would expire.
            pause = min(pause, self.leases.patience(holder) + 1.0)
        self._not_before[name] = time.monotonic() + self.jitter(pause)


def pass_queue(run: RunFolder, pass_name: str, worker: str, expiry: float = 120.0) -> ShardQueue:
    """The queue of a pass of a run."""
    leases = Leases(run.leases(pass_name), worker, expiry)
    return ShardQueue(partition.read_shards_manifest(run).names, run.results(pass_name), RESULT, leases)


def done_shards(run: RunFolder, pass_name: str) -> set[str]:
    """The shards of a pass that have a result, by one listing of the folder. Raises StoreError."""
    return _names(run.results(pass_name), RESULT)


def _names(folder: Path, suffix: str) -> set[str]:
    with atomic.disk_errors(folder):
        files = os.listdir(folder) if atomic.exists(folder) else []
    return {name.removesuffix(suffix) for name in files if name.endswith(suffix) and not name.startswith(".")}


class Swept(NamedTuple):
    """Counts of `sweep`: temp files and journals of done shards removed, corrupt results quarantined."""

    temps: int = 0
    journals: int = 0
    quarantined: int = 0


def sweep(run: RunFolder, pass_name: str) -> Swept:
    """Remove old temp files, and journals of shards with a result; quarantine results that are damaged or foreign.

    Reads 1 KiB per result. Raises StoreError.
    """
    origin, folder, leases = run.origin(pass_name), run.results(pass_name), run.leases(pass_name)
    journals = quarantined = 0
    for shard in sorted(done_shards(run, pass_name)):
        path = run.result(pass_name, shard)
        try:
            shards.read_summary(path, origin)
        except CorruptFile as problem:
            quarantined += cleanup.quarantine(run.quarantine, path, problem.message) is not None
        except MissingFile:  # another process was first
            pass
    done = done_shards(run, pass_name)
    for path in sorted(folder.glob("*.journal")):
        if path.name.split(".")[0] in done:
            with atomic.disk_errors(path), suppress(FileNotFoundError):
                atomic.unlink(path)
                journals += 1
    written = [run.path, run.stats, run.pins, run.shards, folder, run.quarantine, leases, *leases.glob("*/")]
    return Swept(sum(map(cleanup.sweep_temps, written)), journals, quarantined)
