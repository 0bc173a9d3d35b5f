"""Which shard next? Every worker answers for itself, from what lies in the run folder.

A worker goes through the shards in its own pseudo-random order, so that thousands rarely meet; it remembers
what it saw done and when a lease it met can expire at the earliest. The folder of results is listed only
when many shards in a row turn out to be done, not per claim.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from pathlib import Path

from kgqa_hpc.store.lease import SPECULATIVE, Lease, Leases
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.run import RunFolder

# So many shards found done in a row are worth one listing of all results.
DONE_IN_A_ROW = 64


class ShardQueue:
    """The shards of one pass that are not done, as one worker sees them."""

    def __init__(self, run: RunFolder, pass_name: str, worker: str, expiry: float = 120.0) -> None:
        self._run = run
        self._pass = pass_name
        self.leases = Leases(run.leases(pass_name), worker, expiry)
        names = read_shards_manifest(run).names
        self.total = len(names)
        self._random = random.Random(f"{worker} {pass_name}")
        self._random.shuffle(names)
        self._todo = deque(names)
        self._not_before: dict[str, float] = {}
        self._done_in_a_row = 0

    @property
    def complete(self) -> bool:
        """Every shard was seen done by this worker."""
        return not self._todo

    def next(self) -> str | None:
        """A shard that is neither done nor leased, or whose lease has expired; None when there is none now.

        Looks, but does not claim: `claim` does both.
        """
        for _ in range(len(self._todo)):
            if not self._todo:
                return None
            name = self._todo[0]
            if self.is_done(name):
                self._drop_done()
                continue
            self._todo.rotate(-1)
            if self._not_before.get(name, 0.0) > time.monotonic():
                continue
            holder = self.leases.holder(name)
            if holder is None or self.leases.expired(holder):
                return name
            wait = min(max(self.leases.expiry - holder.age, 1.0), self.leases.expiry)
            self._not_before[name] = time.monotonic() + self.jitter(wait)
        return None

    def claim(self, slow_after: float | None = None) -> Lease | None:
        """The lease of a shard to work on; None when there is none now (`complete` tells whether all is
        done).

        With `slow_after`, and nothing else left: a second, speculative lease on a shard that its owner has
        held for more than so many seconds. The first committed result wins.
        """
        while (name := self.next()) is not None:
            lease = self.leases.claim(name)
            if lease is None:
                self._not_before[name] = time.monotonic() + self.jitter(self.leases.expiry / 4)
            elif self.is_done(name, surely=True):
                lease.release()
            else:
                return lease
        return None if slow_after is None else self._speculate(slow_after)

    def is_done(self, name: str, surely: bool = False) -> bool:
        """Whether the shard has a result. `surely` makes a network file system ask its server first."""
        path = self._run.result(self._pass, name)
        if surely:
            _revalidate(path.parent)
        return path.exists()

    def done(self) -> set[str]:
        """The shards that have a result, by one listing."""
        return done_shards(self._run, self._pass)

    def done_count(self) -> int:
        """How many shards have a result, by one listing."""
        return len(self.done())

    def jitter(self, seconds: float) -> float:
        """A random time around `seconds`, so that thousands of waiting workers do not look at the same
        moment.
        """
        return seconds * self._random.uniform(0.75, 1.25)

    def _drop_done(self) -> None:
        self._todo.popleft()
        self._done_in_a_row += 1
        if self._done_in_a_row >= DONE_IN_A_ROW:
            done = self.done()
            self._todo = deque(name for name in self._todo if name not in done)
            self._done_in_a_row = 0

    def _speculate(self, slow_after: float) -> Lease | None:
        for name in list(self._todo):
            holder = self.leases.holder(name)
            if holder is None or holder.held <= slow_after or holder.nonce in self.leases.held:
                continue
            lease = self.leases.claim(f"{name}{SPECULATIVE}")
            if lease is None:
                continue
            if not self.is_done(name, surely=True):
                return lease
            lease.release()
        return None


def done_shards(run: RunFolder, pass_name: str) -> set[str]:
    """The shards of a pass that have a result, by one listing of the folder."""
    try:
        names = os.listdir(run.results(pass_name))
    except FileNotFoundError:
        return set()
    return {name.removesuffix(".h5") for name in names if name.endswith(".h5") and not name.startswith(".")}


def _revalidate(folder: Path) -> None:
    # Opening a folder makes NFS compare its change time with the server's and forget cached "no such file"
    # answers.
    try:
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    except FileNotFoundError:
        return
